"""`ottla broker ...`: lists brokers and decommissions one. Each returns the exit code."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import print_json
from ottla.node.cli.failure import CommandError
from ottla.node.cli.topic_commands import print_table
from ottla.node.client import cluster_admin, decommission, topic_admin
from ottla.node.client.cluster_client import Client

POLL_S: Final = 0.2
PrintProgress = Callable[[str], None]  # prints the progress


async def list_all(client: Client, as_json: bool) -> int:
    async with client:
        cluster = await cluster_admin.describe_cluster(client)
        topics = await topic_admin.describe_topics(client, None)
    partitions = [one for topic in topics for one in topic.partitions]
    held = Counter(broker for one in partitions for broker in one.replica_nodes)
    in_sync = Counter(broker for one in partitions for broker in one.isr_nodes)
    led = Counter(one.leader_id for one in partitions)
    rows = [
        {
            "broker": one.broker_id,
            "host": one.host,
            "port": one.port,
            "rack": one.rack,
            "state": "fenced" if one.is_fenced else "active",
            "replicas": held[one.broker_id],
            "in_sync": in_sync[one.broker_id],
            "leads": led[one.broker_id],
        }
        for one in sorted(cluster.brokers, key=lambda one: one.broker_id)
    ]
    if as_json:
        print_json(rows)
        return 0
    print_table(
        ("broker", "address", "rack", "state", "replicas", "in sync", "leads"),
        [(row["broker"], f"{row['host']}:{row['port']}", *list(row.values())[3:]) for row in rows],
    )
    return 0


# ---- decommission --------------------------------------------------------------------------------


async def show_plan(client: Client, broker_id: int, as_json: bool) -> int:
    async with client:
        await decommission.check_may_leave(client, broker_id)
        moves = await decommission.plan(client, broker_id)
    if as_json:
        rows = [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "replicas": list(one.before),
                "new_replicas": list(one.after),
            }
            for one in moves
        ]
        print_json(rows)
    elif moves:
        print_table(
            ("topic", "partition", "replicas", "new replicas"),
            [(*one.partition, _brokers(one.before), _brokers(one.after)) for one in moves],
        )
    else:
        print(f"broker {broker_id} holds nothing")
    return 0


async def decommission_broker(client: Client, broker_id: int, as_json: bool) -> int:
    async with client:
        await decommission.check_may_leave(client, broker_id)
        print_progress = _print_nothing if as_json else _print_progress
        moved: set[TopicPartition] = set()
        # Until it is stopped, a new topic may be placed on it, which is then moved too.
        while True:
            client = client.renewed()  # each step has the whole timeout
            moved.update(one.partition for one in await decommission.begin_moves(client, broker_id))
            await _until_drained(client, broker_id, print_progress)
            client = client.renewed()
            if await _wait_until_stopped(client, broker_id, print_progress) and not await decommission.plan(
                client.renewed(), broker_id
            ):
                break
        await decommission.forget(client.renewed(), broker_id)
    if as_json:
        print_json({"broker": broker_id, "moved_partitions": len(moved)})
    else:
        print(f"broker {broker_id} was removed from the cluster; {len(moved)} of its partitions were moved")
    return 0


async def _until_drained(client: Client, broker_id: int, print_progress: PrintProgress) -> None:
    """Wait until a broker holds no replica; CommandError after the timeout without progress."""
    since, printed, left = time.monotonic(), -1, -1
    while True:
        held = await decommission.held_partitions(client.renewed(), broker_id)
        if not held:
            return
        if len(held) != left:
            since, left = time.monotonic(), len(held)
        if time.monotonic() - since > client.timeout_s:
            raise CommandError(
                f"{held[0]} has not left broker {broker_id} within {client.timeout_s:g} s. Run this "
                "command again to keep waiting."
            )
        if left != printed:
            printed = left
            print_progress(f"broker {broker_id} still holds {left} partition{'' if left == 1 else 's'}")
        await asyncio.sleep(POLL_S)


async def _wait_until_stopped(client: Client, broker_id: int, print_progress: PrintProgress) -> bool:
    """Wait until a broker is down, since it would register again; return False if it gets a replica again.

    CommandError if it still runs after the timeout.
    """
    since, is_printed = time.monotonic(), False
    while True:
        if await decommission.is_stopped(client.renewed(), broker_id):
            return True
        if not is_printed:
            is_printed = True
            print_progress(
                f"broker {broker_id} holds nothing; stop it now, and it is removed from the cluster"
            )
        if time.monotonic() - since > client.timeout_s:
            raise CommandError(
                f"Broker {broker_id} holds nothing but is still running. Stop it, then run this command "
                "again to remove it from the cluster."
            )
        if await decommission.plan(client.renewed(), broker_id):
            return False
        await asyncio.sleep(POLL_S)


def _print_progress(sentence: str) -> None:
    """Print the progress on stderr, apart from the result."""
    print(sentence, file=sys.stderr, flush=True)


def _print_nothing(sentence: str) -> None:
    """Print nothing: programs read the result only."""


def _brokers(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
