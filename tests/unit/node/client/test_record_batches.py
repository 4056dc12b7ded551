"""The lane of a partition: sequence numbers, retries, and batches that are rejected."""

from typing import Any

import pytest

from ottla.logstore.record import iterate_records
from ottla.logstore.record_batch import HEADER_SIZE, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.producer import ProducerRecord
from ottla.node.client.record_batches import Lane, PendingBatch, ProducerIdentity, record_size

PLACE = TopicPartition("orders", 0)
LOST = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was lost")
NOT_LEADER = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it moved")
BAD_RECORD = KafkaError(ErrorCode.INVALID_RECORD, "no key")
FORBIDDEN = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not yours")
GAP = KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap")


def lane_with(*values: str, max_bytes: int = 10_000) -> tuple[Lane, list[PendingBatch]]:
    """Return a lane, and the batch of each value."""
    lane = Lane(PLACE)
    lane.identity = ProducerIdentity(7, 0)
    return lane, add(lane, *values, max_bytes=max_bytes)


def add(lane: Lane, *values: str, max_bytes: int = 10_000) -> list[PendingBatch]:
    batches = []
    for value in values:
        record = ProducerRecord(None, value.encode())
        batch = lane.batch_for(record_size(record), max_bytes, deadline_s=60.0)
        batch.append(record, 1000)
        batches.append(batch)
    return batches


def sent(lane: Lane) -> tuple[list[str], int, int]:
    """Return the batch that is sent now: values, producer id, first sequence number."""
    content = lane.encode()
    header = read_header(content, 0)
    values = [(record.value or b"").decode() for record in iterate_records(memoryview(content))]
    return values, header.producer_id, header.base_sequence


def refused(lane: Lane, error: KafkaError, **how: Any) -> int | None:
    return lane.failed(error, **{"is_answer": True, "can_wait": True, **how})


def test_records_added_meanwhile_are_sent_with_the_next_batch() -> None:
    lane, [first] = lane_with("a")

    assert sent(lane) == (["a"], 7, 0)
    [second, *_] = add(lane, "b", "c")
    assert lane.stored(40, -1) == record_size(ProducerRecord(None, b"a")), "as much as was added, not more"
    assert sent(lane) == (["b", "c"], 7, 1)
    lane.stored(41, 5000)

    assert (first.outcomes, first.timestamp_of(0)) == ([40], 1000)
    assert (second.outcomes, second.timestamp_of(1)) == ([41, 42], 5000)
    assert second.done.is_set() and not lane.has_work


def test_a_full_batch_is_followed_by_another() -> None:
    lane, [first, second] = lane_with("a" * 500, "b" * 500, max_bytes=800)

    assert first is not second
    assert sent(lane)[0] == ["a" * 500]


@pytest.mark.parametrize(("error", "is_answer"), [(LOST, False), (NOT_LEADER, True)])
def test_a_batch_is_sent_again_under_the_same_numbers(error: KafkaError, is_answer: bool) -> None:
    lane, [batch] = lane_with("a")
    content = lane.encode()

    assert refused(lane, error, is_answer=is_answer) is None
    add(lane, "b")

    assert lane.encode() == content
    assert not batch.done.is_set()


def test_an_uncertain_batch_ends_its_sequence_numbers() -> None:
    lane, [batch] = lane_with("a")
    sent(lane)
    refused(lane, LOST, is_answer=False)

    assert refused(lane, LOST, is_answer=False, can_wait=False) == batch.size_bytes - HEADER_SIZE

    assert batch.outcomes == [LOST] and batch.done.is_set()
    assert lane.identity is None and lane.needs_own_identity


def test_a_batch_that_was_certainly_rejected_leaves_no_gap() -> None:
    lane, [batch] = lane_with("a")
    sent(lane)

    refused(lane, FORBIDDEN)
    add(lane, "b")

    assert batch.outcomes == [FORBIDDEN]
    assert sent(lane) == (["b"], 7, 0)


def test_one_bad_record_does_not_reject_the_others_of_its_batch() -> None:
    lane, [batch, *_] = lane_with("a", "b", "bad", "d", "e")
    add(lane, "f", max_bytes=1)
    offset = 10
    while lane.has_work:
        values, _, sequence = sent(lane)
        if "bad" in values:
            refused(lane, BAD_RECORD)
        else:
            assert sequence == offset - 10
            lane.stored(offset, -1)
            offset += len(values)

    assert batch.outcomes == [10, 11, BAD_RECORD, 12, 13]
    assert batch.done.is_set() and offset == 15


def test_a_leader_that_lost_the_sequence_numbers_gets_new_ones() -> None:
    lane, _ = lane_with("a")
    sent(lane)
    lane.stored(0, -1)
    add(lane, "b")
    sent(lane)

    assert refused(lane, GAP) is None
    lane.identity = ProducerIdentity(8, 0)

    assert lane.needs_own_identity
    assert sent(lane) == (["b"], 8, 0)


def test_records_that_may_be_stored_are_not_sent_under_new_numbers() -> None:
    lane, [batch] = lane_with("a")
    sent(lane)
    refused(lane, LOST, is_answer=False)

    refused(lane, GAP)

    assert batch.outcomes == [GAP]


def test_an_unsent_batch_fails_at_its_deadline() -> None:
    lane, [batch] = lane_with("a")

    assert refused(lane, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "none"), can_wait=False) is not None

    assert batch.done.is_set() and not lane.has_work
    assert lane.identity == ProducerIdentity(7, 0)


def test_an_uncertain_piece_is_split_only_if_the_leader_has_not_stored_it() -> None:
    too_large = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    for says_so in (True, False):
        lane, [batch, *_] = lane_with("a", "b")
        assert sent(lane) == (["a", "b"], 7, 0)
        assert not lane.is_in_doubt and lane.last_sequence == 1
        assert refused(lane, LOST, is_answer=False) is None
        assert lane.is_in_doubt

        if says_so:
            lane.was_not_stored()
        refused(lane, too_large)

        if says_so:
            assert sent(lane) == (["a"], 7, 0)
        else:
            assert batch.outcomes == [too_large] * 2
