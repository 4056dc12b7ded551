"""`ottla cluster balance`: shows the plan, starts, follows and cancels it. Each returns the exit code."""

import asyncio
import sys
import time
from typing import Final

from ottla.metadata_raft.balance_plan import BalancePlan, BrokerShare
from ottla.node.cli.answers import answer, print_json
from ottla.node.cli.topic_commands import print_table
from ottla.node.client import balance
from ottla.node.client.balance import BalanceSettings
from ottla.node.client.cluster_client import Client

POLL_S: Final = 1.0
LAG_S: Final = 3.0
SHOWN: Final = 20
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


async def plan(client: Client, *, shows_all: bool, as_json: bool) -> int:
    """Print the moves of the plan."""
    async with client:
        settings = await balance.read_settings(client)
        made = await balance.make_plan(client.renewed(), settings)
    if as_json:
        print_json(balance.as_json(made, settings))
        return 0
    if not made.moves:
        print("The cluster is balanced: nothing moves.")
    else:
        _print_moves(made, shows_all)
    _print_shares(made)
    if made.moves:
        print(_in_words(made, settings))
    return 0


async def execute(client: Client, *, waits: bool, as_json: bool) -> int:
    """Start a balance, and wait for its end if `waits`."""
    async with client:
        await balance.begin(client)
        if not waits:
            answer({"requested": True}, "The controller balances the cluster from now on.", as_json=as_json)
            return 0
        printed, is_seen, began_s = "", False, time.monotonic()
        while True:
            status = await balance.status(client.renewed())
            is_on = status.settings.is_requested or bool(status.moving)
            is_seen = is_seen or is_on
            # The broker that answers may apply the request later than the controller.
            if not is_on and (is_seen or time.monotonic() - began_s > LAG_S):
                break
            progress = f"{len(status.moving)} partitions move, {len(status.plan.moves)} are left"
            if progress != printed and not as_json:
                print(progress, file=sys.stderr, flush=True)
            printed = progress
            await asyncio.sleep(POLL_S)
    left = len(status.plan.moves)
    words = "The cluster is balanced: nothing is left to move."
    if left:  # the controller leaves partitions that moved lately, and another administrator may cancel
        words = (
            f"The balance has ended, and {left} partitions could still move: it was cancelled, or they moved "
            "within the last hour. `ottla cluster balance --plan` shows them."
        )
    answer({"requested": False, "moves": left}, words, as_json=as_json)
    return 0


async def status(client: Client, *, as_json: bool) -> int:
    """Print the current moves and the number of those that are left."""
    async with client:
        found = await balance.status(client)
    settings, moving = found.settings, found.moving
    if as_json:
        rows = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "adding": one.adding,
                "removing": one.removing,
            }
            for place, one in moving.items()
        ]
        print_json({**balance.as_json(found.plan, settings), "moving": rows})
        return 0
    if settings.is_enabled:
        print("The cluster balances itself (ottla.balance.enable).")
    elif settings.is_requested:
        print("The cluster is being balanced.")
    else:
        print("No balance was requested.")
    if moving:
        rows_shown = [(*place, _ids(one.adding), _ids(one.removing)) for place, one in moving.items()]
        print_table(("topic", "partition", "gets a replica", "loses a replica"), rows_shown)
    print(f"{len(moving)} partitions move, {len(found.plan.moves)} are left.")
    return 0


async def cancel(client: Client, *, as_json: bool) -> int:
    """Stop the balance and cancel all reassignments, also those that it did not start."""
    async with client:
        is_enabled = (await balance.read_settings(client)).is_enabled
        moved = await balance.cancel(client.renewed())
    rows = [{"topic": place.topic, "partition": place.partition} for place in moved]
    words = f"{len(moved)} moves were cancelled."
    if is_enabled:
        words += " The cluster continues to balance itself: ottla.balance.enable is true."
    answer({"cancelled": rows, "enabled": is_enabled}, words, as_json=as_json)
    return 0


def _print_moves(made: BalancePlan, shows_all: bool) -> None:
    shown = made.moves if shows_all else made.moves[:SHOWN]
    rows = [
        (
            *move.topic_partition,
            _ids(move.before),
            _ids(move.after),
            _size(move.copied_bytes),
            move.goal.value,
        )
        for move in shown
    ]
    print_table(("topic", "partition", "replicas", "new replicas", "copied", "reason"), rows)
    if len(shown) < len(made.moves):
        print(f"... and {len(made.moves) - len(shown)} more (--all shows them)")
    print()


def _print_shares(made: BalancePlan) -> None:
    def cells(share: BrokerShare) -> tuple[str, int, str, str, int]:
        fill = "-" if share.fill is None else f"{100 * share.fill:.0f} %"
        return fill, share.replicas, _size(share.size_bytes), f"{_size(share.bytes_in)}/s", share.leaders

    def both(before: object, after: object) -> object:
        return before if before == after else f"{before} -> {after}"

    rows = [
        (broker_id, *map(both, cells(share), cells(made.after[broker_id])))
        for broker_id, share in made.before.items()
    ]
    print_table(("broker", "disk", "replicas", "bytes", "bytes in", "leaders"), rows)


def _in_words(made: BalancePlan, settings: BalanceSettings) -> str:
    """Return the size of the plan and the least time that it takes, as text."""
    seconds = made.least_s(settings.max_bytes_per_second)
    return (
        f"\n{len(made.moves)} partitions change, {_size(made.copied_bytes)} are copied: at least"
        f" {_duration(seconds)} at {_size(settings.max_bytes_per_second)}/s per broker."
        "\nBegin with `ottla cluster balance --execute`."
    )


def _size(size_bytes: float) -> str:
    value, unit = float(size_bytes), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if not unit or value >= 100 else f"{value:.1f} {_UNITS[unit]}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
