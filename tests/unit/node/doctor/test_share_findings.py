"""ottla.node.doctor.share_findings: share groups that make no progress or lose dead letters."""

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.doctor.finding import Severity
from ottla.node.doctor.share_findings import (
    HELD_MS,
    OLD_MS,
    RETRIED_MS,
    UNWRITTEN_MS,
    ShareFacts,
    of_ignored_letters,
    of_share_groups,
)
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
    letter_failure: int = 0,
    letter_failure_ms: int = -1,
    letters_go_on: bool = False,
    letter_topic: str | None = "dlq.orders",
) -> ShareFacts:
    oldest = InFlightRange(
        first_offset=17, last_offset=17, delivery_count=deliveries, member_id=member, state=record_state
    )
    state = InFlightState(
        delivery_count_limit=5,
        stalled_ms=stalled_ms,
        oldest=oldest,
        letter_failure=letter_failure,
        letter_failure_ms=letter_failure_ms,
        letters_go_on=letters_go_on,
    )
    return ShareFacts(group, TopicPartition("orders", partition), state, letter_topic)


def test_a_record_that_is_retried_again_and_again_is_reported_with_its_group() -> None:
    [found] = of_share_groups([facts(4, 312_000)])

    assert (found.severity, found.subject) == (Severity.PROBLEM, "share group")
    assert (
        "workers retries the same record, and its start offset does not move: offset 17 of "
        "orders-0, delivered 4 times of at most 5, now by m1, has been the oldest for 312 s."
    ) in found.sentence


@pytest.mark.parametrize(
    ("deliveries", "stalled_ms"), [(1, RETRIED_MS), (2, RETRIED_MS - 1), (25, 0), (0, 10 * HELD_MS)]
)
def test_a_group_that_makes_progress_is_not_reported(deliveries: int, stalled_ms: int) -> None:
    assert list(of_share_groups([facts(deliveries, stalled_ms, member=None)])) == []
    assert list(of_share_groups([facts(deliveries, min(stalled_ms, HELD_MS - 1))])) == []


def test_a_record_that_waits_for_the_back_off_of_its_group_is_no_problem() -> None:
    waiting = facts(2, RETRIED_MS, member=None, record_state=RecordState.WAITING)

    assert list(of_share_groups([waiting])) == []


@pytest.mark.parametrize("record_state", [RecordState.ARCHIVING, RecordState.SPENT])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "(dlq.orders) does not exist, and the nodes may not"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "check the ACLs of the topic (TOPIC_AUTHORIZATION_FAILED)"),
        (ErrorCode.REQUEST_TIMED_OUT, "too few replicas in sync: see `ottla topic describe dlq.orders`"),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "its share coordinator does not write its state"),
        (ErrorCode.NOT_CONTROLLER, "the controller assigns no producer id"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "rejects them (UNKNOWN_SERVER_ERROR)"),
        (31_999, "error 31999, which this version of Ottla does not know"),
        (ErrorCode.NONE, "the log of the leader's node may say why"),
    ],
)
def test_a_record_whose_dead_letter_cannot_be_written_is_not_reported_as_retried(
    record_state: RecordState, error: int, reason: str
) -> None:
    stuck = facts(5, UNWRITTEN_MS, member=None, record_state=record_state, letter_failure=int(error))

    [found] = of_share_groups([stuck])

    assert found.severity is Severity.PROBLEM
    assert "of share group workers waits for dead letters that cannot be written" in found.sentence
    assert reason in found.sentence
    assert "offset 17 of orders-0, delivered 5 times of at most 5" in found.sentence


def test_a_dead_letter_that_is_just_being_written_is_no_problem() -> None:
    fresh = facts(5, UNWRITTEN_MS - 1, member=None, record_state=RecordState.SPENT, letter_failure=7)

    assert list(of_share_groups([fresh])) == []


def test_records_archived_without_dead_letters_are_reported_with_the_reason() -> None:
    lost = [facts(1, 0, partition=number, letter_failure=int(ErrorCode.INVALID_CONFIG)) for number in (0, 1)]

    [found] = of_share_groups(lost)

    assert "not be written: the dead letter topic (dlq.orders) is not enabled for them" in found.sentence
    assert "Records of orders-0, orders-1 may have none" in found.sentence


@pytest.mark.parametrize(
    ("ago_ms", "severity", "words"),
    [
        (-1, Severity.PROBLEM, "written: the dead letter topic"),
        (59_999, Severity.PROBLEM, "written, just now: the dead letter topic"),
        (OLD_MS - 1, Severity.PROBLEM, "written, 59 min ago: the dead letter topic"),
        (OLD_MS, Severity.NOTE, "written, 1 h ago, and no others were due since: the dead letter topic"),
    ],
)
def test_letters_that_were_lost_long_ago_are_a_note(ago_ms: int, severity: Severity, words: str) -> None:
    lost = facts(1, 0, letter_failure=int(ErrorCode.INVALID_CONFIG), letter_failure_ms=ago_ms)

    [found] = of_share_groups([lost])

    assert found.severity is severity
    assert words in found.sentence


def test_a_failed_attempt_that_is_retried_has_lost_nothing() -> None:
    trying = facts(1, 0, letter_failure=int(ErrorCode.REQUEST_TIMED_OUT), letters_go_on=True)

    assert list(of_share_groups([trying])) == []


def test_without_permission_to_read_the_letter_topic_the_command_that_shows_it_is_named() -> None:
    lost = facts(1, 0, letter_failure=int(ErrorCode.LEADER_NOT_AVAILABLE), letter_topic=None)

    [found] = of_share_groups([lost])

    assert "(`ottla group config workers` names it) does not answer" in found.sentence


def test_groups_that_want_dead_letters_are_reported_if_the_cluster_has_none() -> None:
    [found] = of_ignored_letters(["work\x1bers", "others"], share_version=1)

    assert found.severity is Severity.PROBLEM
    assert "others are set to have dead letters, but share.version is 1, below 2" in found.sentence
    assert "kafka-features upgrade --feature share.version=2" in found.sentence
    assert "\x1b" not in found.sentence
    assert not list(of_ignored_letters([], share_version=1))
    assert not list(of_ignored_letters(["workers"], share_version=2))


def test_a_record_that_is_held_for_a_long_time_is_a_note() -> None:
    [found] = of_share_groups([facts(1, HELD_MS)])

    assert found.severity is Severity.NOTE
    assert "delivered once of at most 5, now by m1, has been the oldest for 600 s" in found.sentence


def test_a_partition_with_nothing_in_flight_has_no_finding() -> None:
    idle = ShareFacts("workers", TopicPartition("orders", 0), InFlightState(stalled_ms=10 * HELD_MS))

    assert list(of_share_groups([idle])) == []


def test_a_group_is_reported_once_however_many_partitions_it_has() -> None:
    all_of_it = [facts(3, RETRIED_MS, partition=number) for number in range(9)]

    [found] = of_share_groups([*all_of_it, facts(1, 0, group="fine")])

    assert "orders-0" in found.sentence and "and 4 more" in found.sentence


def test_control_characters_in_names_are_escaped() -> None:
    [found] = of_share_groups([facts(3, RETRIED_MS, group="g\x1b[2J", member="m\n")])

    assert "\x1b" not in found.sentence and "\n" not in found.sentence
