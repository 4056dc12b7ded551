"""`ottla topic reassign --json` and `--generate`: generates, executes, verifies and cancels plans.

The text output is that of kafka-reassign-partitions. Each returns the exit code.
"""

import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import Results, print_json
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError
from ottla.node.cli.reassign_commands import assignment, check_moved, until_moved
from ottla.node.client import cluster_admin, throttles
from ottla.node.client.cluster_client import Client
from ottla.node.client.reassignment_plan import (
    MAX_PLAN_BYTES,
    Assignment,
    parse_plan,
    parse_topics,
    plan_as_json,
    plan_as_text,
    propose,
)
from ottla.node.client.refusal import Refused


def read_plan(path: Path) -> dict[TopicPartition, list[int]]:
    """Return the plan in a file; CommandError if it is not valid."""
    try:
        return parse_plan(_content(path))
    except ValueError as error:
        raise CommandError(f"{path} is not a plan of reassignments: {error}.", EXIT_USAGE) from None


def read_topics(path: Path) -> list[str]:
    """Return the topics in a file of topics to move; CommandError if it is not valid."""
    try:
        return parse_topics(_content(path))
    except ValueError as error:
        raise CommandError(f"{path} is not a list of topics to move: {error}.", EXIT_USAGE) from None


def parse_brokers(text: str) -> list[int]:
    """Parse `ID,ID,...`; CommandError for anything else."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 10 for word in words):
        raise CommandError(f"--broker-list {text!r} is not a list of broker ids; write ID,ID,...", EXIT_USAGE)
    if len(set(words)) < len(words):
        raise CommandError(f"--broker-list {text!r} names a broker twice.", EXIT_USAGE)
    return [int(word) for word in words]


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.", EXIT_USAGE) from None


async def generate(
    client: Client, topics: Sequence[str], brokers: Sequence[int], *, ignores_racks: bool, as_json: bool
) -> int:
    """Print the current assignment of these topics, and a plan that spreads them over these brokers."""
    async with client:
        now = await assignment(client, topics)
        there = {one.broker_id: one for one in (await cluster_admin.describe_cluster(client)).brokers}
    missing = [str(one) for one in brokers if one not in there]
    if missing:
        raise CommandError(f"There is no broker {missing[0]}; `ottla broker list` shows all brokers.")
    racks = {one: None if ignores_racks else there[one].rack for one in brokers}
    if None in racks.values() and any(racks.values()):
        raise Refused("Not all of these brokers have a rack; --disable-rack-aware ignores racks.")
    proposed = propose(now, racks, random.Random().randrange(len(brokers)))
    if as_json:
        print_json({"current": plan_as_json(now), "proposed": plan_as_json(proposed)})
        return 0
    print(f"Current partition replica assignment\n{plan_as_text(now)}\n")
    print(f"Proposed partition reassignment configuration\n{plan_as_text(proposed)}")
    return 0


async def execute(client: Client, plan: Assignment, *, rate: int | None, waits: bool, as_json: bool) -> int:
    """Start the moves of a plan; with `waits`, wait for their end and remove the throttle of `rate`."""
    topics = sorted({one.topic for one in plan})
    async with client:
        now = await assignment(client, topics)
        _check_there(now, plan)
        before = {one: now[one] for one in plan}
        if rate is not None:
            limits = {throttles.LEADER_RATE: rate, throttles.FOLLOWER_RATE: rate}
            await throttles.set_throttles(client.renewed(), rates=limits, broker_ids=None, topics=topics)
        if not as_json:
            print(f"Current partition replica assignment\n\n{plan_as_text(before)}\n")
            print("Save this to use as the --json file during rollback", flush=True)
            if rate is not None:
                print(f"The inter-broker throttle limit was set to {rate} B/s", flush=True)
        await cluster_admin.move_partitions(client.renewed(), plan)
        if not as_json:
            names = ",".join(map(str, sorted(plan)))
            print(f"Successfully started partition reassignments for {names}", flush=True)
        if waits:
            await until_moved(client, plan)
            await check_moved(client, plan)
            return await _verify(client.renewed(), plan, keeps_throttles=False, as_json=as_json)
    if as_json:
        print_json({"previous": plan_as_json(before), "started": plan_as_json(plan)})
    elif rate is not None:
        print(
            "warning: the throttle stays until --verify finds that the reassignment has completed.",
            file=sys.stderr,
        )
    return 0


async def verify(client: Client, plan: Assignment, *, keeps_throttles: bool, as_json: bool) -> int:
    """Print the state of a plan, and remove its throttle when it is complete; 1 if it is not."""
    async with client:
        return await _verify(client, plan, keeps_throttles=keeps_throttles, as_json=as_json)


async def _verify(client: Client, plan: Assignment, *, keeps_throttles: bool, as_json: bool) -> int:
    moving = await cluster_admin.list_moves(client)
    now = await assignment(client, sorted({one.topic for one in plan}))
    _check_there(now, plan)
    if not as_json:
        print("Status of partition reassignment:")
    with Results(as_json=as_json) as results:
        for one, wanted in sorted(plan.items()):
            row = {**one._asdict(), "replicas": list(now[one]), "wanted": list(wanted)}
            if one in moving:
                line = f"Reassignment of partition {one} is still in progress."
                results.add({**row, "state": "in progress"}, line)
            elif list(now[one]) == list(wanted):
                results.add({**row, "state": "completed"}, f"Reassignment of partition {one} is completed.")
            else:
                line = (
                    f"There is no active reassignment of partition {one}, but replica set is "
                    f"{_ids(now[one])} rather than {_ids(wanted)}."
                )
                results.add({**row, "state": "not moving"}, line)
    if not moving and not keeps_throttles:
        cleared = await throttles.clear_throttles(client.renewed())
        if not as_json and cleared.brokers:
            ids = _ids([one.broker_id for one in cleared.brokers])
            print(f"Clearing broker-level throttles on brokers {ids}")
        if not as_json and cleared.topics:
            names = ",".join(one.topic for one in cleared.topics)
            print(f"Clearing topic-level throttles on topics {names}")
    is_done = all(one not in moving and list(now[one]) == list(wanted) for one, wanted in plan.items())
    return 0 if is_done else EXIT_FAILURE


async def cancel(client: Client, plan: Assignment, *, as_json: bool) -> int:
    """Cancel the moves of a plan that are under way, and remove the throttle if no other partition moves."""
    async with client:
        moving = [one for one in sorted(await cluster_admin.list_moves(client)) if one in plan]
        await cluster_admin.move_partitions(client.renewed(), dict.fromkeys(moving))
        if not set(await cluster_admin.list_moves(client.renewed())) - set(moving):
            await throttles.clear_throttles(client.renewed())
    if as_json:
        print_json([one._asdict() for one in moving])
    elif moving:
        names = ",".join(map(str, moving))
        print(f"Successfully cancelled partition reassignments for: {names}")
    else:
        print("None of the specified partition reassignments are active.")
    return 0


def _check_there(now: Assignment, plan: Mapping[TopicPartition, object]) -> None:
    missing = sorted(one for one in plan if one not in now)
    if missing:
        raise CommandError(f"There is no partition {missing[0]}; nothing was changed.")


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
