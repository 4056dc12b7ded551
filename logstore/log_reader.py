"""Searches in a log: the range of a read, the aborted transactions in it, and the offset of a timestamp.

These functions read segments and change nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import EMPTY_SLICE, Disk, FileSlice
from ottla.logstore.opened_records import NO_PAUSE
from ottla.logstore.record_batch import NO_TIMESTAMP
from ottla.logstore.segment import BatchRange, Segment, TimestampAndOffset
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import KafkaError

# ListOffsets' special timestamps.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6

# In a shorter range the distance of two index rows (`index.interval.bytes`, 4 KiB) would be a large part.
MIN_CUT_BYTES: Final = 32 * 1024


class FetchIsolation(Enum):
    """The upper bound of the records that a reader may see."""

    LOG_END = "log_end"  # followers
    HIGH_WATERMARK = "high_watermark"  # consumers, read_uncommitted
    TXN_COMMITTED = "txn_committed"  # consumers, read_committed


class FetchDataInfo(NamedTuple):
    """The result of a read: the bytes (`slice`), and the offsets at the time of the read.

    `aborted_transactions` is None unless the isolation is TXN_COMMITTED. `is_first_batch_too_large`: there is
    data, but its first batch exceeds `max_bytes`, so the slice is empty. `readable_bytes`: the bytes
    available, up to `max_bytes`; the slice may end before, at the end of a batch.
    """

    slice: FileSlice
    fetch_offset: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    aborted_transactions: list[AbortedTransaction] | None = None
    is_first_batch_too_large: bool = False
    readable_bytes: int = 0


class Range(NamedTuple):
    """A range of bytes in one segment, and the number of the segment in the log."""

    slice: FileSlice
    segment_number: int
    is_first_batch_too_large: bool = False
    readable_bytes: int = 0


def find_range(
    segments: Sequence[Segment],
    base_offsets: Sequence[int],
    log_end_offset: int,
    *,
    offset: int,
    upper_offset: int,
    max_bytes: int,
    minimum_one_batch: bool,
) -> Range:
    """Return the range from the batch that contains `offset` up to the batch that contains `upper_offset`.

    The range stays within one segment. As in Apache Kafka, `max_bytes` may cut off the last batch, which
    clients then drop. A large range ends at the end of a batch if an index row in memory has one; to do so
    always would cost a search.
    """
    last = len(segments) - 1
    for number in range(max(0, bisect_right(base_offsets, offset) - 1), last + 1):
        segment = segments[number]
        batch = segment.find_batch(offset)
        if batch is None:  # Compaction left no batch between here and the next segment.
            continue
        start, first_size = batch
        end = segment.size_bytes
        if upper_offset < (log_end_offset if number == last else base_offsets[number + 1]):
            upper_position = segment.position_of(upper_offset)
            end = end if upper_position is None else upper_position
        size = min(end - start, max_bytes)
        if size < min(first_size, end - start):
            if not minimum_one_batch:
                return Range(EMPTY_SLICE, number, True)
            size = first_size
        if size <= 0:
            return Range(EMPTY_SLICE, number)
        whole = size
        if MIN_CUT_BYTES <= size < end - start:
            whole = segment.end_of_whole_batches(start, start + size) - start
        return Range(segment.slice(start, whole), number, readable_bytes=size)
    return Range(EMPTY_SLICE, last)


class ColdRead(NamedTuple):
    """The first read of a closed segment since the log was opened, which needs its indexes from the disk.

    `run` brings the files that the read will need into the page cache. It may run in any thread and shares
    nothing with the log. It ignores errors, because the read itself will report them.
    """

    disk: Disk
    directory: Path
    base_offset: int
    offset: int
    transaction_indexes: tuple[Path, ...]

    def run(self) -> None:
        with suppress(OSError, KafkaError):
            Segment.open(self.disk, self.directory, self.base_offset).position_of(self.offset)
        for path in self.transaction_indexes:
            with suppress(OSError):
                self.disk.read_file(path)


def collect_aborted(
    segments: Sequence[Segment], found: Range, *, offset: int, upper_offset: int
) -> list[AbortedTransaction]:
    """Return the aborted transactions with data in a range that begins at `offset`, by first offset."""
    number = found.segment_number
    aborted: list[AbortedTransaction] = []
    bound = -1
    for segment in segments[number:]:
        if segment.transaction_index.rows_count:
            if bound < 0:
                bound = _end_offset_of(segments, found, upper_offset)
            rows, is_complete = segment.transaction_index.collect(offset, bound)
            aborted += rows
            if is_complete:
                break
    return sorted(aborted, key=lambda row: row.first_offset)


def _end_offset_of(segments: Sequence[Segment], found: Range, upper_offset: int) -> int:
    """Return an offset at or after the end of a range, by the index: extra transactions do no harm."""
    number, piece = found.segment_number, found.slice
    bound = segments[number].offset_index.first_offset_from(piece.position + piece.size)
    if bound is None:
        bound = upper_offset if number == len(segments) - 1 else segments[number + 1].base_offset
    return min(bound, upper_offset)


class TimeSearch(NamedTuple):
    """A look-up by time that may run in any thread: the closed segments, and the active one as it is now.

    With MAX_TIMESTAMP as `timestamp` it finds the first record with the largest timestamp of the log.
    """

    closed: tuple[Segment, ...]
    tail: BatchRange
    tail_largest_timestamp: int
    timestamp: int
    log_start_offset: int

    def run(self, pause: Callable[[], None] = NO_PAUSE) -> TimestampAndOffset | None:
        """Return the record, or None; open batches, and wait for the disk if needed.

        `pause` is called after every millisecond or so of work, and may raise. SegmentsChanged if the log has
        dropped one of the segments meanwhile.
        """
        try:
            return self._largest(pause) if self.timestamp == MAX_TIMESTAMP else self._first(pause)
        except (FileNotFoundError, IndexError) as fault:
            # Between two steps a segment's files were renamed, or its index was truncated.
            raise SegmentsChanged from fault

    def _first(self, pause: Callable[[], None]) -> TimestampAndOffset | None:
        """Return the first record from the log start on whose timestamp is at least `timestamp`."""
        for segment in self.closed:
            if segment.largest_timestamp >= self.timestamp:
                found = segment.find_by_timestamp(self.timestamp, self.log_start_offset, pause)
                if found is not None:
                    return found
        if self.tail_largest_timestamp < self.timestamp:
            return None
        return self.tail.find(self.timestamp, self.log_start_offset, pause)

    def _largest(self, pause: Callable[[], None]) -> TimestampAndOffset | None:
        """Return the first record with the largest timestamp of the log."""
        best = max(self.closed, key=lambda segment: segment.largest.timestamp, default=None)
        if best is not None and best.largest.timestamp >= self.tail_largest_timestamp:
            return best.find_largest_timestamp(pause)
        return self.tail.find_exactly(self.tail_largest_timestamp, pause)


class SegmentsChanged(Exception):
    """A search in a thread met a segment that is no longer part of the log; the caller must search again."""


def time_search(segments: Sequence[Segment], timestamp: int, log_start_offset: int) -> TimeSearch:
    """Return a look-up by time over these segments, the last of which is active. Needs only memory."""
    *closed, active = segments
    first = next(
        (
            number
            for number in range(len(closed))
            if timestamp == MAX_TIMESTAMP or segments[number + 1].base_offset > log_start_offset
        ),
        len(closed),
    )
    if timestamp == MAX_TIMESTAMP:
        tail, largest = active.range_from_largest_timestamp(), active.largest.timestamp
    else:
        # Without timestamps the time of the last write counts.
        tail, largest = active.range_from_timestamp(timestamp, log_start_offset), active.largest_timestamp
    return TimeSearch(tuple(closed[first:]), tail, largest, timestamp, log_start_offset)


def without_time(offset: int, leader_epoch: int) -> TimestampAndOffset:
    """Return the result for a special timestamp: an offset without a timestamp."""
    return TimestampAndOffset(NO_TIMESTAMP, offset, leader_epoch)
