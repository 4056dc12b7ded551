"""`ottla broker ...`: the nodes of a cluster, and how one leaves it. Each returns the exit code."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from logstore.errors import KafkaError
from logstore.topic_partition import TopicPartition
from metadata_raft.drain_plan import AssignedPartition, plan_drain
from node.cli import admin, cluster_admin, quorum_commands
from node.cli.client import Client
from node.cli.failure import CommandError
from node.cli.topic_commands import print_table
from node.wire.messages.describe_cluster import DescribeClusterBroker
from node.wire.messages.metadata import MetadataResponseTopic

POLL_S: Final = 0.2
Say = Callable[[str], None]  # tells of progress


async def list_all(client: Client, as_json: bool) -> int:
    async with client:
        cluster = await cluster_admin.describe_cluster(client)
        topics = await admin.describe_topics(client, None)
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
        print(json.dumps(rows))
        return 0
    print_table(
        ("broker", "address", "rack", "state", "replicas", "in sync", "leads"),
        [(row["broker"], f"{row['host']}:{row['port']}", *list(row.values())[3:]) for row in rows],
    )
    return 0


# ---- decommission --------------------------------------------------------------------------------


class Move(NamedTuple):
    """A partition, the brokers that have it and those that shall."""

    partition: TopicPartition
    before: Sequence[int]
    after: Sequence[int]


async def show_plan(client: Client, broker_id: int, as_json: bool) -> int:
    async with client:
        await _check_may_leave(client, broker_id)
        moves = await plan(client, broker_id)
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
        print(json.dumps(rows))
    elif moves:
        print_table(
            ("topic", "partition", "replicas", "new replicas"),
            [(*one.partition, _brokers(one.before), _brokers(one.after)) for one in moves],
        )
    else:
        print(f"broker {broker_id} holds nothing")
    return 0


async def decommission(client: Client, broker_id: int, as_json: bool) -> int:
    async with client:
        await _check_may_leave(client, broker_id)
        say = _nothing if as_json else _say
        moved: set[TopicPartition] = set()
        # Until it is stopped, a new topic may be placed on it: then that is moved too.
        while True:
            moves = await plan(client, broker_id)
            if moves:
                moved.update(one.partition for one in moves)
                await cluster_admin.move_partitions(client, {one.partition: one.after for one in moves})
            await _until_drained(client, broker_id, say)
            if await _is_stopped(client, broker_id, say) and not await plan(client, broker_id):
                break
        await cluster_admin.unregister_broker(client, broker_id)
    if as_json:
        print(json.dumps({"broker": broker_id, "moved_partitions": len(moved)}))
    else:
        print(f"broker {broker_id} is forgotten; {len(moved)} of its partitions moved")
    return 0


async def plan(client: Client, broker_id: int) -> list[Move]:
    """What has to move before a broker may go; CommandError when it would not fit on the others."""
    brokers = {one.broker_id: one for one in (await cluster_admin.describe_cluster(client)).brokers}
    topics = await admin.describe_topics(client, None)
    ongoing = await cluster_admin.list_moves(client)
    assigned = [
        AssignedPartition(
            topic.name or "",
            one.partition_index,
            [
                replica
                for replica in one.replica_nodes
                if (move := ongoing.get(TopicPartition(topic.name or "", one.partition_index))) is None
                or replica not in move.removing_replicas
            ],
        )
        for topic in topics
        for one in topic.partitions
    ]
    racks = {one.broker_id: one.rack for one in brokers.values() if not one.is_fenced}
    racks.pop(broker_id, None)
    try:
        planned = plan_drain(assigned, racks, broker_id)
    except KafkaError as error:
        raise CommandError(f"{error.detail} Start another broker first.") from None
    _check_can_be_copied(topics, broker_id, brokers)
    before = {TopicPartition(one.topic, one.partition): one.replicas for one in assigned}
    return [
        Move(partition, before[partition], one.replicas or ())
        for topic in planned
        for one in topic.partitions
        for partition in [TopicPartition(topic.name, one.partition_index)]
    ]


def _check_can_be_copied(
    topics: Sequence[MetadataResponseTopic], broker_id: int, brokers: Mapping[int, DescribeClusterBroker]
) -> None:
    """A partition that nobody leads cannot be copied: its records are only on brokers that are down."""
    for topic in topics:
        for one in topic.partitions:
            if broker_id in one.replica_nodes and one.leader_id < 0:
                down = [replica for replica in one.replica_nodes if _is_down(brokers.get(replica))]
                raise CommandError(
                    f"{topic.name}-{one.partition_index} cannot be moved, for it has no leader: start"
                    f" {' or '.join(f'broker {replica}' for replica in down) or 'its brokers'} first."
                )


def _is_down(broker: DescribeClusterBroker | None) -> bool:
    return broker is None or broker.is_fenced


async def _check_may_leave(client: Client, broker_id: int) -> None:
    cluster = await cluster_admin.describe_cluster(client)
    if all(one.broker_id != broker_id for one in cluster.brokers):
        raise CommandError(f"There is no broker {broker_id}; `ottla broker list` shows all.")
    view = await quorum_commands.describe(client)
    if broker_id in view.voter_ids:
        raise CommandError(
            f"Node {broker_id} votes in the metadata quorum; take its vote away first, with"
            f" `ottla quorum remove {broker_id}`."
        )


async def _until_drained(client: Client, broker_id: int, say: Say) -> None:
    """Wait until a broker holds no replica; CommandError when that does not come nearer."""
    since, told, left = time.monotonic(), -1, -1
    while True:
        topics = await admin.describe_topics(client, None)
        held = [
            TopicPartition(topic.name or "", one.partition_index)
            for topic in topics
            for one in topic.partitions
            if broker_id in one.replica_nodes
        ]
        if not held:
            return
        if len(held) != left:
            since, left = time.monotonic(), len(held)
        if time.monotonic() - since > client.timeout_s:
            raise CommandError(
                f"{held[0]} has not left broker {broker_id} for {client.timeout_s:g} s; run this"
                " again to go on waiting."
            )
        if left != told:
            told = left
            say(f"broker {broker_id} still holds {left} partition{'' if left == 1 else 's'}")
        await asyncio.sleep(POLL_S)


async def _is_stopped(client: Client, broker_id: int, say: Say) -> bool:
    """Wait until a broker is down, for a living one would come back at once; False if it holds something."""
    since, is_told = time.monotonic(), False
    while True:
        cluster = await cluster_admin.describe_cluster(client)
        if all(one.broker_id != broker_id or one.is_fenced for one in cluster.brokers):
            return True
        if not is_told:
            is_told = True
            say(f"broker {broker_id} holds nothing; stop it now, and it will be forgotten")
        if time.monotonic() - since > client.timeout_s:
            raise CommandError(
                f"Broker {broker_id} holds nothing but still runs; stop it, and run this again to have it"
                " forgotten."
            )
        if await plan(client, broker_id):
            return False
        await asyncio.sleep(POLL_S)


def _say(sentence: str) -> None:
    """Progress is no result: it does not go where results go."""
    print(sentence, file=sys.stderr, flush=True)


def _nothing(sentence: str) -> None:
    """For programs, which read the result alone."""


def _brokers(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
