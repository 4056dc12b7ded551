"""Leadership is moved: the plans of `leadership`, asked of a cluster with requests that any Kafka knows."""

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
    """What came of it: the partitions by their new order, their elections, and what was left alone."""

    orders: Sequence[NewOrder]
    elections: Sequence[ElectionResult]
    kept: Sequence[Kept]


async def led_partitions(client: Client, names: Sequence[str] | None = None) -> list[LedPartition]:
    """Who leads which partition of these topics (None: all, internal ones too)."""
    moving = await cluster_admin.list_moves(client)
    return [
        LedPartition(place, one.leader_id, one.replica_nodes, one.isr_nodes, place in moving)
        for topic in await topic_admin.describe_topics(client, names)
        for one in topic.partitions
        for place in [TopicPartition(topic.name or "", one.partition_index)]
    ]


async def transfer(client: Client, partition: TopicPartition, leader: int) -> LeaderMoves:
    """Have one replica lead a partition; Refused with the reason if it cannot."""
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
    """Have others lead what a broker leads. New topics may still be placed with it as their leader.

    A balance gives it no leaders from now on.
    """
    active = await _active(client, broker_id)
    await change_exclusion(client, NOT_LEADING, broker_id, APPEND)
    return await _carry_out(client, plan_drain_of_leaders(await led_partitions(client), broker_id, active))


async def return_leaders(client: Client, broker_id: int) -> LeaderMoves:
    """Have a broker lead its share again; Refused while it is fenced."""
    if broker_id not in await _active(client, broker_id):
        raise Refused(f"Broker {broker_id} is fenced, so it cannot lead; start it first.")
    await change_exclusion(client, NOT_LEADING, broker_id, SUBTRACT)
    return await _carry_out(client, plan_return_of_leaders(await led_partitions(client), broker_id))


async def elect_preferred(client: Client) -> LeaderMoves:
    """Have every partition led by the first of its replicas, where that is in sync."""
    others = not_led_as_preferred(await led_partitions(client))
    return await elect(client, [one.partition for one in others], cluster_admin.PREFERRED)


async def elect(client: Client, partitions: Sequence[TopicPartition], election_type: int) -> LeaderMoves:
    """PREFERRED or UNCLEAN elections; those of partitions that are led as they should be by now are left out.

    There may be some: the node that was asked who leads may not have heard of an election yet.
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
    """The brokers that are not fenced; Refused if there is none of this id."""
    brokers = (await cluster_admin.describe_cluster(client)).brokers
    find_broker(brokers, broker_id)
    return [one.broker_id for one in brokers if not one.is_fenced]


async def _carry_out(client: Client, plan: LeaderPlan) -> LeaderMoves:
    if plan.orders:
        await cluster_admin.move_partitions(client, {one.partition: one.replicas for one in plan.orders})
    wanted = [one.partition for one in plan.orders if one.elects]
    elected = await elect(client, wanted, cluster_admin.PREFERRED)
    return LeaderMoves(plan.orders, elected.elections, plan.kept)
