"""The queue of a partition: sequence numbers, retries, and batches that are rejected."""

from typing import Any

import pytest

from ottla.logstore.record import iterate_records
from ottla.logstore.record_batch import HEADER_SIZE, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.producer import ProducerRecord
from ottla.node.client.record_batches import PartitionQueue, PendingBatch, ProducerIdentity, record_size

PLACE = TopicPartition("orders", 0)
LOST = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was lost")
NOT_LEADER = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it moved")
BAD_RECORD = KafkaError(ErrorCode.INVALID_RECORD, "no key")
FORBIDDEN = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not yours")
GAP = KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap")


def queue_with(*values: str, max_bytes: int = 10_000) -> tuple[PartitionQueue, list[PendingBatch]]:
    """Return a queue, and the batch of each value."""
    queue = PartitionQueue(PLACE)
    queue.identity = ProducerIdentity(7, 0)
    return queue, add(queue, *values, max_bytes=max_bytes)


def add(queue: PartitionQueue, *values: str, max_bytes: int = 10_000) -> list[PendingBatch]:
    batches = []
    for value in values:
        record = ProducerRecord(None, value.encode())
        batch = queue.batch_for(record_size(record), max_bytes, deadline_s=60.0)
        batch.append(record, 1000)
        batches.append(batch)
    return batches


def sent(queue: PartitionQueue) -> tuple[list[str], int, int]:
    """Return the batch that is sent now: values, producer id, first sequence number."""
    content = queue.encode()
    header = read_header(content, 0)
    values = [(record.value or b"").decode() for record in iterate_records(memoryview(content))]
    return values, header.producer_id, header.base_sequence


def fail(queue: PartitionQueue, error: KafkaError, **how: Any) -> int | None:
    return queue.failed(error, **{"is_answer": True, "can_wait": True, **how})


def test_records_added_meanwhile_are_sent_with_the_next_batch() -> None:
    queue, [first] = queue_with("a")

    assert sent(queue) == (["a"], 7, 0)
    [second, *_] = add(queue, "b", "c")
    assert queue.stored(40, -1) == record_size(ProducerRecord(None, b"a")), "as much as was added, not more"
    assert sent(queue) == (["b", "c"], 7, 1)
    queue.stored(41, 5000)

    assert (first.outcomes, first.timestamp_of(0)) == ([40], 1000)
    assert (second.outcomes, second.timestamp_of(1)) == ([41, 42], 5000)
    assert second.done.is_set() and not queue.has_work


def test_a_full_batch_is_followed_by_another() -> None:
    queue, [first, second] = queue_with("a" * 500, "b" * 500, max_bytes=800)

    assert first is not second
    assert sent(queue)[0] == ["a" * 500]


@pytest.mark.parametrize(("error", "is_answer"), [(LOST, False), (NOT_LEADER, True)])
def test_a_batch_is_sent_again_under_the_same_numbers(error: KafkaError, is_answer: bool) -> None:
    queue, [batch] = queue_with("a")
    content = queue.encode()

    assert fail(queue, error, is_answer=is_answer) is None
    add(queue, "b")

    assert queue.encode() == content
    assert not batch.done.is_set()


def test_after_a_batch_with_an_unknown_outcome_other_sequence_numbers_are_used() -> None:
    queue, [batch] = queue_with("a")
    sent(queue)
    fail(queue, LOST, is_answer=False)

    assert fail(queue, LOST, is_answer=False, can_wait=False) == batch.size_bytes - HEADER_SIZE

    assert batch.outcomes == [LOST] and batch.done.is_set()
    assert queue.identity is None and queue.needs_own_identity


def test_a_batch_that_was_certainly_rejected_leaves_no_gap() -> None:
    queue, [batch] = queue_with("a")
    sent(queue)

    fail(queue, FORBIDDEN)
    add(queue, "b")

    assert batch.outcomes == [FORBIDDEN]
    assert sent(queue) == (["b"], 7, 0)


def test_one_bad_record_does_not_reject_the_others_of_its_batch() -> None:
    queue, [batch, *_] = queue_with("a", "b", "bad", "d", "e")
    add(queue, "f", max_bytes=1)
    offset = 10
    while queue.has_work:
        values, _, sequence = sent(queue)
        if "bad" in values:
            fail(queue, BAD_RECORD)
        else:
            assert sequence == offset - 10
            queue.stored(offset, -1)
            offset += len(values)

    assert batch.outcomes == [10, 11, BAD_RECORD, 12, 13]
    assert batch.done.is_set() and offset == 15


def test_a_leader_that_lost_the_sequence_numbers_gets_new_ones() -> None:
    queue, _ = queue_with("a")
    sent(queue)
    queue.stored(0, -1)
    add(queue, "b")
    sent(queue)

    assert fail(queue, GAP) is None
    queue.identity = ProducerIdentity(8, 0)

    assert queue.needs_own_identity
    assert sent(queue) == (["b"], 8, 0)


def test_records_that_may_be_stored_are_not_sent_under_new_numbers() -> None:
    queue, [batch] = queue_with("a")
    sent(queue)
    fail(queue, LOST, is_answer=False)

    fail(queue, GAP)

    assert batch.outcomes == [GAP]


def test_an_unsent_batch_fails_at_its_deadline() -> None:
    queue, [batch] = queue_with("a")

    assert fail(queue, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "none"), can_wait=False) is not None

    assert batch.done.is_set() and not queue.has_work
    assert queue.identity == ProducerIdentity(7, 0)


def test_a_batch_with_an_unknown_outcome_is_split_only_if_the_leader_has_not_stored_it() -> None:
    too_large = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    for is_known in (True, False):
        queue, [batch, *_] = queue_with("a", "b")
        assert sent(queue) == (["a", "b"], 7, 0)
        assert not queue.is_in_doubt and queue.last_sequence == 1
        assert fail(queue, LOST, is_answer=False) is None
        assert queue.is_in_doubt

        if is_known:
            queue.was_not_stored()
        fail(queue, too_large)

        if is_known:
            assert sent(queue) == (["a"], 7, 0)
        else:
            assert batch.outcomes == [too_large] * 2
