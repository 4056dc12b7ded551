"""The aborted transactions that ended in a segment (`.txnindex`), for read_committed consumers.

A row is 34 bytes, big-endian: i16 version (0), i64 producer id, i64 first offset, i64 last offset (the
marker's) and i64 last stable offset after it. Most segments have no aborted transaction and no such file.
Rows are written as the markers are appended; after a crash the index of the active segment is rebuilt. A
small index is held in memory after its first use; a segment may have a million rows.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk, DiskFile
from ottla.logstore.words.errors import ErrorCode, KafkaError

ROW: Final = struct.Struct(">hqqqq")
VERSION: Final = 0
# For one segment. A row takes 220 bytes; reading one from the file costs 0.2 us more.
MAX_ROWS_IN_MEMORY: Final = 10_000
_ROWS_PER_READ: Final = 256
_FIELDS: Final = struct.Struct(">2xqqqq")  # of a row, without the version
_LAST_OFFSET_FIELD: Final = struct.Struct(">q")
_LAST_OFFSET_AT: Final = 18  # its position in a row


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer, first data offset, marker's offset, and the LSO after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_LAST_OFFSET = attrgetter("last_offset")
# Faster than with keywords.
_as_row: Callable[[tuple[int, ...]], AbortedTransaction] = partial(tuple.__new__, AbortedTransaction)


class TransactionIndex:
    """The rows of one segment, in the order of their last offsets."""

    __slots__ = ("_count", "_disk", "_last_offset", "_open_file", "_rows", "path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self._count: int | None = None  # the number of rows; None: not determined yet
        self._rows: list[AbortedTransaction] | None = None  # None: the rows are in the file only
        self._last_offset = -1  # in the last row, once a row was appended
        self._open_file: DiskFile | None = None  # open while rows are appended

    def reset(self) -> None:
        """Remove all rows, and the file."""
        self.create()
        self._disk.remove(self.path)

    def create(self) -> None:
        """Begin the empty index of a new segment, without looking for a file."""
        self._count, self._rows, self._last_offset, self._open_file = 0, [], -1, None

    def release(self) -> None:
        """Close the file: the segment is complete, so that no row will be appended."""
        self._open_file = None

    @property
    def rows_count(self) -> int:
        """The number of rows; CORRUPT_MESSAGE if the file is not a transaction index."""
        if self._count is None:
            size = self._disk.file_size(self.path) if self._disk.exists(self.path) else 0
            if size % ROW.size:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{self.path}: its size {size} is not a multiple of {ROW.size}.",
                )
            self._count = size // ROW.size
            if self._count <= MAX_ROWS_IN_MEMORY:
                self._rows = list(self._rows_in_file(0))
        return self._count

    @property
    def rows(self) -> list[AbortedTransaction]:
        """All rows; CORRUPT_MESSAGE if the file is not a transaction index."""
        return list(self._rows_from(0))

    def _rows_from(self, number: int) -> Iterator[AbortedTransaction]:
        count = self.rows_count
        if self._rows is not None:
            return islice(self._rows, number, count)
        return self._rows_in_file(number)

    def _rows_in_file(self, number: int) -> Iterator[AbortedTransaction]:
        count = self._count or 0
        while number < count:
            stop = min(count, number + _ROWS_PER_READ)
            content = self._read(number, stop)
            if any(content[:: ROW.size]) or any(content[1 :: ROW.size]):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path} has a row of an unknown version.")
            yield from map(_as_row, _FIELDS.iter_unpack(content))
            number = stop

    def _read(self, number: int, stop: int) -> bytes:
        size_bytes = (stop - number) * ROW.size
        content = self._disk.open_to_read(self.path).read_at(number * ROW.size, size_bytes)
        if len(content) != size_bytes:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path} has no row {stop - 1}.")
        return content

    def _last_offset_in_file(self, number: int) -> int:
        last_offset: int
        (last_offset,) = _LAST_OFFSET_FIELD.unpack_from(self._read(number, number + 1), _LAST_OFFSET_AT)
        return last_offset

    def _first_ending_at(self, offset: int) -> int:
        """Return the number of the first row whose last offset is `offset` or later."""
        count = self.rows_count
        if self._rows is not None:
            return bisect_left(self._rows, offset, key=_LAST_OFFSET)
        return bisect_left(range(count), offset, key=self._last_offset_in_file)

    def append(self, transaction: AbortedTransaction) -> None:
        """Append a row. Its last offset must be above that of the row before."""
        count = self.rows_count
        if count and self._last_offset < 0:
            self._last_offset = self._last_offset_in_file(count - 1)
        assert self._last_offset < transaction.last_offset, (self._last_offset, transaction)
        self._file().write_at(ROW.size * count, (ROW.pack(VERSION, *transaction),))
        self._count, self._last_offset = count + 1, transaction.last_offset
        if count >= MAX_ROWS_IN_MEMORY:
            self._rows = None
        elif self._rows is not None:
            self._rows.append(transaction)

    def _file(self) -> DiskFile:
        if self._open_file is None:
            self._open_file = self._disk.open(self.path, create=True)
        return self._open_file

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the rows that overlap [start_offset, end_offset); False if later segments may have more."""
        found: list[AbortedTransaction] = []
        if not self.rows_count:
            return found, False
        # The binary search skips the rows that end before the start. None of them would end this loop: their
        # last stable offsets are below the end.
        for row in self._rows_from(self._first_ending_at(start_offset)):
            if row.first_offset < end_offset:
                found.append(row)
            if row.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or above `offset`."""
        keep = self._first_ending_at(offset)
        if keep < self.rows_count:
            self._file().truncate(keep * ROW.size)
            self._count, self._last_offset = keep, -1
            if self._rows is not None:
                del self._rows[keep:]

    def sync(self) -> None:
        """Make the rows and the name of the file durable."""
        if self._count or (self._count is None and self._disk.exists(self.path)):
            self._disk.open(self.path).sync()
            self._disk.sync_directory(self.path.parent)

    def problem(self, base_offset: int) -> str | None:
        """Return the error in the file of a segment that starts at `base_offset`; None if it has none."""
        try:
            early = [row for row in self._rows_from(0) if row.last_offset < base_offset]
        except KafkaError as error:
            return error.detail
        return f"its row {early[0]} lies before the segment" if early else None

    def check_invariants(self) -> None:
        """Assert that the rows are in order, and that those in memory are those in the file."""
        rows = self.rows
        assert rows == list(self._rows_in_file(0)), rows
        assert all(one.last_offset < other.last_offset for one, other in pairwise(rows))
        assert all(row.first_offset <= row.last_offset for row in rows), rows
