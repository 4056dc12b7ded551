"""The log of a partition: append, read, look up, roll, truncate."""

import errno
from dataclasses import replace
from typing import Any

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_reader import SegmentsChanged
from ottla.logstore.partition_log import AppendOrigin, FetchIsolation, PartitionLog
from ottla.logstore.record import ControlType, EndTransactionMarker, build_marker
from ottla.logstore.record_batch import MAX_SEQUENCE, TimestampType, check_batch, iterate_headers, read_header
from ottla.logstore.roll import longest_age_ms
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.unit.logstore.log_maker import (
    NOW_MS,
    append,
    batch_of,
    end_transaction,
    epochs_of,
    files,
    open_log,
    records_of_log,
    send,
)

LOG_END, HIGH_WATERMARK, COMMITTED = FetchIsolation


@pytest.fixture
def log() -> PartitionLog:
    return open_log(MemoryDisk())


def test_the_leader_assigns_offsets_and_epochs(log: PartitionLog) -> None:
    buffer = batch_of(3)
    append(log, 2, epoch=4)

    result = log.append_as_leader(buffer, leader_epoch=5, now_ms=NOW_MS)

    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (2, 4, -1)
    header = check_batch(buffer)  # patched in the caller's buffer, with a CRC that is still valid
    assert (header.base_offset, header.partition_leader_epoch) == (2, 5)
    assert epochs_of(log) == ((4, 0), (5, 2))
    log.check_invariants()


def test_a_read_only_buffer_is_appended_too(log: PartitionLog) -> None:
    log.append_as_leader(bytes(batch_of(2)), leader_epoch=3, now_ms=NOW_MS)
    log.append_as_leader(memoryview(bytes(batch_of(2))), leader_epoch=3, now_ms=NOW_MS)

    assert [record.offset for record in records_of_log(log)] == [0, 1, 2, 3]
    log.check_invariants()


def test_the_result_has_the_log_append_time() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(message_timestamp_type="LogAppendTime"))

    assert append(log, 2, now_ms=NOW_MS + 5).log_append_time_ms == NOW_MS + 5

    assert {record.timestamp for record in records_of_log(log)} == {NOW_MS + 5}


def test_a_rejected_batch_leaves_the_log_unchanged(log: PartitionLog) -> None:
    for refused in (b"", batch_of()[:-1], batch_of() * 2):
        with pytest.raises(KafkaError):
            log.append_as_leader(refused, leader_epoch=0, now_ms=NOW_MS)

    assert (log.log_end_offset, log.size_bytes, epochs_of(log)) == (0, 0, ())


def test_a_batch_larger_than_a_segment_is_rejected() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=100))

    with pytest.raises(KafkaError) as refused:
        append(log, value=bytes(100))

    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_duplicate_gets_the_offsets_of_the_first_batch(log: PartitionLog) -> None:
    first = send(log, 9, 0, count=3)
    append(log)
    send(log, 9, 3)

    again = send(log, 9, 0, count=3)

    assert again == first._replace(log_append_time_ms=NOW_MS, duplicate=True)
    assert log.log_end_offset == 5
    with pytest.raises(KafkaError) as refused:
        send(log, 9, 9)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 10, 0, producer_epoch=2)
    with pytest.raises(KafkaError) as fenced:
        send(log, 10, 1, producer_epoch=1)
    assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_in_the_log(log: PartitionLog) -> None:
    append(log)
    send(log, 9, MAX_SEQUENCE - 1, count=3)

    assert send(log, 9, 1).base_offset == 4
    assert send(log, 9, MAX_SEQUENCE - 1, count=3).duplicate


def test_producers_expire(log: PartitionLog) -> None:
    send(log, 9, 0)

    assert sum(log.remove_expired_producers(NOW_MS + 999, 1000)) == 0
    assert sum(log.remove_expired_producers(NOW_MS + 1000, 1000)) == 1
    assert send(log, 9, 77).base_offset == 1


# Reading.


@pytest.fixture
def long_log() -> PartitionLog:
    """Return a log of 20 batches of 3 records each, of equal size, with 4 batches a segment."""
    size = len(batch_of(3))
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=4 * size, index_interval_bytes=size))
    for _ in range(20):
        append(log, 3)
    log.update_high_watermark(60)
    assert len(log.segments) == 5
    return log


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 11, 12, 13, 47, 59])
def test_a_read_begins_with_the_batch_that_contains_the_offset(long_log: PartitionLog, offset: int) -> None:
    content = long_log.read(offset, 1, isolation=HIGH_WATERMARK, minimum_one_batch=True).slice.read()

    header = check_batch(content)
    assert header.base_offset == offset // 3 * 3
    assert len(content) == header.size_bytes


def test_max_bytes_may_cut_off_the_last_batch_but_never_the_first(long_log: PartitionLog) -> None:
    size = len(batch_of(3))

    def read(max_bytes: int, minimum_one_batch: bool) -> tuple[int, bool]:
        info = long_log.read(0, max_bytes, isolation=LOG_END, minimum_one_batch=minimum_one_batch)
        return info.slice.size, info.is_first_batch_too_large

    assert read(size - 1, True) == (size, False)
    assert read(size - 1, False) == (0, True)
    assert read(size, False) == (size, False)
    assert read(size + 10, False) == (size + 10, False)
    assert read(10**9, False) == (4 * size, False)  # a read stays in its segment


def test_a_large_read_ends_at_a_batch_and_reports_the_readable_bytes() -> None:
    """Clients drop a partial batch, and get it again with the next read."""
    log, size = open_log(MemoryDisk()), len(batch_of(value=bytes(20_000)))
    for _ in range(10):
        append(log, value=bytes(20_000))
    log.update_high_watermark(10)

    info = log.read(2, 3 * size + 10_000, isolation=HIGH_WATERMARK, minimum_one_batch=False)
    assert (info.slice.size, info.readable_bytes) == (3 * size, 3 * size + 10_000)
    info = log.read(2, 3 * size, isolation=HIGH_WATERMARK, minimum_one_batch=False)
    assert (info.slice.size, info.readable_bytes) == (3 * size, 3 * size)
    info = log.read(8, 3 * size, isolation=HIGH_WATERMARK, minimum_one_batch=False)
    assert (info.slice.size, info.readable_bytes) == (2 * size, 2 * size)
    info = log.read(2, size + 10_000, isolation=HIGH_WATERMARK, minimum_one_batch=False)
    assert (info.slice.size, info.readable_bytes) == (size + 10_000, size + 10_000), "less than 32 KiB"


@pytest.mark.parametrize("interval", [4096, 100_000, 10_000_000])
@pytest.mark.parametrize("max_bytes", [1, 40_000, 65_536, 200_000])
def test_reads_miss_nothing_with_any_distance_of_index_rows(interval: int, max_bytes: int) -> None:
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=1_000_000, index_interval_bytes=interval))
    for number in range(200):
        append(log, value=bytes(1 + number * 997 % 30_000))
    log.update_high_watermark(200)

    seen = 0
    while seen < 200:
        info = log.read(seen, max_bytes, isolation=HIGH_WATERMARK, minimum_one_batch=True)
        assert info.slice.size <= info.readable_bytes
        if info.slice.size < info.readable_bytes:
            assert info.slice.size >= info.readable_bytes // 2
        batches = [one for _, one in iterate_headers(info.slice.read())]
        assert batches[0].base_offset == seen
        seen = batches[-1].next_offset


@pytest.mark.parametrize("high_watermark", [0, 3, 6, 12, 15, 57, 60])
def test_consumers_see_no_byte_above_the_high_watermark(high_watermark: int) -> None:
    size = len(batch_of(3))
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=4 * size, index_interval_bytes=size))
    for _ in range(20):
        append(log, 3)
    log.update_high_watermark(high_watermark)

    seen = 0
    while content := log.read(seen, 10**6, isolation=HIGH_WATERMARK, minimum_one_batch=True).slice.read():
        *_, (position, last) = iterate_headers(content)
        assert position + last.size_bytes == len(content)
        seen = last.next_offset

    assert seen == high_watermark


@pytest.mark.parametrize("offset", [-1, 61, 10**9])
def test_offsets_outside_the_log_are_rejected(long_log: PartitionLog, offset: int) -> None:
    with pytest.raises(KafkaError) as refused:
        long_log.read(offset, 1, isolation=LOG_END, minimum_one_batch=True)

    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert long_log.read(60, 1, isolation=LOG_END, minimum_one_batch=True).slice.size == 0


def test_a_reader_skips_offsets_that_compaction_removed() -> None:
    log = open_log(MemoryDisk())
    log.append_as_follower(batch_of(1, base_offset=5, partition_leader_epoch=0))
    log.roll(now_ms=NOW_MS)
    log.append_as_follower(batch_of(1, base_offset=90, partition_leader_epoch=0))
    log.update_high_watermark(91)

    for offset in (6, 50, 90):
        content = log.read(offset, 1, isolation=HIGH_WATERMARK, minimum_one_batch=True).slice.read()
        assert read_header(content).base_offset == 90


def test_bytes_that_are_not_cached_are_not_read_without_waiting(long_log: PartitionLog) -> None:
    piece = long_log.read(0, 10**6, isolation=LOG_END, minimum_one_batch=True).slice
    disk: Any = long_log._disk

    assert piece.read_cached() == piece.read()
    disk.is_cached = False
    assert piece.read_cached() is None


# Transactions.


def test_read_committed_stops_at_the_first_open_transaction(log: PartitionLog) -> None:
    append(log)
    send(log, 1, 0, is_transactional=True)
    send(log, 2, 0, is_transactional=True)
    append(log)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 1

    end_transaction(log, 1, ControlType.ABORT)

    assert log.last_stable_offset == 1  # the marker is above the high watermark
    log.update_high_watermark(5)
    assert log.last_stable_offset == 2
    end_transaction(log, 2, ControlType.COMMIT)
    log.update_high_watermark(6)
    assert log.last_stable_offset == 6
    info = log.read(0, 10**6, isolation=COMMITTED, minimum_one_batch=True)
    assert [(row.producer_id, row.first_offset) for row in info.aborted_transactions or []] == [(1, 1)]
    assert log.read(0, 9, isolation=HIGH_WATERMARK, minimum_one_batch=True).aborted_transactions is None
    assert log.read(6, 9, isolation=COMMITTED, minimum_one_batch=True).aborted_transactions == []


def test_read_committed_returns_no_byte_of_an_open_transaction(log: PartitionLog) -> None:
    append(log)
    send(log, 1, 0, is_transactional=True)
    append(log)
    log.update_high_watermark(3)

    def offsets(isolation: FetchIsolation, first: int = 0) -> list[int]:
        content = log.read(first, 10**6, isolation=isolation, minimum_one_batch=True).slice.read()
        return [header.base_offset for _, header in iterate_headers(content)]

    assert offsets(HIGH_WATERMARK) == [0, 1, 2]
    assert offsets(COMMITTED) == [0] and offsets(COMMITTED, 1) == []
    end_transaction(log, 1, ControlType.COMMIT)
    assert offsets(COMMITTED) == [0]  # the marker is above the high watermark
    log.update_high_watermark(4)
    assert offsets(COMMITTED) == [0, 1, 2, 3]


def test_a_marker_has_the_timestamp_type_of_its_topic(log: PartitionLog) -> None:
    log.update_config(replace(log.config, message_timestamp_type="LogAppendTime"))
    send(log, 1, 0, is_transactional=True)

    end_transaction(log, 1, ControlType.COMMIT)

    content = log.read(0, 10**6, isolation=LOG_END, minimum_one_batch=True).slice.read()
    types = [header.timestamp_type for _, header in iterate_headers(content)]
    assert types == [TimestampType.LOG_APPEND_TIME] * 2


def test_a_marker_is_not_accepted_as_data_of_any_origin(log: PartitionLog) -> None:
    send(log, 1, 0, is_transactional=True)
    batch = build_marker(
        EndTransactionMarker(ControlType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS
    )

    for origin in AppendOrigin:
        with pytest.raises(KafkaError) as refused:
            log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=NOW_MS, origin=origin)
        assert refused.value.code is ErrorCode.INVALID_RECORD

    assert log.has_ongoing_transaction(1, 0)


def test_a_follower_lists_the_same_aborted_transactions_as_its_leader(log: PartitionLog) -> None:
    send(log, 1, 0, is_transactional=True)
    append(log)
    end_transaction(log, 1, ControlType.ABORT)
    log.update_high_watermark(3)
    follower = open_log(MemoryDisk())

    follower.append_as_follower(log.read(0, 10**6, isolation=LOG_END, minimum_one_batch=True).slice.read())
    follower.update_high_watermark(3)

    rows = [
        one.read(0, 10**6, isolation=COMMITTED, minimum_one_batch=True).aborted_transactions
        for one in (log, follower)
    ]
    assert rows[0] and rows[0] == rows[1]


def test_truncating_a_marker_removes_the_aborted_transaction(log: PartitionLog) -> None:
    send(log, 1, 0, is_transactional=True)
    end_transaction(log, 1, ControlType.ABORT)

    log.truncate_to(1, now_ms=NOW_MS)
    end_transaction(log, 1, ControlType.COMMIT)
    log.update_high_watermark(2)

    assert log.read(0, 10**6, isolation=COMMITTED, minimum_one_batch=True).aborted_transactions == []


def test_truncating_a_stable_marker_leaves_the_transaction_open(log: PartitionLog) -> None:
    """After an unclean election a truncation may go below the former high watermark."""
    append(log)
    send(log, 1, 0, is_transactional=True)
    append(log)
    end_transaction(log, 1, ControlType.COMMIT)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4

    log.truncate_to(3, now_ms=NOW_MS)

    assert (log.high_watermark, log.last_stable_offset) == (3, 1)


def test_aborted_transactions_are_sorted_by_their_first_offset() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=400, index_interval_bytes=0))
    for producer_id in (1, 2, 3):
        send(log, producer_id, 0, is_transactional=True)
    for producer_id in (3, 1, 2):
        append(log)
        end_transaction(log, producer_id, ControlType.ABORT)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) > 1

    info = log.read(0, 10**6, isolation=COMMITTED, minimum_one_batch=True)

    assert [row.first_offset for row in info.aborted_transactions or []] == [0, 1, 2]


def test_a_producers_control_batch_is_not_appended_as_data(log: PartitionLog) -> None:
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    fake = build_marker(marker, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS)

    with pytest.raises(KafkaError):
        log.append_as_leader(fake, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    assert log.log_end_offset == 0


# Followers.


def test_a_follower_has_the_same_bytes_as_its_leader(log: PartitionLog) -> None:
    send(log, 1, 0, is_transactional=True, epoch=2)
    append(log, 3, epoch=3)
    end_transaction(log, 1, ControlType.ABORT)
    fetched = log.read(0, 10**6, isolation=LOG_END, minimum_one_batch=True).slice.read()
    follower = open_log(MemoryDisk())

    result = follower.append_as_follower(fetched + fetched[:65])

    assert (result.base_offset, result.last_offset) == (0, 4)
    assert follower.read(0, 10**6, isolation=LOG_END, minimum_one_batch=True).slice.read() == fetched
    assert epochs_of(follower) == epochs_of(log)
    follower.update_high_watermark(5)
    assert follower.last_stable_offset == 5
    follower.check_invariants()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"segment_bytes": 700},
        {"segment_ms": 1000},
        {"index_interval_bytes": 0, "segment_index_bytes": 80},
        {"index_interval_bytes": 150},
        {"flush_messages": 4},
    ],
)
def test_batches_appended_together_equal_batches_appended_one_by_one(settings: dict[str, int]) -> None:
    """They have producers, a transaction, new leader epochs and a gap, as from a compacted leader."""
    leader = open_log(MemoryDisk())
    for number in range(40):
        append(leader, 1 + number % 3, epoch=number // 15, timestamp=NOW_MS + 50 * number)
        send(leader, 7, number, is_transactional=True, epoch=number // 15)
    end_transaction(leader, 7, ControlType.ABORT)
    leader.append_as_follower(batch_of(2, base_offset=leader.log_end_offset + 9))
    fetched = leader.read(0, 10**6, isolation=LOG_END, minimum_one_batch=True).slice.read()
    config = LogConfig(**settings)  # type: ignore[arg-type]
    together, single = open_log(MemoryDisk(), config=config), open_log(MemoryDisk(), config=config)

    together.append_as_follower(fetched, now_ms=NOW_MS)
    for position, header in iterate_headers(fetched):
        single.append_as_follower(fetched[position : position + header.size_bytes], now_ms=NOW_MS)

    together.check_invariants()
    for log in (together, single):
        log.close(now_ms=NOW_MS)
    assert together._disk.files.keys() == single._disk.files.keys()  # type: ignore[attr-defined]
    for path, inode in single._disk.files.items():  # type: ignore[attr-defined]
        assert together._disk.files[path].content == inode.content, path  # type: ignore[attr-defined]


def test_a_follower_rejects_batches_that_do_not_follow_its_log(log: PartitionLog) -> None:
    log.append_as_follower(batch_of(2, base_offset=0))

    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(batch_of(2, base_offset=2) + batch_of(2, base_offset=1))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    broken = batch_of(2, base_offset=2)
    broken[-1] ^= 1
    with pytest.raises(KafkaError) as corrupt:
        log.append_as_follower(batch_of(1, base_offset=2) + broken)
    assert corrupt.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 2


# Rolling.


def test_a_segment_is_rolled_by_size() -> None:
    size = len(batch_of())
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=3 * size))

    for _ in range(7):
        append(log)

    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert "00000000000000000003.snapshot" in files(log._disk)  # type: ignore[arg-type]


@pytest.mark.parametrize(("age_ms", "segments_count"), [(1000, 1), (1001, 2)])
def test_a_segment_is_rolled_by_the_timestamp_of_its_first_batch(age_ms: int, segments_count: int) -> None:
    log = open_log(MemoryDisk(), config=LogConfig(segment_ms=1000))
    append(log, timestamp=5000)
    append(log, timestamp=1)

    append(log, timestamp=5000 + age_ms)

    assert len(log.segments) == segments_count


def test_a_segment_without_timestamps_is_rolled_by_the_clock() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(segment_ms=1000))
    append(log, timestamp=-1)

    append(log, timestamp=-1, now_ms=NOW_MS + 1001)

    assert len(log.segments) == 2


def test_jitter_rolls_a_segment_earlier_and_is_the_same_in_every_process() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(segment_ms=10_000, segment_jitter_ms=5_000))

    longest_ms = longest_age_ms(log.topic_partition, log.active_segment, log.config)

    assert longest_ms == 8_495
    append(log, timestamp=1)
    append(log, timestamp=2 + longest_ms)
    assert len(log.segments) == 2


def test_a_segment_is_rolled_when_an_index_is_full() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(index_interval_bytes=0, segment_index_bytes=80))

    for number in range(30):
        append(log, timestamp=NOW_MS + number)

    # 80 bytes have room for 6 rows of the time index; as in Kafka, the last one is reserved for the roll.
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12, 18, 24]
    log.check_invariants()


def test_a_follower_may_roll_where_its_leader_did_not() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(index_interval_bytes=0, segment_index_bytes=80))

    for number in range(30):
        log.append_as_follower(batch_of(base_offset=number, timestamp=NOW_MS + number))

    assert [segment.base_offset for segment in log.segments] == [0, 6, 12, 18, 24]
    log.check_invariants()


def test_the_age_of_a_truncated_segment_restarts() -> None:
    log = open_log(MemoryDisk(), config=LogConfig(segment_ms=1000))
    for timestamp in (5000, 5001, 5002):
        append(log, timestamp=timestamp)
    log.truncate_to(0, now_ms=NOW_MS)

    for timestamp in (1, 1001, 1002):
        append(log, timestamp=timestamp)

    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_is_rolled_before_a_relative_offset_overflows() -> None:
    log = open_log(MemoryDisk())
    append(log)

    log.append_as_follower(batch_of(1, base_offset=2**31 - 1))
    log.append_as_follower(batch_of(1, base_offset=2**31))
    log.append_as_follower(batch_of(1, base_offset=2**40))

    assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**40]
    log.check_invariants()


def test_an_empty_segment_is_not_rolled(log: PartitionLog) -> None:
    assert log.roll(now_ms=NOW_MS) is log.roll(now_ms=NOW_MS)
    append(log)
    assert log.roll(now_ms=NOW_MS).base_offset == 1


def test_a_new_config_applies_from_the_next_append(log: PartitionLog) -> None:
    append(log)

    log.update_config(LogConfig(segment_bytes=len(batch_of())))
    append(log)

    assert len(log.segments) == 2


# Looking up.


def test_a_search_by_time_is_unaffected_by_later_changes_of_the_log(long_log: PartitionLog) -> None:
    search, late = long_log.time_search(NOW_MS), long_log.time_search(NOW_MS + 1)
    append(long_log, 3, timestamp=NOW_MS + 1)
    long_log.roll(now_ms=NOW_MS)

    assert search.run() == (NOW_MS, 0, 0)
    assert late.run() is None  # the newer record was appended after the search was made

    search = long_log.time_search(NOW_MS)
    for segment in long_log.segments[:-1]:
        segment.remove()
    with pytest.raises(SegmentsChanged):
        search.run()


def test_special_timestamps_of_list_offsets_are_answered(long_log: PartitionLog) -> None:
    long_log.increment_log_start_offset(7)

    def answer(timestamp: int) -> tuple[int, int, int] | None:
        return long_log.fetch_offset_for_timestamp(timestamp)

    assert answer(-1) == (-1, 60, 0)
    assert answer(-2) == answer(-4) == (-1, 7, 0)
    assert answer(-3) == (NOW_MS, 0, 0)
    assert answer(-5) == answer(-6) == (-1, -1, -1)
    assert answer(NOW_MS) == (NOW_MS, 7, 0)
    assert answer(NOW_MS + 1) is None


def test_an_empty_log_has_no_epoch(log: PartitionLog) -> None:
    assert log.fetch_offset_for_timestamp(-2) == (-1, 0, -1)
    assert log.fetch_offset_for_timestamp(-3) is None
    assert log.fetch_offset_for_timestamp(0) is None


def test_the_returned_epoch_is_that_of_the_offset(log: PartitionLog) -> None:
    append(log, timestamp=100, epoch=1)
    append(log, timestamp=300, epoch=4)
    append(log, timestamp=200, epoch=6)

    assert log.fetch_offset_for_timestamp(-2) == (-1, 0, 1)
    assert log.fetch_offset_for_timestamp(150) == (300, 1, 4)
    assert log.fetch_offset_for_timestamp(-3) == (300, 1, 4)
    assert log.fetch_offset_for_timestamp(-1) == (-1, 3, 6)
    assert log.end_offset_for_epoch(4) == (4, 2)


# Truncating.


def test_delete_records_hides_records_before_segments_are_deleted(long_log: PartitionLog) -> None:
    assert long_log.increment_log_start_offset(25)
    assert not long_log.increment_log_start_offset(20)
    with pytest.raises(KafkaError) as refused:
        long_log.increment_log_start_offset(61)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    long_log.delete_segments(long_log.segments[:2], now_ms=NOW_MS)

    assert (long_log.log_start_offset, long_log.segments[0].base_offset) == (25, 24)
    assert {path.name for path in long_log.take_deleted_paths()} >= {"00000000000000000012.log.deleted"}
    long_log.check_invariants()


def test_all_segments_can_be_deleted(long_log: PartitionLog) -> None:
    long_log.delete_segments(list(long_log.segments), now_ms=NOW_MS)

    assert (long_log.log_start_offset, long_log.log_end_offset, long_log.size_bytes) == (60, 60, 0)
    long_log.check_invariants()
    assert append(long_log).base_offset == 60


@pytest.mark.parametrize("offset", [0, 1, 3, 11, 12, 13, 24, 59, 60])
def test_truncation_removes_whole_batches_and_their_state(offset: int) -> None:
    size = len(batch_of(3, producer_id=1, producer_epoch=0, base_sequence=0))
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=4 * size, index_interval_bytes=size))
    for number in range(20):
        send(log, 1, 3 * number, count=3, epoch=number // 2)
    log.update_high_watermark(60)

    log.truncate_to(offset, now_ms=NOW_MS)

    end = offset // 3 * 3
    assert log.log_end_offset == end
    assert log.high_watermark == end
    assert log.latest_epoch == ((end - 3) // 6 if end else -1)
    log.check_invariants()
    assert not send(log, 1, end, epoch=99).duplicate


def test_truncation_below_the_first_segment_starts_afresh(long_log: PartitionLog) -> None:
    long_log.truncate_fully_and_start_at(1000, now_ms=NOW_MS)

    assert (long_log.log_start_offset, long_log.log_end_offset) == (1000, 1000)
    assert append(long_log).base_offset == 1000
    long_log.check_invariants()
    long_log.truncate_to(5, now_ms=NOW_MS)
    assert (long_log.log_start_offset, long_log.log_end_offset) == (5, 5)
    long_log.check_invariants()


# Disks that fail.


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("torn_bytes", [0, 1, 60, 61, 75])
def test_a_failed_write_is_truncated_and_fails_the_log(error: int, torn_bytes: int) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    failures: list[OSError] = []
    log.on_failure = lambda _log, failure: failures.append(failure)
    disk.fail_at, disk.error, disk.torn_bytes = disk.steps + 1, error, torn_bytes

    with pytest.raises(KafkaError) as refused:
        append(log)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [failure.errno for failure in failures] == [error]
    assert log.log_end_offset == 1
    assert len(files(disk)["00000000000000000000.log"]) == len(batch_of())
    with pytest.raises(KafkaError) as again:
        append(log)
    assert again.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert open_log(disk).log_end_offset == 1


@pytest.mark.parametrize("stays_broken", [False, True])
def test_if_any_step_fails_no_acknowledged_record_is_lost_or_torn(stays_broken: bool) -> None:
    config = LogConfig(segment_bytes=300, index_interval_bytes=0)

    def work(disk: MemoryDisk) -> int:
        """Append until the disk fails; return the number of acknowledged records."""
        acknowledged = 0
        try:
            log = open_log(disk, config=config)
            for number in range(8):
                send(log, 1, number, is_transactional=True, epoch=number // 3)
                acknowledged = log.log_end_offset
                if number % 3 == 2:
                    end_transaction(log, 1, ControlType.ABORT)
                    acknowledged = log.log_end_offset
            log.close(now_ms=NOW_MS)
        except KafkaError as error:
            assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
        return acknowledged

    whole = MemoryDisk()
    total = work(whole)
    for step in range(1, whole.steps + 1):
        disk = MemoryDisk()
        disk.fail_at, disk.torn_bytes, disk.stays_broken = step, 33, stays_broken

        acknowledged = work(disk)

        disk.repair()
        log = open_log(disk, config=config)
        assert acknowledged <= log.log_end_offset <= total
        assert [record.offset for record in records_of_log(log)] == list(range(log.log_end_offset))


def test_a_read_error_is_a_storage_error(long_log: PartitionLog) -> None:
    disk: Any = long_log._disk
    disk.fail_reads = True

    with pytest.raises(KafkaError) as refused:
        long_log.read(0, 1, isolation=LOG_END, minimum_one_batch=True)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
