"""Pure plans that change the leaders of partitions, from the metadata.

The first replica in a partition's list is its preferred leader, so a leader is moved by a new order of the
list and an election after it; the order is kept over restarts. The replicas themselves do not move. A
partition that is being reassigned keeps the order of its reassignment.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition


class LedPartition(NamedTuple):
    """A partition: its leader (-1: none), its replicas in order, those in sync, and if it is moving."""

    partition: TopicPartition
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    is_moving: bool = False


class NewOrder(NamedTuple):
    """The new order of a partition's replicas; `elects` if an election must follow."""

    partition: TopicPartition
    replicas: Sequence[int]
    elects: bool


class Kept(NamedTuple):
    """A partition that keeps its leader, and the reason."""

    partition: TopicPartition
    reason: str


class LeaderPlan(NamedTuple):
    """The new orders, and the partitions that cannot be changed now."""

    orders: Sequence[NewOrder]
    kept: Sequence[Kept]


def plan_transfer(one: LedPartition, leader: int) -> NewOrder:
    """Return the order that makes this replica the leader; ValueError with a sentence if it cannot lead."""
    if one.is_moving:
        raise ValueError(f"{one.partition} is being moved; wait for the move to complete, or cancel it.")
    if leader not in one.replicas:
        raise ValueError(
            f"Broker {leader} has no replica of {one.partition}; it is on"
            f" {', '.join(map(str, one.replicas))}. Move it there first."
        )
    if leader not in one.isr:
        raise ValueError(f"Broker {leader} is not in sync for {one.partition}, so it cannot lead it yet.")
    rest = [replica for replica in one.replicas if replica != leader]
    return NewOrder(one.partition, (leader, *rest), elects=one.leader != leader)


def plan_drain_of_leaders(
    partitions: Iterable[LedPartition], broker_id: int, active: Iterable[int]
) -> LeaderPlan:
    """Move partitions that a broker leads or should lead, each to the in-sync replica that leads fewest."""
    partitions, active = sorted(partitions), set(active)
    leads = Counter(one.leader for one in partitions)
    orders: list[NewOrder] = []
    kept: list[Kept] = []
    for one in partitions:
        if broker_id not in (one.leader, next(iter(one.replicas), -1)):
            continue
        others = [each for each in one.replicas if each != broker_id]
        able = [each for each in others if each in one.isr and each in active]
        if one.is_moving:
            kept.append(Kept(one.partition, "it is being moved"))
        elif not others:
            kept.append(Kept(one.partition, "it has no other replica"))
        elif not able:
            kept.append(Kept(one.partition, "no other replica is in sync"))
        else:
            elects = one.leader == broker_id
            successor = min(able, key=lambda each: (leads[each], each)) if elects else one.leader
            if successor not in able:  # the partition has no leader at the moment
                successor = able[0]
            leads[broker_id] -= elects
            leads[successor] += elects
            rest = [each for each in others if each != successor]
            orders.append(NewOrder(one.partition, (successor, *rest, broker_id), elects))
    return LeaderPlan(orders, kept)


def plan_return_of_leaders(partitions: Iterable[LedPartition], broker_id: int) -> LeaderPlan:
    """Make a broker the preferred leader of its share of the partitions for which it is in sync.

    It takes them from the brokers with the most, until none with which it shares partitions has two more than
    it.
    """
    partitions = sorted(partitions)
    preferred = Counter(one.replicas[0] for one in partitions if one.replicas)
    left = [
        one
        for one in partitions
        if broker_id in one.isr and one.replicas[0] != broker_id and not one.is_moving and one.leader >= 0
    ]
    orders: list[NewOrder] = []
    while left:
        most = max(left, key=lambda one: preferred[one.replicas[0]])
        if preferred[most.replicas[0]] <= preferred[broker_id] + 1:
            break
        left.remove(most)
        preferred[most.replicas[0]] -= 1
        preferred[broker_id] += 1
        rest = [each for each in most.replicas if each != broker_id]
        orders.append(NewOrder(most.partition, (broker_id, *rest), elects=most.leader != broker_id))
    kept = [
        Kept(one.partition, "it is not in sync yet")
        for one in partitions
        if broker_id in one.replicas and broker_id not in one.isr
    ]
    return LeaderPlan(sorted(orders), kept)


def not_led_as_preferred(partitions: Iterable[LedPartition]) -> list[LedPartition]:
    """Return the partitions whose leader is not the first of their replicas."""
    return [one for one in partitions if one.replicas and one.leader != one.replicas[0]]
