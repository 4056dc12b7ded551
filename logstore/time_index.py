"""The time index of a segment (`.timeindex`): the largest timestamp so far, and the offset of its batch.

A row is 12 bytes, big-endian: i64 timestamp in ms and i32 offset, relative to the base offset, of the last
record of the batch with that timestamp. Rows are added together with those of the offset index, and one more
when the segment is rolled or closed, so that its last row always has the largest timestamp. Rows are in
memory or in the file as in `offset_index`.
"""

import struct
from array import array
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk
from ottla.logstore.words.errors import ErrorCode, KafkaError

ROW: Final = struct.Struct(">qi")
NO_TIMESTAMP: Final = -1
_INT64, _UINT32 = "q", "I"


class TimestampOffset(NamedTuple):
    """A row: `timestamp` (ms) is the largest so far; the batch that ends at `offset` has it."""

    timestamp: int
    offset: int


class TimeIndex:
    """The rows of one segment, in memory (`load`) or in the file only (`release`)."""

    __slots__ = ("_disk", "_offsets", "_rows_count", "_timestamps", "base_offset", "path")

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array(_UINT32)
        self._rows_count: int | None = None

    def reset(self) -> None:
        """Start with no rows, in memory."""
        self._timestamps, self._offsets, self._rows_count = array(_INT64), array(_UINT32), None

    def load(self) -> None:
        """Read the rows of the file into memory, as the active segment needs them."""
        if self._timestamps is None:
            content = self._disk.read_file(self.path) if self._disk.exists(self.path) else b""
            rows = list(ROW.iter_unpack(content))
            self._timestamps = array(_INT64, (row[0] for row in rows))
            self._offsets = array(_UINT32, (row[1] for row in rows))

    def write(self, *, sync: bool) -> None:
        """Write the rows to the file; they stay in memory."""
        if self._timestamps is not None:
            rows = b"".join(map(ROW.pack, self._timestamps, self._offsets))
            self._disk.write_file(self.path, rows, sync=sync)

    def release(self) -> None:
        """Drop the rows in memory: from now on they are read from the file."""
        if self._timestamps is not None:
            self._rows_count = len(self._timestamps)
            self._timestamps, self._offsets = None, array(_UINT32)

    @property
    def rows_count(self) -> int:
        if self._timestamps is not None:
            return len(self._timestamps)
        if self._rows_count is None:
            # An empty segment needs no index file.
            exists = self._disk.exists(self.path)
            self._rows_count = self._disk.file_size(self.path) // ROW.size if exists else 0
        return self._rows_count

    def row(self, number: int) -> TimestampOffset:
        """Return row `number`, counted from the end if negative."""
        if self._timestamps is not None:
            return TimestampOffset(self._timestamps[number], self.base_offset + self._offsets[number])
        if number < 0:
            number += self.rows_count
        content = self._disk.open_to_read(self.path).read_at(number * ROW.size, ROW.size)
        if len(content) < ROW.size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path} has no row {number}.")
        timestamp, relative = ROW.unpack(content)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def last(self) -> TimestampOffset:
        """Return the last row, or (-1, base offset) if there is none."""
        return self.row(-1) if self.rows_count else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add a row for the largest timestamp so far, unless the last row has it already."""
        assert self._timestamps is not None, "only the active segment's index grows"
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self.base_offset)

    def drop_beyond(self, offset: int) -> None:
        """Drop the rows beyond `offset`, which is in the last row of the offset index.

        They were added by a close, or belong to batches that were truncated.
        """
        assert self._timestamps is not None
        while self._timestamps and self.base_offset + self._offsets[-1] > offset:
            del self._timestamps[-1], self._offsets[-1]

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last row at or below `timestamp`, or (-1, base offset); all batches before are older."""
        if self._timestamps is not None:
            found = bisect_right(self._timestamps, timestamp) - 1
        else:
            low, high = 0, self.rows_count
            while low < high:
                middle = (low + high) // 2
                if self.row(middle).timestamp <= timestamp:
                    low = middle + 1
                else:
                    high = middle
            found = low - 1
        return self.row(found) if found >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the rows at or above `offset`; the rows must be in memory."""
        assert self._timestamps is not None, "only the active segment's index is cut"
        keep = bisect_right(self._offsets, max(-1, offset - 1 - self.base_offset)) if self._offsets else 0
        del self._timestamps[keep:], self._offsets[keep:]

    def problem(self) -> str | None:
        """Return the problem that the file's size, first or last row shows; None if there is none."""
        size = self._disk.file_size(self.path)
        if size % ROW.size:
            return f"its size {size} is not a multiple of {ROW.size}"
        self._rows_count = size // ROW.size
        if self._rows_count:
            first, last = self.row(0), self.row(-1)
            if last.offset < self.base_offset or last.timestamp < first.timestamp:
                return f"its last row {last.timestamp}:{last.offset} lies before the segment or the first row"
        return None

    def problem_of_rows(self) -> str | None:
        """Return the first problem found in the order of the file's rows; None if there is none."""
        before = (NO_TIMESTAMP, -1)
        for row in ROW.iter_unpack(self._disk.read_file(self.path)):
            if row[0] <= before[0] or row[1] <= before[1]:
                return f"its row {row[0]}:{row[1]} is not greater than the previous row"
            before = row
        return None

    def check_invariants(self) -> None:
        """Assert that timestamps and offsets grow from row to row."""
        rows = [self.row(number) for number in range(self.rows_count)]
        for one, other in pairwise(rows):
            assert one.timestamp < other.timestamp and one.offset < other.offset, (self.path, one, other)
