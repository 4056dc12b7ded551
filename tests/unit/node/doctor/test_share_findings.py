"""What the doctor says of share groups that do not get on."""

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.doctor.finding import Severity
from ottla.node.doctor.share_findings import HELD_MS, RETRIED_MS, ShareFacts, of_share_groups
from ottla.node.share.record_state import RecordState
from ottla.node.wire.messages.describe_share_partitions import InFlightRange, InFlightState


def facts(
    deliveries: int,
    stalled_ms: int,
    *,
    group: str = "workers",
    partition: int = 0,
    member: str | None = "m1",
    record_state: RecordState = RecordState.AVAILABLE,
) -> ShareFacts:
    oldest = InFlightRange(
        first_offset=17, last_offset=17, delivery_count=deliveries, member_id=member, state=record_state
    )
    state = InFlightState(delivery_count_limit=5, stalled_ms=stalled_ms, oldest=oldest)
    return ShareFacts(group, TopicPartition("orders", partition), state)


def test_a_record_that_is_tried_again_and_again_is_named_with_its_group() -> None:
    [found] = of_share_groups([facts(4, 312_000)])

    assert (found.severity, found.subject) == (Severity.PROBLEM, "share group")
    assert (
        "workers tries the same record again and again, and its start offset does not move: offset 17 of "
        "orders-0, delivered 4 times of at most 5, now by m1, is the oldest since 312 s."
    ) in found.sentence


@pytest.mark.parametrize(
    ("deliveries", "stalled_ms"), [(1, RETRIED_MS), (2, RETRIED_MS - 1), (25, 0), (0, 10 * HELD_MS)]
)
def test_a_group_that_gets_on_is_not_named(deliveries: int, stalled_ms: int) -> None:
    assert list(of_share_groups([facts(deliveries, stalled_ms, member=None)])) == []
    assert list(of_share_groups([facts(deliveries, min(stalled_ms, HELD_MS - 1))])) == []


def test_a_record_that_waits_by_the_groups_own_back_off_is_no_problem() -> None:
    waiting = facts(2, RETRIED_MS, member=None, record_state=RecordState.WAITING)

    assert list(of_share_groups([waiting])) == []


def test_a_record_that_is_held_for_long_is_a_note() -> None:
    [found] = of_share_groups([facts(1, HELD_MS)])

    assert found.severity is Severity.NOTE
    assert "delivered once of at most 5, now by m1, is the oldest since 600 s" in found.sentence


def test_a_partition_that_has_nothing_in_flight_says_nothing() -> None:
    idle = ShareFacts("workers", TopicPartition("orders", 0), InFlightState(stalled_ms=10 * HELD_MS))

    assert list(of_share_groups([idle])) == []


def test_a_group_is_named_once_however_many_partitions_it_has() -> None:
    all_of_it = [facts(3, RETRIED_MS, partition=number) for number in range(9)]

    [found] = of_share_groups([*all_of_it, facts(1, 0, group="fine")])

    assert "orders-0" in found.sentence and "and 4 more" in found.sentence


def test_names_that_others_chose_bring_no_control_characters() -> None:
    [found] = of_share_groups([facts(3, RETRIED_MS, group="g\x1b[2J", member="m\n")])

    assert "\x1b" not in found.sentence and "\n" not in found.sentence
