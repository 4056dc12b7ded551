"""Plans that change leaders: for one partition, for a broker that is drained, and for one that is back."""

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.leadership import (
    Kept,
    LedPartition,
    NewOrder,
    not_led_as_preferred,
    plan_drain_of_leaders,
    plan_return_of_leaders,
    plan_transfer,
)

ALL = (0, 1, 2)


def led(
    number: int, replicas: tuple[int, ...], *, leader: int | None = None, isr: tuple[int, ...] | None = None
) -> LedPartition:
    return LedPartition(
        TopicPartition("t", number),
        replicas[0] if leader is None else leader,
        replicas,
        replicas if isr is None else isr,
    )


def place(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def test_the_new_leader_comes_first_and_is_elected() -> None:
    assert plan_transfer(led(0, ALL), 2) == NewOrder(place(0), (2, 0, 1), elects=True)


def test_the_current_leader_only_becomes_the_preferred_one() -> None:
    assert plan_transfer(led(0, ALL, leader=2), 2) == NewOrder(place(0), (2, 0, 1), elects=False)


@pytest.mark.parametrize(
    ("one", "leader", "reason"),
    [
        (led(0, ALL), 7, "Broker 7 has no replica of t-0"),
        (led(0, ALL, isr=(0, 1)), 2, "Broker 2 is not in sync for t-0"),
        (led(0, ALL)._replace(is_moving=True), 1, "t-0 is being moved"),
    ],
)
def test_a_replica_that_cannot_lead_is_rejected_with_the_reason(
    one: LedPartition, leader: int, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        plan_transfer(one, leader)


def test_a_drained_broker_leads_nothing_and_is_preferred_nowhere() -> None:
    partitions = [led(0, (0, 1, 2)), led(1, (0, 1, 2), leader=1), led(2, (1, 2, 0)), led(3, (0, 2, 1))]

    plan = plan_drain_of_leaders(partitions, 0, ALL)

    # 2 leads fewer than 1 at first, so it gets the first one; then they are equal.
    assert plan.orders == [
        NewOrder(place(0), (2, 1, 0), elects=True),
        NewOrder(place(1), (1, 2, 0), elects=False),
        NewOrder(place(3), (2, 1, 0), elects=True),
    ]
    assert plan.kept == []


def test_leaders_are_distributed_evenly() -> None:
    partitions = [led(number, ALL) for number in range(10)]

    plan = plan_drain_of_leaders(partitions, 0, ALL)

    assert sorted(one.replicas[0] for one in plan.orders) == [1] * 5 + [2] * 5


def test_a_partition_that_no_other_replica_can_lead_stays_with_the_reason() -> None:
    partitions = [
        led(0, (0,)),
        led(1, (0, 1), isr=(0,)),
        led(2, (0, 1)),
        led(3, (0, 2))._replace(is_moving=True),
    ]

    plan = plan_drain_of_leaders(partitions, 0, active=[0, 2])

    assert plan.orders == []
    assert plan.kept == [
        Kept(place(0), "it has no other replica"),
        Kept(place(1), "no other replica is in sync"),
        Kept(place(2), "no other replica is in sync"),
        Kept(place(3), "it is being moved"),
    ]


def test_a_broker_that_is_back_is_preferred_for_its_share() -> None:
    partitions = [led(number, (1, 2, 0) if number % 2 else (2, 1, 0)) for number in range(9)]

    plan = plan_return_of_leaders(partitions, 0)

    first = {one.partition: one.replicas[0] for one in plan.orders}
    after = [first.get(one.partition, one.replicas[0]) for one in partitions]
    assert [after.count(broker) for broker in ALL] == [3, 3, 3]
    assert all(one.elects for one in plan.orders)


def test_a_broker_gets_back_only_what_it_is_in_sync_with() -> None:
    behind = led(0, (1, 2, 0), isr=(1, 2))

    plan = plan_return_of_leaders([behind, led(1, (1, 0)), led(2, (1, 0))], 0)

    assert [one.partition for one in plan.orders] == [place(1)]
    assert plan.kept == [Kept(place(0), "it is not in sync yet")]


def test_after_a_drain_and_a_return_leaders_are_as_even_as_before() -> None:
    partitions = [led(number, tuple((number + shift) % 3 for shift in range(3))) for number in range(30)]

    drained = {one.partition: one for one in plan_drain_of_leaders(partitions, 1, ALL).orders}
    gone = [
        led(one.partition.partition, tuple(drained[one.partition].replicas))
        if one.partition in drained
        else one
        for one in partitions
    ]
    back = {one.partition: one.replicas[0] for one in plan_return_of_leaders(gone, 1).orders}
    leaders = [back.get(one.partition, one.replicas[0]) for one in gone]

    assert [one.replicas[0] for one in gone].count(1) == 0
    assert [leaders.count(broker) for broker in ALL] == [10, 10, 10]


def test_partitions_that_their_preferred_leader_does_not_lead_are_found() -> None:
    partitions = [led(0, ALL), led(1, ALL, leader=1), led(2, ALL, leader=-1)]

    assert [one.partition.partition for one in not_led_as_preferred(partitions)] == [1, 2]
