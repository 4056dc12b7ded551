"""The aborted transactions that ended in a segment (`.txnindex`), for consumers that read only what was
committed.

A row is 34 bytes, big-endian: i16 version (0), i64 producer id, i64 first offset, i64 last offset (the
marker's) and i64 last stable offset after it. Most segments have no aborted transaction and no such file.
Rows are written as the markers arrive; after a crash the index of the active segment is rebuilt.
"""

import struct
from bisect import bisect_left
from itertools import islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from logstore.disk import Disk, DiskFile
from logstore.errors import ErrorCode, KafkaError

ROW: Final = struct.Struct(">hqqqq")
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction of a producer: its first data offset, its marker's offset, the LSO after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_LAST_OFFSET = attrgetter("last_offset")


class TransactionIndex:
    """The rows of one segment; read from the file when first asked for."""

    __slots__ = ("_disk", "_rows", "path")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self._rows: list[AbortedTransaction] | None = None

    def reset(self) -> None:
        """Start with no rows."""
        self._rows = []
        self._disk.remove(self.path)

    def create(self) -> None:
        """Say that this is a new segment: there is no file yet, and no need to look for one."""
        self._rows = []

    @property
    def rows(self) -> list[AbortedTransaction]:
        """All rows, in the order of their last offsets; CORRUPT_MESSAGE when the file cannot be one of
        ours.
        """
        if self._rows is None:
            content = self._disk.read_file(self.path) if self._disk.exists(self.path) else b""
            if len(content) % ROW.size:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"{self.path}: {len(content)} is no multiple of {ROW.size}."
                )
            rows = list(ROW.iter_unpack(content))
            if any(row[0] > VERSION for row in rows):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.path} has a row of an unknown version.")
            self._rows = [AbortedTransaction(*row[1:]) for row in rows]
        return self._rows

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a row; last offsets must grow."""
        rows = self.rows
        assert not rows or rows[-1].last_offset < transaction.last_offset, (rows[-1], transaction)
        self._file().write_at(ROW.size * len(rows), (ROW.pack(VERSION, *transaction),))
        rows.append(transaction)

    def _file(self) -> DiskFile:
        return self._disk.open(self.path, create=True)

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The rows that overlap [start_offset, end_offset), and whether later segments cannot hold more of
        them.
        """
        found: list[AbortedTransaction] = []
        rows = self.rows
        # What ended before the start is passed over at once: its last stable offset is below the end too.
        for row in islice(rows, bisect_left(rows, start_offset, key=_LAST_OFFSET), None):
            if row.first_offset < end_offset:
                found.append(row)
            if row.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker stands at or above `offset`."""
        rows = self.rows
        keep = bisect_left(rows, offset, key=_LAST_OFFSET)
        if keep < len(rows):
            self._file().truncate(keep * ROW.size)
            del rows[keep:]

    def sync(self) -> None:
        """Make the rows durable, with the file's name."""
        if self._rows or (self._rows is None and self._disk.exists(self.path)):
            self._file().sync()
            self._disk.sync_directory(self.path.parent)

    def problem(self, base_offset: int) -> str | None:
        """What is wrong with the file; None when nothing is."""
        try:
            rows = self.rows
        except KafkaError as error:
            return error.detail
        early = [row for row in rows if row.last_offset < base_offset]
        return f"its row {early[0]} lies before the segment" if early else None

    def check_invariants(self) -> None:
        """Assert the order of the rows."""
        rows = self.rows
        assert all(one.last_offset < other.last_offset for one, other in pairwise(rows))
        assert all(row.first_offset <= row.last_offset for row in rows), rows
