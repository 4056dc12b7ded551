"""The part of cleaning that reads and writes segments; it blocks, and runs in a thread.

A `CleaningJob` is made on the loop and names only closed segments, which do not change. `index_dirty` fills
the key map, `clean_group` writes what is left of some neighbours into one `.cleaned` segment, durable before
anybody hears of it; putting it in their place is the loop's business again (`cleaner_manager`). Every piece
that is read or written is announced to `on_bytes`, which may wait (throttle) or raise `CleaningAborted`; so
is each piece of a batch that opens into many, with 0 bytes.
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

# Read and write in pieces of this size, as log.cleaner.io.buffer.size (512 KiB for both) has it.
DEFAULT_IO_BUFFER_BYTES: Final = 256 * 1024
INDEX_ROW_BYTES: Final = 8
TIME_INDEX_ROW_BYTES: Final = 12


class CleaningAborted(Exception):
    """The log was deleted, moved or cut while it was cleaned; what was written is thrown away."""


@dataclass(slots=True, kw_only=True)
class CleaningJob:
    """One round over one log. Of `closed`, all its closed segments, those below `end_offset` are cleaned."""

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
    is_cut_short: bool = False  # by its time: what is not indexed is not opened either
    stats: CleaningStats = field(default_factory=CleaningStats)
    tracker: TransactionTracker = field(default_factory=TransactionTracker)

    def __repr__(self) -> str:
        return f"CleaningJob({self.log.topic_partition}, {self.first_dirty_offset}..{self.end_offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """A segment, sealed and durable under its `.cleaned` name, and those that it stands for."""

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
    """The last offset of each key in the dirty part, or in as much of it as the map has room for.

    It ends early, after one batch at least, where `is_over`. `latest_offset` of the map says how far it got.
    KafkaError when a batch cannot be read.
    """
    offset_map = OffsetMap(
        buffer_bytes=buffer_bytes,
        load_factor=load_factor,
        expected_keys=job.end_offset - job.first_dirty_offset,
    )
    with _while_segments_stay(job):
        tracker = TransactionTracker()
        # Of one that ended before, this pass would never meet the marker, and would take all that its
        # producer committed since for aborted: tombstones, too, and what they deleted would come back.
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
            # Offsets that no batch has any more are clean too.
            offset_map.latest_offset = max(offset_map.latest_offset, next_base - 1)
    return offset_map


def groups_to_clean(job: CleaningJob, offset_map: OffsetMap) -> list[Sequence[Segment]]:
    """The segments to clean, in the groups that become one segment each."""
    with _while_segments_stay(job):
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
    """Write what is left of some neighbours, force it to disk and return it. Groups in order, each once."""
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
        with _while_segments_stay(job):
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
def _while_segments_stay(job: CleaningJob) -> Iterator[None]:
    """CleaningAborted, not the disk's error, for a file that is missing because its segment was deleted."""
    try:
        yield
    except FileNotFoundError:
        # Segments leave the log before their files are renamed, so whoever misses one sees that it left.
        current = {id(segment) for segment in job.log.segments}
        if all(id(segment) in current for segment in job.closed):
            raise
        raise CleaningAborted(f"{job.log.topic_partition} lost segments while it was cleaned") from None


def discard(segment: Segment) -> None:
    """Remove a cleaned segment that will not be used; one that is left over goes at the next start."""
    try:
        segment.remove()
    except OSError:
        pass


class _Writer:
    """Gathers batches and appends them in pieces."""

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
        # A view would keep the whole piece alive that it was read with.
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
    """Each batch from `position` with its checked header, up to `end_offset`, the next segment's base.

    CORRUPT_MESSAGE when one is not whole, or not in its place: the CRC does not cover the base offset.
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
    # The marker of a transaction may stand in a later segment than its data, even in the active one.
    rows = [row for segment in job.closed for row in segment.transaction_index.rows]
    return [*rows, *job.active_aborted]
