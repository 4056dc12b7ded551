"""Decommissions a broker: its replicas move to others, it is stopped, and then unregistered.

No state is kept between the steps: after an interruption the next call continues where the last one stopped.
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
    """A partition with its brokers before and after the move."""

    partition: TopicPartition
    before: Sequence[int]
    after: Sequence[int]


class Stage(Enum):
    """The stages of a decommission."""

    HOLDS = "holds replicas"
    EMPTY = "holds nothing, and still runs"
    STOPPED = "holds nothing, and is stopped"
    UNREGISTERED = "unregistered"


class Progress(NamedTuple):
    """The stage of a decommission, and the partitions of which the broker still has a replica."""

    stage: Stage
    held: Sequence[TopicPartition]


async def plan(client: Client, broker_id: int) -> list[Move]:
    """Return the moves that empty a broker; Refused if its replicas would not fit on the others."""
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
    """Raise Refused for a partition without a leader: all its records are on brokers that are down."""
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
    """Raise Refused for a broker that does not exist, and for a voter of the metadata quorum."""
    cluster = await cluster_admin.describe_cluster(client)
    find_broker(cluster.brokers, broker_id)
    view = await describe_quorum(client)
    if broker_id in view.voter_ids:
        raise Refused(
            f"Node {broker_id} is a voter of the metadata quorum; first run `ottla quorum remove "
            f"{broker_id}`."
        )


async def begin_moves(client: Client, broker_id: int) -> list[Move]:
    """Start to move all replicas off a broker; return the moves started now, none if all are under way.

    From now on a balance moves nothing to it.
    """
    moves = await plan(client, broker_id)
    await change_exclusion(client, EXCLUDED, broker_id, APPEND)
    if moves:
        await cluster_admin.move_partitions(client, {one.partition: one.after for one in moves})
    return moves


async def forget(client: Client, broker_id: int) -> None:
    """Unregister a broker that is stopped; a later broker with its id is balanced like any other."""
    await cluster_admin.unregister_broker(client, broker_id)
    for setting in (EXCLUDED, NOT_LEADING):
        await change_exclusion(client, setting, broker_id, SUBTRACT)


async def held_partitions(client: Client, broker_id: int) -> list[TopicPartition]:
    """Return the partitions of which a broker has a replica now."""
    return [
        TopicPartition(topic.name or "", one.partition_index)
        for topic in await topic_admin.describe_topics(client, None)
        for one in topic.partitions
        if broker_id in one.replica_nodes
    ]


async def is_stopped(client: Client, broker_id: int) -> bool:
    """Return True if a broker is down: one that runs would register again as soon as it is unregistered."""
    cluster = await cluster_admin.describe_cluster(client)
    return all(one.broker_id != broker_id or one.is_fenced for one in cluster.brokers)


async def progress(client: Client, broker_id: int) -> Progress:
    """Return the progress of a decommission; Refused if there is no such broker, as at its end."""
    cluster = await cluster_admin.describe_cluster(client)
    found = find_broker(cluster.brokers, broker_id)
    held = await held_partitions(client, broker_id)
    if held:
        return Progress(Stage.HOLDS, held)
    return Progress(Stage.STOPPED if found.is_fenced else Stage.EMPTY, ())


async def go_on(client: Client, broker_id: int) -> Progress:
    """Take the next possible step and return the progress; call it until the stage is UNREGISTERED.

    Refused if there is no such broker, so also by a call after the last one.
    """
    known = await progress(client, broker_id)
    await check_may_leave(client, broker_id)
    if await begin_moves(client, broker_id) or known.stage is not Stage.STOPPED:
        return await progress(client, broker_id)
    await forget(client, broker_id)
    return Progress(Stage.UNREGISTERED, ())
