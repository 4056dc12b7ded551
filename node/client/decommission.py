"""How a broker leaves for good: what it holds moves to others, it is stopped, and it is forgotten.

Nothing is remembered between the steps: whoever was interrupted asks again, and it goes on where it was.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.drain_plan import AssignedPartition, plan_drain
from ottla.node.client import cluster_admin, topic_admin
from ottla.node.client.balance_exclusion import change_exclusion
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import APPEND, SUBTRACT
from ottla.node.client.quorum_admin import describe_quorum
from ottla.node.client.refusal import Refused, find_broker
from ottla.node.settings.balance_settings import EXCLUDED, NOT_LEADING
from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker
from ottla.node.wire.messages.metadata import MetadataResponseTopic


class Move(NamedTuple):
    """A partition, the brokers that have it and those that shall."""

    partition: TopicPartition
    before: Sequence[int]
    after: Sequence[int]


class Stage(Enum):
    """How far a broker has come on its way out."""

    HOLDS = "holds replicas"
    EMPTY = "holds nothing, and still runs"
    STOPPED = "holds nothing, and is stopped"
    FORGOTTEN = "forgotten"


class Progress(NamedTuple):
    """Where a broker is on its way out, and the partitions of which it still has a replica."""

    stage: Stage
    held: Sequence[TopicPartition]


async def plan(client: Client, broker_id: int) -> list[Move]:
    """What has to move before a broker may go; Refused when it would not fit on the others."""
    brokers = {one.broker_id: one for one in (await cluster_admin.describe_cluster(client)).brokers}
    topics = await topic_admin.describe_topics(client, None)
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
        raise Refused(f"{error.detail} Add another broker first.") from None
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
                raise Refused(
                    f"{topic.name}-{one.partition_index} cannot be moved because it has no "
                    "leader: start "
                    f"{' or '.join(f'broker {replica}' for replica in down) or 'its brokers'} "
                    "first."
                )


def _is_down(broker: DescribeClusterBroker | None) -> bool:
    return broker is None or broker.is_fenced


async def check_may_leave(client: Client, broker_id: int) -> None:
    """Refused for a broker that there is not, and for one that votes in the metadata quorum."""
    cluster = await cluster_admin.describe_cluster(client)
    find_broker(cluster.brokers, broker_id)
    view = await describe_quorum(client)
    if broker_id in view.voter_ids:
        raise Refused(
            f"Node {broker_id} is a voter of the metadata quorum; first run `ottla quorum remove "
            f"{broker_id}`."
        )


async def begin_moves(client: Client, broker_id: int) -> list[Move]:
    """Have what a broker holds moved away; what was begun now, nothing if all is on its way already.

    A balance moves nothing to it from now on.
    """
    moves = await plan(client, broker_id)
    await change_exclusion(client, EXCLUDED, broker_id, APPEND)
    if moves:
        await cluster_admin.move_partitions(client, {one.partition: one.after for one in moves})
    return moves


async def forget(client: Client, broker_id: int) -> None:
    """Remove a broker that is stopped; one that gets its id later has its share of a balance."""
    await cluster_admin.unregister_broker(client, broker_id)
    for setting in (EXCLUDED, NOT_LEADING):
        await change_exclusion(client, setting, broker_id, SUBTRACT)


async def held_partitions(client: Client, broker_id: int) -> list[TopicPartition]:
    """Of what a broker has a replica now."""
    return [
        TopicPartition(topic.name or "", one.partition_index)
        for topic in await topic_admin.describe_topics(client, None)
        for one in topic.partitions
        if broker_id in one.replica_nodes
    ]


async def is_stopped(client: Client, broker_id: int) -> bool:
    """Whether a broker is down: a living one would register again as soon as it is forgotten."""
    cluster = await cluster_admin.describe_cluster(client)
    return all(one.broker_id != broker_id or one.is_fenced for one in cluster.brokers)


async def progress(client: Client, broker_id: int) -> Progress:
    """How far it is; Refused if there is no such broker, as when it is forgotten."""
    cluster = await cluster_admin.describe_cluster(client)
    found = find_broker(cluster.brokers, broker_id)
    held = await held_partitions(client, broker_id)
    if held:
        return Progress(Stage.HOLDS, held)
    return Progress(Stage.STOPPED if found.is_fenced else Stage.EMPTY, ())


async def go_on(client: Client, broker_id: int) -> Progress:
    """Do the next thing that can be done now, and tell how far it is; to be asked until it is forgotten.

    Refused if there is no such broker, so also by whoever asks once more.
    """
    known = await progress(client, broker_id)
    await check_may_leave(client, broker_id)
    if await begin_moves(client, broker_id) or known.stage is not Stage.STOPPED:
        return await progress(client, broker_id)
    await forget(client, broker_id)
    return Progress(Stage.FORGOTTEN, ())
