"""Finding things in a log: where a read begins and ends, which transactions it must skip, where a time is.

All of it looks at segments and changes nothing.
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

# Of less, what lies between two rows of the index (`index.interval.bytes`, 4 KiB) would be a large part.
MIN_CUT_BYTES: Final = 32 * 1024


class FetchIsolation(Enum):
    """How far a reader may see."""

    LOG_END = "log_end"  # followers
    HIGH_WATERMARK = "high_watermark"  # consumers, read_uncommitted
    TXN_COMMITTED = "txn_committed"  # consumers, read_committed


class FetchDataInfo(NamedTuple):
    """What a reader gets: the bytes (`slice`), and the offsets at the time of the read.

    `aborted_transactions` is None unless the isolation is TXN_COMMITTED. `is_first_batch_too_large`: there is
    data, but its first batch exceeds `max_bytes`, so the slice is empty. `readable_bytes`: what there is, up
    to `max_bytes`; the slice may end at a batch before that.
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
    """The answer to a read: bytes of one segment (its number in the log)."""

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
    """The bytes from the batch that contains `offset` up to the batch that contains `upper_offset`.

    They stay within one segment. `max_bytes` cuts the last batch, of which clients drop what they get, as
    Apache Kafka's do: not where much is read and a batch is known to end before, but to end at one always
    would cost a search.
    """
    last = len(segments) - 1
    for number in range(max(0, bisect_right(base_offsets, offset) - 1), last + 1):
        segment = segments[number]
        batch = segment.find_batch(offset)
        if batch is None:  # Compaction left no batch from here to the next segment.
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
    """The first look into a closed segment since it was found on the disk: its indexes come from there.

    `run` brings what a read will need into the page cache; it may run in any thread, and shares nothing with
    the log. What it cannot read, the read itself will name.
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
    """The aborted transactions with data in a range that was read from `offset` on, by their first offset."""
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
    """The end of a range in offsets, at the grain of the index: a few transactions too many do no harm."""
    number, piece = found.segment_number, found.slice
    bound = segments[number].offset_index.first_offset_from(piece.position + piece.size)
    if bound is None:
        bound = upper_offset if number == len(segments) - 1 else segments[number + 1].base_offset
    return min(bound, upper_offset)


class TimeSearch(NamedTuple):
    """A look-up by time, ready to run in any thread: the closed segments, and the active one as it is now.

    `timestamp` is MAX_TIMESTAMP for the first record with the largest timestamp of the log.
    """

    closed: tuple[Segment, ...]
    tail: BatchRange
    tail_largest_timestamp: int
    timestamp: int
    log_start_offset: int

    def run(self, pause: Callable[[], None] = NO_PAUSE) -> TimestampAndOffset | None:
        """The record, None if there is none; it opens batches and may wait for the disk.

        `pause` is called every millisecond or so of its work, and may raise. SegmentsChanged where the log
        has lost one of its segments meanwhile.
        """
        try:
            return self._largest(pause) if self.timestamp == MAX_TIMESTAMP else self._first(pause)
        except (FileNotFoundError, IndexError) as fault:
            # Its files were renamed, or its index was cut, between two steps of ours.
            raise SegmentsChanged from fault

    def _first(self, pause: Callable[[], None]) -> TimestampAndOffset | None:
        """The first record from the log start on that is not older than `timestamp`."""
        for segment in self.closed:
            if segment.largest_timestamp >= self.timestamp:
                found = segment.find_by_timestamp(self.timestamp, self.log_start_offset, pause)
                if found is not None:
                    return found
        if self.tail_largest_timestamp < self.timestamp:
            return None
        return self.tail.find(self.timestamp, self.log_start_offset, pause)

    def _largest(self, pause: Callable[[], None]) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of the log."""
        best = max(self.closed, key=lambda segment: segment.largest.timestamp, default=None)
        if best is not None and best.largest.timestamp >= self.tail_largest_timestamp:
            return best.find_largest_timestamp(pause)
        return self.tail.find_exactly(self.tail_largest_timestamp, pause)


class SegmentsChanged(Exception):
    """A search in a thread met a segment that is not part of its log any more: search again."""


def time_search(segments: Sequence[Segment], timestamp: int, log_start_offset: int) -> TimeSearch:
    """A look-up by time over these segments, the last of which is active. Cheap: from memory alone."""
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
    """An offset that was not asked for by time."""
    return TimestampAndOffset(NO_TIMESTAMP, offset, leader_epoch)
