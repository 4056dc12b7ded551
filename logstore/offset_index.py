"""The offset index of a segment (`.index`): the position of a batch and its offset, every few kilobytes.

A row is 8 bytes, big-endian: i32 offset of the last record of a batch, relative to the segment's base offset,
and i32 position of that batch. The rows of the active segment are held in memory and written when it is
rolled, flushed or closed: recovery reads that segment after a crash anyway and rebuilds its index. The rows
of a closed segment are looked up in the file, page by page as the kernel caches it.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk, DiskFile
from ottla.logstore.words.errors import ErrorCode, KafkaError

ROW: Final = struct.Struct(">ii")
_UINT32 = "I"
_PAGE_ROWS: Final = 512  # 4 KiB: reading them takes as long as reading one row


class OffsetPosition(NamedTuple):
    """A row: the batch that ends at `offset` starts at `position`."""

    offset: int
    position: int


class OffsetIndex:
    """The rows of one segment, in memory (`load`) or in the file only (`release`)."""

    __slots__ = ("_disk", "_offsets", "_positions", "_rows_count", "base_offset", "path")

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._offsets: array[int] | None = None
        self._positions: array[int] = array(_UINT32)
        self._rows_count: int | None = None

    def reset(self) -> None:
        """Start with no rows, in memory."""
        self._offsets, self._positions, self._rows_count = array(_UINT32), array(_UINT32), None

    def load(self) -> None:
        """Read the rows of the file into memory, as the active segment needs them."""
        if self._offsets is None:
            rows = array(_UINT32, self._disk.read_file(self.path) if self._disk.exists(self.path) else b"")
            rows.byteswap()
            self._offsets, self._positions = rows[0::2], rows[1::2]

    def write(self, *, sync: bool) -> None:
        """Write the rows to the file; they stay in memory."""
        if self._offsets is not None:
            rows = array(_UINT32, bytes(ROW.size * len(self._offsets)))
            rows[0::2], rows[1::2] = self._offsets, self._positions
            rows.byteswap()
            self._disk.write_file(self.path, rows.tobytes(), sync=sync)

    def release(self) -> None:
        """Drop the rows in memory: from now on they are read from the file."""
        if self._offsets is not None:
            self._rows_count = len(self._offsets)
            self._offsets, self._positions = None, array(_UINT32)

    @property
    def rows_count(self) -> int:
        if self._offsets is not None:
            return len(self._offsets)
        if self._rows_count is None:
            # An empty segment needs no index file.
            exists = self._disk.exists(self.path)
            self._rows_count = self._disk.file_size(self.path) // ROW.size if exists else 0
        return self._rows_count

    def append(self, offset: int, position: int) -> None:
        """Add a row for the batch that ends at `offset` and starts at `position`; both must grow."""
        assert self._offsets is not None, "only the active segment's index grows"
        relative = offset - self.base_offset
        assert not self._offsets or relative > self._offsets[-1], (offset, self.row(-1))
        self._offsets.append(relative)
        self._positions.append(position)

    def row(self, number: int) -> OffsetPosition:
        """Return row `number`, counted from the end if negative."""
        if self._offsets is not None:
            return OffsetPosition(self.base_offset + self._offsets[number], self._positions[number])
        if number < 0:
            number += self.rows_count
        content = self._disk.open_to_read(self.path).read_at(number * ROW.size, ROW.size)
        if len(content) < ROW.size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path} has no row {number}.")
        relative, position = ROW.unpack(content)
        return OffsetPosition(self.base_offset + relative, position)

    def last(self) -> OffsetPosition:
        """Return the last row, or (base offset, 0) if there is none."""
        return self.row(-1) if self.rows_count else OffsetPosition(self.base_offset, 0)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last row at or below `offset`, or (base offset, 0): where a search for it begins."""
        if self._offsets is not None:
            found = bisect_right(self._offsets, max(0, offset - self.base_offset)) - 1
        else:
            found = self._rows_before(offset - self.base_offset + 1, field=0) - 1
        return self.row(found) if found >= 0 else OffsetPosition(self.base_offset, 0)

    def position_after(self, offset: int) -> int | None:
        """Return the position in the first row above `offset`.

        None if there is no such row, or if the rows are not in memory.
        """
        if self._offsets is None:
            return None
        number = bisect_right(self._offsets, offset - self.base_offset)
        return self._positions[number] if number < len(self._positions) else None

    def first_offset_from(self, position: int) -> int | None:
        """Return the offset in the first row at or after `position`; None if there is no such row."""
        number = self._rows_below(position)
        return self.row(number).offset if number < self.rows_count else None

    def position_before(self, position: int) -> int:
        """Return the position of the last batch with a row that starts at or before `position`, or 0."""
        number = self._rows_below(position + 1)
        return self.row(number - 1).position if number else 0

    def known_position_before(self, position: int) -> int | None:
        """Return `position_before(position)`; None if the rows are not in memory."""
        return None if self._offsets is None else self.position_before(position)

    def _rows_below(self, position: int) -> int:
        """Return the number of rows with a smaller position."""
        if self._offsets is not None:
            return bisect_left(self._positions, position)
        return self._rows_before(position, field=1)

    def _rows_before(self, value: int, *, field: int) -> int:
        """Return the number of rows in the file with a smaller value in this field.

        A binary search finds the page of the value, which is then read as a whole.
        """
        first, end = 0, self.rows_count
        if end == 0:
            return 0
        file = self._disk.open_to_read(self.path)
        while end - first > _PAGE_ROWS:
            middle = (first + end) // 2
            if self._rows_at(file, middle, middle + 1)[field] < value:
                first = middle + 1
            else:
                end = middle
        return first + bisect_left(self._rows_at(file, first, end)[field::2], value)

    def _rows_at(self, file: DiskFile, first: int, end: int) -> "array[int]":
        """Return some rows as one array: relative offset, position, relative offset and so on."""
        content = file.read_at(first * ROW.size, (end - first) * ROW.size)
        if len(content) < (end - first) * ROW.size:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{self.path} has no row {first + len(content) // ROW.size}."
            )
        rows = array(_UINT32, content)
        rows.byteswap()
        return rows

    def truncate_to(self, offset: int) -> None:
        """Drop the rows at or above `offset`; the rows must be in memory."""
        assert self._offsets is not None, "only the active segment's index is cut"
        keep = bisect_right(self._offsets, max(-1, offset - 1 - self.base_offset)) if self._offsets else 0
        del self._offsets[keep:], self._positions[keep:]

    def problem(self, segment_bytes: int) -> str | None:
        """Return the problem that the file's size or last row shows; None if there is none."""
        size = self._disk.file_size(self.path)
        if size % ROW.size:
            return f"its size {size} is not a multiple of {ROW.size}"
        self._rows_count = size // ROW.size
        if self._rows_count:
            last = self.row(-1)
            # The first batch has no row, so a zero is from a page that was never written.
            if last.offset <= self.base_offset or not 0 < last.position < segment_bytes:
                return f"its last row {last.offset}:{last.position} lies outside the segment"
        return None

    def problem_of_rows(self) -> str | None:
        """Return the first problem found in the order of the file's rows; None if there is none."""
        before = (0, 0)
        for row in ROW.iter_unpack(self._disk.read_file(self.path)):
            if row[0] <= before[0] or row[1] <= before[1]:
                return f"its row {row[0]}:{row[1]} is not greater than the previous row"
            before = row
        return None

    def check_invariants(self) -> None:
        """Assert that offsets and positions grow from row to row."""
        rows = [self.row(number) for number in range(self.rows_count)]
        for one, other in pairwise(rows):
            assert one.offset < other.offset and one.position < other.position, (self.path, one, other)
