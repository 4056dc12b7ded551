"""The part of the cleaner that reads and writes segments; it blocks and runs in a thread.

A `CleaningJob` is made on the loop and refers only to closed segments, which do not change. `index_dirty`
fills the key map. `clean_group` writes the remaining records of adjacent segments into one `.cleaned` segment
and makes it durable; the loop then puts it in their place (`cleaner_manager`). `on_bytes` is called for every
piece that is read or written, and with 0 for every further piece of a batch that is decompressed; it may wait
(throttle) or raise `CleaningAborted`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.logstore.cleaning_plan import group_segments
from ottla.logstore.compaction import (
    CleaningRound,
    CleaningStats,
    LastRecord,
    TransactionTracker,
    clean_batch,
    index_batch,
)
from ottla.logstore.disk import Disk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.offset_map import OffsetMap
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.record_batch import HEADER_SIZE, BatchHeader, check_batch, read_header
from ottla.logstore.retention import SegmentSpan
from ottla.logstore.segment import CLEANED_SUFFIX, Segment
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource

# The size of the pieces to read and write; log.cleaner.io.buffer.size (512 KiB) is that of both together.
DEFAULT_IO_BUFFER_BYTES: Final = 256 * 1024
INDEX_ROW_BYTES: Final = 8
TIME_INDEX_ROW_BYTES: Final = 12


class CleaningAborted(Exception):
    """The log was deleted, moved or truncated while it was cleaned; the cleaned files are discarded."""


@dataclass(slots=True, kw_only=True)
class CleaningJob:
    """A round over one log. `closed` has all closed segments; those below `end_offset` are cleaned."""

    log: PartitionLog
    disk: Disk
    directory: Path
    config: LogConfig
    closed: Sequence[Segment]
    active_base_offset: int
    active_aborted: Sequence[AbortedTransaction]
    first_dirty_offset: int
    end_offset: int
    last_records: Mapping[int, LastRecord]
    now_ms: int
    is_cut_short: bool = False  # its time is over: batches that are not indexed are not opened either
    stats: CleaningStats = field(default_factory=CleaningStats)
    tracker: TransactionTracker = field(default_factory=TransactionTracker)

    def __repr__(self) -> str:
        return f"CleaningJob({self.log.topic_partition}, {self.first_dirty_offset}..{self.end_offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """A segment, sealed and durable under its `.cleaned` name, and the segments that it replaces."""

    new: Segment
    old: Sequence[Segment]


def index_dirty(
    job: CleaningJob,
    *,
    buffer_bytes: int,
    load_factor: float,
    on_bytes: Callable[[int], None],
    is_over: Callable[[], bool] = lambda: False,
) -> OffsetMap:
    """Return the last offset of each key in the dirty part, or in as much of it as fits into the map.

    It ends early, but not before one batch is indexed, if `is_over` returns True. The map's `latest_offset`
    is the last offset that was indexed. KafkaError if a batch cannot be read.
    """
    offset_map = OffsetMap(
        buffer_bytes=buffer_bytes,
        load_factor=load_factor,
        expected_keys=job.end_offset - job.first_dirty_offset,
    )
    with _aborted_if_deleted(job):
        tracker = TransactionTracker()
        # This pass would not meet the marker of a transaction that ended before the dirty part. It would take
        # everything that its producer committed since for aborted, tombstones too, and the records that these
        # deleted would come back (D32).
        tracker.add_aborted(
            row for row in _aborted_transactions(job) if row.last_offset >= job.first_dirty_offset
        )
        for number, segment in enumerate(job.closed):
            next_base = _next_base(job, number)
            if next_base <= job.first_dirty_offset or segment.base_offset >= job.end_offset:
                continue
            position = segment.offset_index.lookup(job.first_dirty_offset).position
            for header, batch in read_batches(segment, position, on_bytes, end_offset=next_base):
                if not index_batch(
                    header,
                    batch,
                    start_offset=job.first_dirty_offset,
                    offset_map=offset_map,
                    tracker=tracker,
                    stats=job.stats,
                    pause=lambda: on_bytes(0),
                ):
                    return offset_map
                if offset_map.latest_offset >= job.first_dirty_offset and is_over():
                    job.is_cut_short = True
                    return offset_map
            # Offsets without a batch are clean, too.
            offset_map.latest_offset = max(offset_map.latest_offset, next_base - 1)
    return offset_map


def groups_to_clean(job: CleaningJob, offset_map: OffsetMap) -> list[Sequence[Segment]]:
    """Return the segments to clean, in the groups that are merged into one segment each."""
    with _aborted_if_deleted(job):
        job.tracker = TransactionTracker()
        job.tracker.add_aborted(_aborted_transactions(job))
        by_base = {segment.base_offset: segment for segment in job.closed}
        end_offset = min(job.end_offset, offset_map.latest_offset + 1)
        spans = [
            SegmentSpan(
                segment.base_offset,
                segment.size_bytes,
                -1,
                segment.offset_index.rows_count * INDEX_ROW_BYTES,
                segment.time_index.rows_count * TIME_INDEX_ROW_BYTES,
            )
            for segment in job.closed
            if segment.base_offset < end_offset
        ]
    groups = group_segments(
        spans,
        max_segment_bytes=job.config.segment_bytes,
        max_index_bytes=job.config.segment_index_bytes,
        end_offset=job.end_offset,
    )
    return [[by_base[span.base_offset] for span in group] for group in groups]


def clean_group(
    job: CleaningJob,
    group: Sequence[Segment],
    offset_map: OffsetMap,
    *,
    on_bytes: Callable[[int], None],
    io_buffer_bytes: int = DEFAULT_IO_BUFFER_BYTES,
) -> CleanedGroup:
    """Write the remaining records of adjacent segments to a new one and make it durable.

    Call this for the groups in order, once for each.
    """
    cleaning = CleaningRound(
        now_ms=job.now_ms,
        delete_retention_ms=job.config.delete_retention_ms,
        offset_map=offset_map,
        end_offset=job.end_offset,
        last_records=job.last_records,
        leaves_rest=job.is_cut_short,
        pause=lambda: on_bytes(0),
    )
    new = Segment.create(
        job.disk, job.directory, group[0].base_offset, job.config, now_ms=job.now_ms, suffix=CLEANED_SUFFIX
    )
    bounds = {segment.base_offset: _next_base(job, number) for number, segment in enumerate(job.closed)}
    try:
        writer = _Writer(new, job.config.index_interval_bytes, io_buffer_bytes, on_bytes)
        with _aborted_if_deleted(job):
            for segment in group:
                for header, batch in read_batches(
                    segment,
                    0,
                    on_bytes,
                    end_offset=bounds[segment.base_offset],
                    read_bytes=io_buffer_bytes,
                ):
                    cleaned = clean_batch(
                        header, batch, cleaning=cleaning, tracker=job.tracker, stats=job.stats
                    )
                    if cleaned is not None:
                        writer.add(cleaned.header, cleaned.content)
        writer.flush()
        for transaction in job.tracker.retained_aborts:
            new.transaction_index.append(transaction)
        job.tracker.retained_aborts.clear()
        new.seal()
        new.sync()
        job.disk.sync_directory(job.directory)
    except BaseException:
        discard(new)
        raise
    return CleanedGroup(new=new, old=group)


@contextmanager
def _aborted_if_deleted(job: CleaningJob) -> Iterator[None]:
    """Turn the error of a missing file into CleaningAborted if its segment was deleted."""
    try:
        yield
    except FileNotFoundError:
        # A segment leaves the log before its files are renamed, so the log shows whether it was deleted.
        current = {id(segment) for segment in job.log.segments}
        if all(id(segment) in current for segment in job.closed):
            raise
        raise CleaningAborted(f"{job.log.topic_partition} lost segments while it was cleaned") from None


def discard(segment: Segment) -> None:
    """Remove a cleaned segment that will not be used; recovery removes one that is left over."""
    try:
        segment.remove()
    except OSError:
        pass


class _Writer:
    """A buffer of batches that appends them to a segment in pieces."""

    def __init__(
        self, segment: Segment, interval_bytes: int, write_bytes: int, on_bytes: Callable[[int], None]
    ) -> None:
        self._segment = segment
        self._interval_bytes = interval_bytes
        self._write_bytes = write_bytes
        self._on_bytes = on_bytes
        self._waiting: list[tuple[BatchHeader, ByteSource]] = []
        self._waiting_bytes = 0

    def add(self, header: BatchHeader, content: ByteSource) -> None:
        # A view would keep the whole piece in memory with which it was read.
        self._waiting.append((header, bytes(content)))
        self._waiting_bytes += header.size_bytes
        if self._waiting_bytes >= self._write_bytes:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        segment = self._segment
        position = segment.size_bytes
        # One call takes at most 1024 buffers (IOV_MAX), so they are joined.
        segment.append([b"".join(content for _, content in self._waiting)], self._waiting_bytes)
        for header, _ in self._waiting:
            segment.index_batch(header.last_offset, header.max_timestamp, position, self._interval_bytes)
            position += header.size_bytes
        self._on_bytes(self._waiting_bytes)
        self._waiting.clear()
        self._waiting_bytes = 0


def read_batches(
    segment: Segment,
    position: int,
    on_bytes: Callable[[int], None],
    *,
    end_offset: int,
    read_bytes: int = DEFAULT_IO_BUFFER_BYTES,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield each batch from `position` on with its checked header, up to the next segment's base offset.

    CORRUPT_MESSAGE if a batch is damaged or its base offset, which the CRC does not cover, is out of order.
    """
    next_offset = segment.base_offset
    file, end = segment.file, segment.size_bytes
    piece, at, need = memoryview(b""), 0, HEADER_SIZE
    while position < end:
        if len(piece) - at < need:
            if need > end - position:
                raise _torn(segment, position)
            piece, at = memoryview(file.read_at(position, min(max(read_bytes, need), end - position))), 0
            on_bytes(len(piece))
            if len(piece) < need:
                raise _torn(segment, position)
        size_bytes = read_header(piece, at).size_bytes
        if size_bytes < HEADER_SIZE:
            raise _torn(segment, position)
        if size_bytes > len(piece) - at:
            need = size_bytes
            continue
        header = check_batch(piece, at)
        if not next_offset <= header.base_offset < header.next_offset <= end_offset:
            raise _torn(segment, position)
        yield header, piece[at : at + size_bytes]
        next_offset = header.next_offset
        position, at, need = position + size_bytes, at + size_bytes, HEADER_SIZE


def _torn(segment: Segment, position: int) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{segment.path} has no whole batch at position {position}.")


def _next_base(job: CleaningJob, number: int) -> int:
    return job.closed[number + 1].base_offset if number + 1 < len(job.closed) else job.active_base_offset


def _aborted_transactions(job: CleaningJob) -> list[AbortedTransaction]:
    # The marker of a transaction may be in a later segment than its data, even in the active one.
    rows = [row for segment in job.closed for row in segment.transaction_index.rows]
    return [*rows, *job.active_aborted]
