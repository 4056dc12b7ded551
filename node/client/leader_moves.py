"""Moves leaders: carries out the plans of `leadership` with requests that any Kafka server supports."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import cluster_admin, topic_admin
from ottla.node.client.balance_exclusion import change_exclusion
from ottla.node.client.cluster_admin import ElectionResult
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import APPEND, SUBTRACT
from ottla.node.client.leadership import (
    Kept,
    LeaderPlan,
    LedPartition,
    NewOrder,
    not_led_as_preferred,
    plan_drain_of_leaders,
    plan_return_of_leaders,
    plan_transfer,
)
from ottla.node.client.refusal import Refused, find_broker
from ottla.node.settings.balance_settings import NOT_LEADING


class LeaderMoves(NamedTuple):
    """The result: the new orders of partitions, the elections, and the partitions left as they were."""

    orders: Sequence[NewOrder]
    elections: Sequence[ElectionResult]
    kept: Sequence[Kept]


async def led_partitions(client: Client, names: Sequence[str] | None = None) -> list[LedPartition]:
    """Return the partitions of these topics with their leaders (None: all topics, internal ones too)."""
    moving = await cluster_admin.list_moves(client)
    return [
        LedPartition(partition, one.leader_id, one.replica_nodes, one.isr_nodes, partition in moving)
        for topic in await topic_admin.describe_topics(client, names)
        for one in topic.partitions
        for partition in [TopicPartition(topic.name or "", one.partition_index)]
    ]


async def transfer(client: Client, partition: TopicPartition, leader: int) -> LeaderMoves:
    """Make one replica the leader of a partition; Refused with the reason if it cannot be."""
    found = [one for one in await led_partitions(client, [partition.topic]) if one.partition == partition]
    if not found:
        problem = f"Topic {partition.topic} has no partition {partition.partition}."
        raise Refused(problem, is_missing=True)
    try:
        order = plan_transfer(found[0], leader)
    except ValueError as error:
        raise Refused(str(error)) from None
    return await _carry_out(client, LeaderPlan([order], []))


async def drain_leaders(client: Client, broker_id: int) -> LeaderMoves:
    """Move the leaders of a broker's partitions to others. New topics may still get it as a leader.

    From now on a balance gives it no leaders.
    """
    active = await _active(client, broker_id)
    await change_exclusion(client, NOT_LEADING, broker_id, APPEND)
    return await _carry_out(client, plan_drain_of_leaders(await led_partitions(client), broker_id, active))


async def return_leaders(client: Client, broker_id: int) -> LeaderMoves:
    """Make a broker the leader of its share of partitions again; Refused while it is fenced."""
    if broker_id not in await _active(client, broker_id):
        raise Refused(f"Broker {broker_id} is fenced, so it cannot lead; start it first.")
    await change_exclusion(client, NOT_LEADING, broker_id, SUBTRACT)
    return await _carry_out(client, plan_return_of_leaders(await led_partitions(client), broker_id))


async def elect_preferred(client: Client) -> LeaderMoves:
    """Make the first replica of every partition its leader, if it is in sync."""
    others = not_led_as_preferred(await led_partitions(client))
    return await elect(client, [one.partition for one in others], cluster_admin.PREFERRED)


async def elect(client: Client, partitions: Sequence[TopicPartition], election_type: int) -> LeaderMoves:
    """Hold PREFERRED or UNCLEAN elections; partitions that already have the right leader are left out.

    There may be some: the node that returned the leaders may not have applied an election yet.
    """
    if not partitions:
        return LeaderMoves([], [], [])
    elections = await cluster_admin.elect_leaders(client, partitions, election_type)
    ended = [
        one
        for one in sorted(elections, key=lambda one: one.partition)
        if one.error is None or one.error.code is not ErrorCode.ELECTION_NOT_NEEDED
    ]
    return LeaderMoves([], ended, [])


async def _active(client: Client, broker_id: int) -> list[int]:
    """Return the brokers that are not fenced; Refused if there is none of this id."""
    brokers = (await cluster_admin.describe_cluster(client)).brokers
    find_broker(brokers, broker_id)
    return [one.broker_id for one in brokers if not one.is_fenced]


async def _carry_out(client: Client, plan: LeaderPlan) -> LeaderMoves:
    if plan.orders:
        await cluster_admin.move_partitions(client, {one.partition: one.replicas for one in plan.orders})
    wanted = [one.partition for one in plan.orders if one.elects]
    elected = await elect(client, wanted, cluster_admin.PREFERRED)
    return LeaderMoves(plan.orders, elected.elections, plan.kept)
