"""The records that compaction keeps, batch by batch, as Kafka's cleaner does (KIP-58, KIP-98, KIP-534)."""

import pytest

from ottla.logstore.cleaning_plan import CleanableRange, candidate, cleanable_range, group_segments
from ottla.logstore.compaction import (
    CleanedBatch,
    CleaningRound,
    CleaningStats,
    LastRecord,
    RecordSpan,
    TransactionTracker,
    clean_batch,
    index_batch,
    record_spans,
)
from ottla.logstore.compression import Compression
from ottla.logstore.offset_map import OffsetMap
from ottla.logstore.opened_records import OpenedRecords
from ottla.logstore.record import (
    ControlType,
    EndTransactionMarker,
    NewRecord,
    build_batch,
    build_marker,
    iterate_records,
)
from ottla.logstore.record_batch import HEADER_SIZE, TimestampType, check_batch, read_header
from ottla.logstore.retention import SegmentSpan
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import KafkaError

NOW_MS = 10_000_000
RETENTION_MS = 1_000


def spans_in(content: bytes, count: int, last_offset_delta: int = 2**31 - 1) -> list[RecordSpan]:
    opened = OpenedRecords(Compression.NONE, content)
    return [span for _, spans in record_spans(opened, count, last_offset_delta) for span in spans]


def data(
    base_offset: int,
    *pairs: tuple[bytes | None, bytes | None],
    compression: Compression = Compression.NONE,
    **more: int,
) -> bytes:
    records: list[NewRecord] = [(key, value, 1_000 + index, ()) for index, (key, value) in enumerate(pairs)]
    is_transactional = more.get("producer_id", -1) >= 0 and more.pop("transactional", 1) == 1
    return bytes(
        build_batch(
            records,
            base_offset=base_offset,
            compression=compression,
            is_transactional=is_transactional,
            producer_id=more.get("producer_id", -1),
            producer_epoch=more.get("producer_epoch", -1),
            base_sequence=more.get("base_sequence", -1),
        )
    )


def marker(
    base_offset: int, producer_id: int, control_type: ControlType, *, producer_epoch: int = 0
) -> bytes:
    return bytes(
        build_marker(
            EndTransactionMarker(control_type, 0),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=1_000,
            base_offset=base_offset,
        )
    )


def run_round(
    batches: list[bytes],
    *,
    now_ms: int = NOW_MS,
    end_offset: int = 1_000_000,
    aborted: tuple[AbortedTransaction, ...] = (),
    last_records: dict[int, LastRecord] | None = None,
    map_bytes: int = 24 * 1_000,
) -> tuple[list[CleanedBatch], TransactionTracker]:
    offset_map = OffsetMap(buffer_bytes=map_bytes, load_factor=0.9)
    stats, tracker = CleaningStats(), TransactionTracker()
    tracker.add_aborted(aborted)
    for batch in batches:
        if not index_batch(
            read_header(batch), batch, start_offset=0, offset_map=offset_map, tracker=tracker, stats=stats
        ):
            break
    tracker = TransactionTracker()
    tracker.add_aborted(aborted)
    cleaning = CleaningRound(
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
        offset_map=offset_map,
        end_offset=end_offset,
        last_records=last_records or {},
    )
    cleaned = [
        clean_batch(read_header(batch), batch, cleaning=cleaning, tracker=tracker, stats=stats)
        for batch in batches
    ]
    left = [one for one in cleaned if one is not None]
    for one in left:
        assert check_batch(one.content) == one.header._replace(crc=check_batch(one.content).crc)
    return left, tracker


def seen(batches: list[CleanedBatch]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for batch in batches
        if not batch.header.is_control
        for record in iterate_records(batch.content)
    ]


@pytest.mark.parametrize("compression", list(Compression))
def test_the_last_record_of_each_key_keeps_its_offset(compression: Compression) -> None:
    first = data(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), compression=compression)
    second = data(3, (b"a", b"3"), (b"c", b"1"), compression=compression)

    left, _ = run_round([first, second])

    assert seen(left) == [(1, b"b", b"1"), (3, b"a", b"3"), (4, b"c", b"1")]
    assert left[0].header.base_offset == 0 and left[0].header.last_offset == 2
    assert left[0].header.compression is compression
    assert left[0].header.max_timestamp == 1_001
    assert [record.timestamp for record in iterate_records(left[0].content)] == [1_001]
    assert left[1].content == second


def test_a_batch_without_remaining_records_is_dropped() -> None:
    left, _ = run_round([data(0, (b"a", b"1")), data(1, (b"a", b"2"))])

    assert [batch.header.base_offset for batch in left] == [1]


def test_the_last_batch_of_a_round_is_kept_at_least_as_a_header() -> None:
    batches = [data(0, (b"a", b"2")), data(1, (None, b"no key"))]

    left, _ = run_round(batches, end_offset=2)

    assert left[1].header.records_count == 0 and left[1].header.size_bytes == HEADER_SIZE
    assert left[1].header.next_offset == 2


def test_a_tombstone_is_kept_until_the_horizon_set_by_its_first_cleaning() -> None:
    batches = [data(0, (b"a", b"1")), data(1, (b"b", b"1"), (b"a", None))]

    once, _ = run_round(batches)
    early, _ = run_round([bytes(one.content) for one in once], now_ms=NOW_MS + RETENTION_MS - 1)
    late, _ = run_round([bytes(one.content) for one in once], now_ms=NOW_MS + RETENTION_MS)

    assert once[0].header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert [record.timestamp for record in iterate_records(once[0].content)] == [1_000, 1_001]
    assert seen(early) == [(1, b"b", b"1"), (2, b"a", None)]
    assert seen(late) == [(1, b"b", b"1")]
    assert late[0].header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert late[0].header.max_timestamp == 1_000


def test_records_beyond_a_full_map_are_kept() -> None:
    batches = [data(offset, (b"%d" % offset, b"x"), (b"0", b"y")) for offset in range(0, 40, 2)]

    left, _ = run_round(batches, map_bytes=24 * 12)

    kept = [offset for offset, key, _ in seen(left) if key == b"0"]
    assert kept[-1] == 39 and len(kept) > 1
    assert {key for _, key, _ in seen(left)} == {b"%d" % offset for offset in range(0, 40, 2)}


def test_log_append_time_is_kept() -> None:
    batch = bytes(
        build_batch(
            [(b"a", b"1", 5, ()), (b"b", b"1", 6, ())],
            base_offset=0,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            max_timestamp=777,
        )
    )

    left, _ = run_round([batch, data(2, (b"a", b"2"))])

    assert left[0].header.max_timestamp == 777
    assert [record.timestamp for record in iterate_records(left[0].content)] == [777]


def test_timestamps_at_the_ends_of_64_bits_wrap_around_as_in_java() -> None:
    batch = bytes(build_batch([(b"a", None, -(2**63), ())], base_offset=0))

    (cleaned,), _ = run_round([batch])

    (span,) = spans_in(bytes(cleaned.content[HEADER_SIZE:]), 1)
    assert (cleaned.header.base_timestamp + span.timestamp_delta + 2**63) % 2**64 == 0
    assert cleaned.header.max_timestamp == -(2**63) and span.key == b"a"


def test_aborted_data_is_dropped_and_its_marker_after_the_horizon() -> None:
    aborted = (AbortedTransaction(7, 0, 2, 3),)
    batches = [data(0, (b"a", b"1"), (b"b", b"1"), producer_id=7), marker(2, 7, ControlType.ABORT)]
    other = data(3, (b"c", b"1"))

    once, tracker = run_round([*batches, other], aborted=aborted)
    twice, tracker_of_second = run_round([bytes(one.content) for one in once], aborted=aborted)
    late, _ = run_round([bytes(one.content) for one in twice], now_ms=NOW_MS + RETENTION_MS, aborted=aborted)

    assert seen(once) == [(3, b"c", b"1")]
    assert once[0].header.is_control and once[0].header.delete_horizon_ms is None
    assert tracker.retained_aborts == list(aborted)
    assert twice[0].header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert tracker_of_second.retained_aborts == []
    assert [one.header.base_offset for one in late] == [3]


def test_aborted_values_do_not_hide_older_ones() -> None:
    batches = [data(0, (b"a", b"1")), data(1, (b"a", b"2"), producer_id=7), marker(2, 7, ControlType.ABORT)]

    left, _ = run_round(batches, aborted=(AbortedTransaction(7, 1, 2, 3),))

    assert seen(left) == [(0, b"a", b"1")]


def test_a_commit_marker_is_kept_while_its_transaction_has_records() -> None:
    batches = [data(0, (b"a", b"1"), producer_id=7), marker(1, 7, ControlType.COMMIT)]

    kept, _ = run_round(batches)
    superseded, _ = run_round([*batches, data(2, (b"a", b"2"))])
    gone, _ = run_round([bytes(one.content) for one in superseded])

    assert [one.header.base_offset for one in kept] == [0, 1]
    assert kept[1].header.delete_horizon_ms is None
    assert [one.header.base_offset for one in superseded] == [1, 2]
    assert superseded[0].header.delete_horizon_ms is None
    assert gone[0].header.delete_horizon_ms == NOW_MS + RETENTION_MS


def test_the_last_sequence_of_an_active_producer_is_kept_as_an_empty_batch() -> None:
    batches = [
        data(0, (b"a", b"1"), producer_id=7, producer_epoch=2, base_sequence=5, transactional=0),
        data(1, (b"a", b"2")),
    ]

    left, _ = run_round(batches, last_records={7: LastRecord(0, 2)})
    again, _ = run_round([bytes(one.content) for one in left], last_records={7: LastRecord(0, 2)})
    expired, _ = run_round([bytes(one.content) for one in left])

    header = left[0].header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    assert header.records_count == 0 and header.max_timestamp == 1_000 and header.base_timestamp == -1
    assert bytes(again[0].content) == bytes(left[0].content)
    assert [one.header.base_offset for one in expired] == [1]


def test_the_marker_with_a_producers_epoch_is_kept() -> None:
    batches = [marker(0, 7, ControlType.COMMIT, producer_epoch=3), data(1, (b"a", b"1"))]
    fenced = {7: LastRecord(None, 3)}

    once, _ = run_round(batches, last_records=fenced)
    late, _ = run_round(
        [bytes(one.content) for one in once], now_ms=NOW_MS + RETENTION_MS, last_records=fenced
    )
    later, _ = run_round([bytes(one.content) for one in late], now_ms=NOW_MS + RETENTION_MS)

    assert once[0].header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert late[0].header.is_control and late[0].header.records_count == 0
    assert [one.header.base_offset for one in later] == [1]


def test_bytes_that_are_not_records_are_rejected_by_compaction() -> None:
    batch = data(0, (b"a", b"1"), (b"b", b"22"))
    content = batch[HEADER_SIZE:]

    assert len(spans_in(content, 2)) == 2
    for size in range(len(content)):
        with pytest.raises(KafkaError):
            spans_in(content[:size], 2)
    for position in range(len(content)):
        for byte in (0, 1, 0x7F, 0xFF):
            try:
                spans_in(content[:position] + bytes((byte,)) + content[position + 1 :], 2)
            except KafkaError:
                pass


def test_a_record_outside_the_offsets_of_its_batch_is_rejected() -> None:
    content = data(0, (b"a", b"1"), (b"b", b"2"))[HEADER_SIZE:]

    with pytest.raises(KafkaError, match="offset delta 1"):
        spans_in(content, 2, 0)


CLOSED = [SegmentSpan(0, 100, 1_000), SegmentSpan(10, 100, 2_000), SegmentSpan(20, 100, 3_000)]


@pytest.mark.parametrize(
    ("checkpoint", "stable", "lag_ms", "expected"),
    [
        (None, 40, 0, CleanableRange(0, 30, True)),
        (10, 40, 0, CleanableRange(10, 30, True)),
        (10, 25, 0, CleanableRange(10, 25, True)),
        (41, 40, 0, CleanableRange(0, 30, False)),
        (None, 40, 4_000 - 1_500, CleanableRange(0, 10, True)),
        (25, 20, 0, CleanableRange(25, 25, True)),
    ],
)
def test_the_cleanable_range_lies_between_the_checkpoint_and_the_first_record_that_must_wait(
    checkpoint: int | None, stable: int, lag_ms: int, expected: CleanableRange
) -> None:
    assert expected == cleanable_range(
        CLOSED,
        active_base_offset=30,
        log_start_offset=0,
        log_end_offset=40,
        last_stable_offset=stable,
        checkpoint=checkpoint,
        min_compaction_lag_ms=lag_ms,
        now_ms=4_000,
    )


@pytest.mark.parametrize(
    ("first_dirty", "first_uncleanable", "end", "clean_bytes", "cleanable_bytes"),
    [
        (0, 30, 30, 0, 300),
        (10, 30, 30, 100, 200),
        (10, 25, 20, 100, 100),
        (20, 22, 20, 200, 0),
        (30, 30, 30, 300, 0),
    ],
)
def test_the_dirty_ratio_counts_whole_segments(
    first_dirty: int, first_uncleanable: int, end: int, clean_bytes: int, cleanable_bytes: int
) -> None:
    found = candidate(
        CLOSED,
        CleanableRange(first_dirty, first_uncleanable, True),
        active_base_offset=30,
        first_batch_timestamps=[500],
        max_compaction_lag_ms=1_000,
        now_ms=2_000,
    )

    assert (found.end_offset, found.clean_bytes, found.cleanable_bytes) == (end, clean_bytes, cleanable_bytes)
    assert found.delay_ms == 500
    assert found.is_due(1.0) == (cleanable_bytes > 0)


def test_small_adjacent_segments_are_merged() -> None:
    segments = [
        SegmentSpan(0, 60, 0),
        SegmentSpan(10, 30, 0),
        SegmentSpan(20, 30, 0),
        SegmentSpan(2**31 + 5, 1, 0),
    ]

    groups = group_segments(segments, max_segment_bytes=100, max_index_bytes=10, end_offset=2**31 + 20)

    assert [[one.base_offset for one in group] for group in groups] == [[0, 10], [20, 2**31 + 5]]
    apart = group_segments(segments, max_segment_bytes=1_000, max_index_bytes=10, end_offset=2**31 + 20)
    # The last offset of a segment counts as just below the next one's base offset.
    assert [len(group) for group in apart] == [2, 2]
