"""Acquired records: those that are returned, gaps, rejected ones, and hostile ranges."""

from collections.abc import Sequence

import pytest

from ottla.logstore.record import NewRecord, build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.acquired_records import AcknowledgedRange, AcquiredCursor, joined
from ottla.node.wire.acknowledge_type import AcknowledgeType
from ottla.node.wire.messages.share_fetch import AcquiredRecords

PLACE = TopicPartition("orders", 0)
GAP, RELEASE, REJECT = AcknowledgeType.GAP, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def batch(base_offset: int, count: int) -> bytes:
    records: list[NewRecord] = [(None, b"%d" % (base_offset + index), 0, ()) for index in range(count)]
    return bytes(build_batch(records, base_offset=base_offset))


def damaged(content: bytes) -> bytes:
    """Return a batch with a wrong checksum."""
    return content[:-1] + bytes([content[-1] ^ 1])


def acquired(*ranges: tuple[int, int, int]) -> list[AcquiredRecords]:
    return [AcquiredRecords(first_offset=a, last_offset=b, delivery_count=n) for a, b, n in ranges]


def opened(cursor: AcquiredCursor) -> list[tuple[int, int]]:
    return [(one.record.offset, one.delivery_count) for one in cursor if one is not None]


def test_only_acquired_records_are_returned_with_their_count() -> None:
    cursor = AcquiredCursor(PLACE, memoryview(batch(0, 10)), acquired((2, 3, 1), (7, 8, 4)))

    assert opened(cursor) == [(2, 1), (3, 1), (7, 4), (8, 4)]
    assert (cursor.settled, cursor.unreadable, cursor.rest) == ([], [], [])


def test_offsets_without_a_record_are_gaps() -> None:
    cursor = AcquiredCursor(PLACE, memoryview(batch(0, 3) + batch(5, 2)), acquired((1, 8, 2)))

    assert opened(cursor) == [(1, 2), (2, 2), (5, 2), (6, 2)]
    assert cursor.settled == [AcknowledgedRange(3, 4, GAP), AcknowledgedRange(7, 8, GAP)]


def test_a_damaged_batch_is_rejected_and_the_next_one_is_read() -> None:
    content = damaged(batch(0, 3)) + batch(3, 2)
    cursor = AcquiredCursor(PLACE, memoryview(content), acquired((1, 4, 1)))

    assert opened(cursor) == [(3, 1), (4, 1)]
    assert cursor.settled == [AcknowledgedRange(1, 2, REJECT)]
    assert [(one.first, one.last, one.error.code) for one in cursor.unreadable] == [
        (1, 2, ErrorCode.CORRUPT_MESSAGE)
    ]


def test_a_torn_tail_is_released_and_is_not_a_gap() -> None:
    cursor = AcquiredCursor(PLACE, memoryview(batch(0, 2) + batch(2, 2)[:-5]), acquired((0, 3, 1)))

    assert opened(cursor) == [(0, 1), (1, 1)]
    assert cursor.settled == [AcknowledgedRange(2, 3, RELEASE)]


def test_bytes_without_a_frame_are_released() -> None:
    broken = bytearray(batch(2, 2))
    broken[8:12] = (0).to_bytes(4, "big")  # the length field of the batch
    cursor = AcquiredCursor(PLACE, memoryview(batch(0, 2) + broken), acquired((0, 3, 1)))

    assert opened(cursor) == [(0, 1), (1, 1)]
    assert cursor.settled == [AcknowledgedRange(2, 3, RELEASE)]


def test_ranges_that_are_not_opened_yet_are_known() -> None:
    cursor = AcquiredCursor(PLACE, memoryview(batch(0, 10)), acquired((0, 4, 1), (6, 9, 1)))

    next(cursor)
    assert cursor.rest == [(1, 4), (6, 9)]


@pytest.mark.parametrize(
    "ranges", [[(5, 4, 1)], [(0, 5, 1), (5, 9, 1)], [(6, 9, 1), (0, 5, 1)], [(-3, 2, 1)], [(0, 2**63 - 1, 1)]]
)
def test_impossible_ranges_are_rejected(ranges: Sequence[tuple[int, int, int]]) -> None:
    with pytest.raises(KafkaError) as caught:
        AcquiredCursor(PLACE, memoryview(b""), acquired(*ranges))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_range_of_a_whole_log_costs_nothing() -> None:
    cursor = AcquiredCursor(PLACE, memoryview(batch(0, 1)), acquired((0, 2**62, 1)))

    assert opened(cursor) == [(0, 1)]
    assert cursor.settled == [AcknowledgedRange(1, 2**62, GAP)]


def test_adjacent_ranges_of_one_type_are_merged() -> None:
    accept = AcknowledgeType.ACCEPT
    ranges = [AcknowledgedRange(one, one, accept) for one in (3, 1, 2, 5)] + [AcknowledgedRange(4, 4, REJECT)]

    assert joined(ranges) == [
        AcknowledgedRange(1, 3, accept),
        AcknowledgedRange(4, 4, REJECT),
        AcknowledgedRange(5, 5, accept),
    ]
