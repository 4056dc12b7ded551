"""A segment of a log: a `.log` file of batches and its indexes.

The last segment of a log is active: its file is open, and its indexes and the positions of its newest batches
are in memory, so that readers at the end of the log need no search. `seal` writes the indexes and releases
all of these; a closed segment costs an object and is read through the disk's cache of open files.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.logstore.disk import Disk, DiskFile, FileSlice
from ottla.logstore.log_config import LogConfig
from ottla.logstore.offset_index import ROW as OFFSET_ROW
from ottla.logstore.offset_index import OffsetIndex
from ottla.logstore.oldest_record import first_record
from ottla.logstore.opened_records import NO_PAUSE
from ottla.logstore.record_batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader
from ottla.logstore.time_index import ROW as TIME_ROW
from ottla.logstore.time_index import TimeIndex, TimestampOffset
from ottla.logstore.transaction_index import TransactionIndex
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

MAX_RELATIVE_OFFSET: Final = 2**31 - 1  # the largest that an index row can hold
MAX_POSITION: Final = 2**31 - 1
# The newest batches whose positions are in memory: enough for followers and consumers a few requests behind.
MAX_RECENT_BATCHES: Final = 512
# The file is read in pieces of this size to find headers: two index intervals, one page fault.
SCAN_BYTES: Final = 8192
# A write of this size allocates space ahead of the end: a quarter of the file's size, up to the maximum.
ALLOCATING_WRITE_BYTES: Final = 32 * 1024
MAX_ALLOCATED_AHEAD_BYTES: Final = 4 << 20
# Recovery reads in larger pieces; a batch that is larger than a piece is read alone.
RECOVERY_SCAN_BYTES: Final = 1 << 20
# The piece to read after a batch that is larger than a piece: a transaction's marker and the next header.
LARGE_BATCH_SCAN_BYTES: Final = 256


class TimestampAndOffset(NamedTuple):
    """The result of a look-up by time; -1 stands for an unknown field."""

    timestamp: int
    offset: int
    leader_epoch: int


def file_name(base_offset: int, suffix: str) -> str:
    """Return Kafka's name for a file of a segment: the base offset in 20 digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """The batches from `base_offset` up to the base offset of the next segment, in order."""

    __slots__ = (
        "_allocated_bytes",
        "_disk",
        "_file",
        "_first_timestamp",
        "_largest",
        "_last_indexed_position",
        "_max_bytes",
        "_recent_last_offsets",
        "_recent_positions",
        "_recent_start_offset",
        "base_offset",
        "created_ms",
        "directory",
        "is_warm",
        "offset_index",
        "path",
        "size_bytes",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(self, disk: Disk, directory: Path, base_offset: int, *, suffix: str = "") -> None:
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix  # "", or ".cleaned", ".swap", ".deleted"
        self.size_bytes = 0
        self.created_ms = 0
        self.is_warm = False  # True once its indexes were read in this run of the process
        self._file: DiskFile | None = None
        self._allocated_bytes = 0  # the end of the space allocated ahead, or 0
        self._max_bytes = MAX_POSITION  # segment.bytes, if it is known
        self._largest: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._last_indexed_position = 0
        self._forget_recent(base_offset)
        self.path = self._path(LOG_SUFFIX)  # of the `.log` file
        self.offset_index = OffsetIndex(disk, self._path(INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(disk, self._path(TIME_INDEX_SUFFIX), base_offset)
        self.transaction_index = TransactionIndex(disk, self._path(TRANSACTION_INDEX_SUFFIX))

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        suffix: str = "",
    ) -> "Segment":
        """Create an empty active segment with an empty `.log` file."""
        segment = cls(disk, directory, base_offset, suffix=suffix)
        segment._file = disk.open(segment.path, create=True)
        segment._max_bytes = config.segment_bytes
        if segment._file.reaches_beyond(0):
            # Only if needed: ext4 flushes a file that was truncated to zero when it is closed, which blocks.
            segment._file.truncate(0)
        if config.preallocate and not suffix:
            segment._file.preallocate(config.segment_bytes)
            segment._allocated_bytes = config.segment_bytes
        segment.created_ms = now_ms
        segment.is_warm = True
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.transaction_index.create()
        segment._largest = TimestampOffset(NO_TIMESTAMP, base_offset)
        return segment

    @classmethod
    def open(cls, disk: Disk, directory: Path, base_offset: int, *, suffix: str = "") -> "Segment":
        """Open a closed segment that is on the disk."""
        segment = cls(disk, directory, base_offset, suffix=suffix)
        segment.size_bytes = disk.file_size(segment.path)
        return segment

    def _path(self, suffix: str) -> Path:
        return self.directory / (file_name(self.base_offset, suffix) + self.suffix)

    @property
    def is_active(self) -> bool:
        """True if the segment can be appended to and truncated."""
        return self._file is not None

    @property
    def file(self) -> DiskFile:
        """The `.log` file, open."""
        return self._file if self._file is not None else self._disk.open_to_read(self.path)

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size_bytes={self.size_bytes}{self.suffix})"

    # Writing.

    def activate(self, next_offset: int) -> None:
        """Make a segment that is on the disk the active one; `next_offset` is the log end offset."""
        self._file = self._disk.open(self.path, create=True)
        self.is_warm = True
        self.offset_index.load()
        self.time_index.load()
        largest = self.largest
        self._align_indexes()
        self._largest = largest
        self._forget_recent(next_offset)

    def append(self, buffers: list[ByteSource], size_bytes: int) -> None:
        """Write whole batches at the end; `index_batch` must follow for each. OSError if the disk fails.

        After an error the file is truncated to its old size, so no append or reader meets a partial batch.
        """
        assert self._file is not None, "only the active segment grows"
        if size_bytes >= ALLOCATING_WRITE_BYTES and self.size_bytes + size_bytes > self._allocated_bytes:
            self._allocate_ahead(self._file, size_bytes)
        try:
            self._file.write_at(self.size_bytes, buffers)
        except OSError:
            self._cut(self._file, self.size_bytes)
            raise
        self.size_bytes += size_bytes

    def _cut(self, file: DiskFile, size: int) -> None:
        file.truncate(size)
        self._allocated_bytes = 0

    def _allocate_ahead(self, file: DiskFile, size_bytes: int) -> None:
        end = self.size_bytes + size_bytes
        # Not beyond the maximum size of the segment, as freeing space takes longer than allocating it.
        ahead_end = min(end + min(end // 4, MAX_ALLOCATED_AHEAD_BYTES), self._max_bytes)
        self._allocated_bytes = max(end, ahead_end)
        file.allocate(self.size_bytes, self._allocated_bytes - self.size_bytes)

    def index_batch(
        self, last_offset: int, max_timestamp: int, position: int, index_interval_bytes: int
    ) -> bool:
        """Add a batch of the log file to the indexes; return True if they grew by a row.

        Both appends and recovery add rows in this way only.
        """
        largest = self._largest
        if largest is None or max_timestamp > largest[0]:
            self._largest = largest = TimestampOffset(max_timestamp, last_offset)
        is_row_due = position - self._last_indexed_position > index_interval_bytes
        if is_row_due:
            self.offset_index.append(last_offset, position)
            self.time_index.append_if_later(largest.timestamp, largest.offset)
            self._last_indexed_position = position
        recent = self._recent_last_offsets
        if len(recent) >= MAX_RECENT_BATCHES:
            half = MAX_RECENT_BATCHES // 2
            self._recent_start_offset = recent[half - 1] + 1
            del recent[:half], self._recent_positions[:half]
        recent.append(last_offset)
        self._recent_positions.append(position)
        return is_row_due

    def seal(self) -> None:
        """Close the segment, as it is complete: write its indexes and release its file and memory."""
        assert self._file is not None, "only the active segment is sealed"
        if self.size_bytes:
            self.write_indexes(final=True)
        else:  # An empty segment needs no index files; those that exist are from before a truncation.
            self._disk.remove(self.offset_index.path)
            self._disk.remove(self.time_index.path)
        if self._file.reaches_beyond(self.size_bytes):
            self._file.truncate(self.size_bytes)
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()
        self._file = None
        self._allocated_bytes = 0
        self._forget_recent(self.base_offset)

    def write_indexes(self, *, final: bool = False, sync: bool = False) -> None:
        """Write the indexes of the active segment; `final` adds the row with the largest timestamp."""
        if final:
            largest = self.largest
            self.time_index.append_if_later(largest.timestamp, largest.offset)
        self.offset_index.write(sync=sync)
        self.time_index.write(sync=sync)

    def close(self) -> None:
        """Write the indexes of the active segment and close it, when the log is closed."""
        if self._file is not None:
            self.seal()

    # Recovery.

    def problem(self) -> str | None:
        """Return the problem that a cheap check of a closed segment's indexes finds, or None."""
        if not self.size_bytes:
            has_rows = self.offset_index.rows_count or self.time_index.rows_count
            return "it is empty, but its indexes are not" if has_rows else None
        for index in (self.offset_index, self.time_index):
            if not self._disk.exists(index.path):
                return f"{index.path.name} is missing"
        return (
            self.offset_index.problem(self.size_bytes)
            or self.time_index.problem()
            or self.transaction_index.problem(self.base_offset)
        )

    def problem_of_rows(self) -> str | None:
        """Return the first problem in the rows of both indexes; None if there is none.

        This is for the segment that becomes active, which reads all rows. `problem` must have been called.
        """
        if not self.size_bytes:
            return None
        found = self.offset_index.problem_of_rows() or self.time_index.problem_of_rows()
        if found is not None or not self.offset_index.rows_count:
            return found
        last = self.offset_index.last()
        header = self.header_at(last.position)
        if header is None or header.last_offset != last.offset:
            return f"its last row {last.offset}:{last.position} does not match a batch"
        return None

    def reset_for_recovery(self) -> None:
        """Open the segment as the active one, with empty indexes, which `index_batch` fills."""
        self._file = self._disk.open(self.path)
        self.size_bytes = self._file.size()
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._first_timestamp = None
        self._last_indexed_position = 0
        self._forget_recent(self.base_offset)

    def indexed_again(self, index_interval_bytes: int) -> "Segment":
        """Return a copy of a closed segment with offset and time index rebuilt, in memory, from its batches.

        Blocks; this segment and its files stay as they are.
        """
        again = Segment(self._disk, self.directory, self.base_offset, suffix=self.suffix)
        again.size_bytes = self.size_bytes
        again.offset_index.reset()
        again.time_index.reset()
        again._largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        for position, header in self.headers(scan_bytes=RECOVERY_SCAN_BYTES):
            again.index_batch(header.last_offset, header.max_timestamp, position, index_interval_bytes)
        again.time_index.append_if_later(again.largest.timestamp, again.largest.offset)
        return again

    def indexes_replaced(self) -> None:
        """Drop everything read from the old index files of a closed segment, which were replaced."""
        assert self._file is None, "the indexes of the active segment are in memory"
        self._largest = self._first_timestamp = None
        self.offset_index = OffsetIndex(self._disk, self._path(INDEX_SUFFIX), self.base_offset)
        self.time_index = TimeIndex(self._disk, self._path(TIME_INDEX_SUFFIX), self.base_offset)
        self.transaction_index = TransactionIndex(self._disk, self._path(TRANSACTION_INDEX_SUFFIX))

    def cut_tail(self, position: int) -> int:
        """Truncate the file at `position`, where the last indexed batch ends; return the bytes removed."""
        assert self._file is not None, "only the active segment is cut"
        removed, self.size_bytes = self.size_bytes - position, position
        if removed:
            self._cut(self._file, position)
        return removed

    def truncate_to(self, offset: int) -> int:
        """Truncate the active segment before the batch that contains `offset`; return the bytes removed."""
        assert self._file is not None, "only the active segment is cut"
        position = self.position_of(offset)
        if position is None:
            return 0
        return self.truncate_at(position, offset)

    def truncate_at(self, position: int, offset: int) -> int:
        """Truncate the file at `position`, where the first batch at or above `offset` starts.

        Return the number of bytes removed.
        """
        assert self._file is not None, "only the active segment is cut"
        self._cut(self._file, position)
        removed, self.size_bytes = self.size_bytes - position, position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._align_indexes()
        self._forget_recent(offset)
        self._largest = self._find_largest()
        if not position:
            self._first_timestamp = None
        return removed

    def _align_indexes(self) -> None:
        # An append adds rows to both indexes together, so both must end with the same batch.
        last = self.offset_index.last()
        self.time_index.drop_beyond(last.offset if last.position else self.base_offset - 1)
        self._last_indexed_position = last.position

    def _find_largest(self) -> TimestampOffset:
        # The index does not cover the batches after its last row.
        largest = self.time_index.last()
        for _, header in self.headers(self._last_indexed_position):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def _forget_recent(self, next_offset: int) -> None:
        # The two arrays have all batches that end at or above `next_offset`.
        self._recent_start_offset = next_offset
        self._recent_last_offsets: array[int] = array("q")
        self._recent_positions: array[int] = array("q")

    # Rolling.

    def is_full(self, config: LogConfig, rows: int = 1) -> bool:
        """Return True if an index has no room for `rows` more rows (segment.index.bytes)."""
        return (
            self.offset_index.rows_count + rows > config.segment_index_bytes // OFFSET_ROW.size
            or self.time_index.rows_count + rows > config.segment_index_bytes // TIME_ROW.size - 1
        )

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """Return the age of the segment: `timestamp` minus that of its first batch.

        Without timestamps it is the time since the creation of the segment, by the clock.
        """
        first = self.first_timestamp
        if first >= 0:
            return timestamp - first
        return now_ms - self.created_ms

    @property
    def first_timestamp(self) -> int:
        """The max timestamp of the first batch, or -1."""
        if self._first_timestamp is None:
            header = self.header_at(0)
            if header is None:
                return NO_TIMESTAMP
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp, or -1, and the last offset of the first batch that has it."""
        if self._largest is None:
            self._largest = self.time_index.last()
        return self._largest

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, for retention; the time of the last write if no record has one."""
        timestamp = self.largest.timestamp
        return timestamp if timestamp >= 0 else self.file.modified_ms()

    # Reading.

    def header_at(self, position: int) -> BatchHeader | None:
        """Return the header at `position`; None if the segment ends before the end of the header."""
        content = self.file.read_at(position, HEADER_SIZE) if position < self.size_bytes else b""
        return BatchHeader._make(HEADER.unpack(content)) if len(content) == HEADER_SIZE else None

    def headers(
        self, position: int = 0, *, scan_bytes: int = SCAN_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of each batch from `position` on, up to one that is cut off.

        The file is read in pieces of `scan_bytes`. CORRUPT_MESSAGE if a length is too small for a header.
        """
        return headers_in(self.file, self.path, position, self.size_bytes, scan_bytes)

    def read_batch(self, position: int, size_bytes: int) -> bytes:
        """Return the bytes of one batch."""
        return self.file.read_at(position, size_bytes)

    def position_of(self, offset: int) -> int | None:
        """Return the position of the first batch that ends at or above `offset`; None if there is none.

        CORRUPT_MESSAGE if a wrong length on the way makes it impossible to find.
        """
        found = self.find_batch(offset)
        return None if found is None else found[0]

    def find_batch(self, offset: int) -> tuple[int, int] | None:
        """Return position and size of the first batch that ends at or above `offset`, as `position_of`."""
        if offset >= self._recent_start_offset and self._file is not None:
            positions = self._recent_positions
            number = bisect_left(self._recent_last_offsets, offset)
            if number >= len(positions):
                return None
            end = positions[number + 1] if number + 1 < len(positions) else self.size_bytes
            return positions[number], end - positions[number]
        end = self.offset_index.lookup(offset).position
        following = self.offset_index.position_after(offset)
        if following is not None and following - end > SCAN_BYTES:
            # Large batches have a row each, with their last offset: the next row may be the wanted one.
            large = self.header_at(following)
            if large is not None and large.base_offset <= offset <= large.last_offset:
                return following, large.size_bytes
        for position, header in self.headers(end):
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header.size_bytes
            end = position + header.size_bytes
        if end != self.size_bytes:  # Otherwise a reader would skip the rest and go on in the next segment.
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path} has no whole batch at position {end}.")
        return None

    def end_of_whole_batches(self, start: int, end: int) -> int:
        """Return the end of a batch at or before `end`: the last one, if batches are large.

        The result is `end` itself if no such position is in memory, or if it would leave less than half.
        """
        known = self.offset_index.known_position_before(end)
        return end if known is None or known - start < (end - start) // 2 else known

    def slice(self, position: int, size: int) -> FileSlice:
        """Return a range of the `.log` file."""
        return FileSlice(file=self.file, position=position, size=size)

    def find_end(self) -> tuple[int, int]:
        """Return the offset after the last whole batch, and the position where that batch ends.

        The search begins at the last index row. CORRUPT_MESSAGE if a length is too small for a header.
        """
        next_offset, end = self.base_offset, 0
        for position, header in self.headers(self.offset_index.last().position):
            next_offset, end = header.next_offset, position + header.size_bytes
        return next_offset, end

    def find_by_timestamp(
        self, timestamp: int, start_offset: int, pause: Callable[[], None] = NO_PAUSE
    ) -> TimestampAndOffset | None:
        """Return the first record at or above `start_offset` whose timestamp is at least `timestamp`."""
        return self.range_from_timestamp(timestamp, start_offset).find(timestamp, start_offset, pause)

    def find_largest_timestamp(self, pause: Callable[[], None] = NO_PAUSE) -> TimestampAndOffset | None:
        """Return the first record that has the segment's largest timestamp; None without timestamps."""
        return self.range_from_largest_timestamp().find_exactly(self.largest.timestamp, pause)

    def range_from_timestamp(self, timestamp: int, start_offset: int) -> "BatchRange":
        """Return the batches that `find_by_timestamp` searches."""
        lower = max(self.time_index.lookup(timestamp).offset, start_offset)
        return self._range_from(lower)

    def range_from_largest_timestamp(self) -> "BatchRange":
        """Return the batches that `find_largest_timestamp` searches."""
        return self._range_from(self.largest.offset)

    def _range_from(self, offset: int) -> "BatchRange":
        return BatchRange(self.file, self.path, self.offset_index.lookup(offset).position, self.size_bytes)

    # Files.

    def paths(self) -> list[Path]:
        """Return the paths of its possible files; some may not exist."""
        indexes = (self.offset_index, self.time_index, self.transaction_index)
        return [self.path, *(index.path for index in indexes)]

    def existing_paths(self) -> list[Path]:
        """Return the paths of the files that exist."""
        names = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        return [path for path in map(self._path, names) if self._disk.exists(path)]

    def change_suffix(self, suffix: str) -> None:
        """Rename all files from their suffix to `suffix`; the `.log` last, as a sign that all are renamed."""
        old = self.existing_paths()
        for path in reversed(old):
            self._disk.rename(path, path.with_name(path.name.removesuffix(self.suffix) + suffix))
        self.suffix = suffix
        self._name_files()

    def move_to(self, directory: Path) -> None:
        """Use the new directory, after that of the log was renamed."""
        self.directory = directory
        self._name_files()

    def _name_files(self) -> None:
        self.path = self._path(LOG_SUFFIX)
        self.offset_index.path = self._path(INDEX_SUFFIX)
        self.time_index.path = self._path(TIME_INDEX_SUFFIX)
        self.transaction_index.path = self._path(TRANSACTION_INDEX_SUFFIX)

    def sync(self) -> None:
        """Make data and indexes durable. Blocks; for a closed segment it may run in any thread."""
        for path in self.existing_paths():
            self._disk.open(path).sync()

    def remove(self) -> None:
        """Remove all files."""
        for path in self.existing_paths():
            self._disk.remove(path)

    def check_invariants(self) -> None:
        """Assert that batches, indexes and the positions in memory agree."""
        position, previous = 0, self.base_offset - 1
        batches: dict[int, int] = {}
        for position, header in self.headers():
            assert header.base_offset > previous, (self, header, previous)
            previous = header.last_offset
            assert previous - self.base_offset <= MAX_RELATIVE_OFFSET
            batches[position] = previous
        end = position + header.size_bytes if batches else 0
        assert end == self.size_bytes, (self, end)
        for number in range(self.offset_index.rows_count):
            row = self.offset_index.row(number)
            assert batches.get(row.position) == row.offset, (self, row)
        for position, last_offset in zip(self._recent_positions, self._recent_last_offsets, strict=True):
            assert batches.get(position) == last_offset, (self, position, last_offset)
        self.offset_index.check_invariants()
        self.time_index.check_invariants()
        self.transaction_index.check_invariants()


def headers_in(
    file: DiskFile, path: Path, position: int, end: int, scan_bytes: int = SCAN_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch from `position` to `end`, as `Segment.headers` does."""
    piece, piece_start, size = b"", position, scan_bytes
    while end - position >= HEADER_SIZE:
        at = position - piece_start
        if at < 0 or len(piece) - at < HEADER_SIZE:
            piece, piece_start, at = file.read_at(position, min(size, end - position)), position, 0
            if len(piece) < HEADER_SIZE:
                return
        header = BatchHeader._make(HEADER.unpack_from(piece, at))
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{path} has no batch at position {position}.")
        if header.size_bytes > end - position:
            return
        yield position, header
        position += header.size_bytes
        # After a batch that is larger than a piece the next one is probably large too.
        size = scan_bytes if header.size_bytes < scan_bytes else LARGE_BATCH_SCAN_BYTES


class BatchRange(NamedTuple):
    """A range of a segment's batches at one moment, to be searched in any thread; it keeps the file open."""

    file: DiskFile
    path: Path
    position: int
    end: int

    def find(
        self, timestamp: int, start_offset: int, pause: Callable[[], None] = NO_PAUSE
    ) -> TimestampAndOffset | None:
        """Return the first record at or above `start_offset` whose timestamp is at least `timestamp`. Blocks.

        `pause` is called before each piece of a batch is opened, and may raise.
        """
        for position, header in headers_in(self.file, self.path, self.position, self.end):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            pause()
            batch = self.file.read_at(position, header.size_bytes)
            found = first_record(batch, header, start_offset, timestamp, pause=pause)
            if found is not None and found.timestamp_ms is not None:
                return TimestampAndOffset(found.timestamp_ms, found.offset, header.partition_leader_epoch)
        return None

    def find_exactly(self, timestamp: int, pause: Callable[[], None] = NO_PAUSE) -> TimestampAndOffset | None:
        """Return the first record with this timestamp, the largest of the segment; None if it is -1. Blocks.

        `pause` is as in `find`.
        """
        if timestamp < 0:
            return None
        for position, header in headers_in(self.file, self.path, self.position, self.end):
            if header.max_timestamp != timestamp:
                continue
            pause()
            batch = self.file.read_at(position, header.size_bytes)
            found = first_record(batch, header, header.base_offset, timestamp, is_exact=True, pause=pause)
            if found is not None:
                return TimestampAndOffset(timestamp, found.offset, header.partition_leader_epoch)
        return None


def crc_of_range(file: DiskFile, position: int, end: int) -> int:
    """Return the CRC-32C of a range of a file, which is read in pieces."""
    crc = 0
    while position < end:
        piece = file.read_at(position, min(RECOVERY_SCAN_BYTES, end - position))
        if not piece:
            break
        crc = crc32c(piece, crc)
        position += len(piece)
    return crc
