"""Finds the next lock or wait of a share-partition that ends.

An entry is added with each lock, and is not removed when the record is acknowledged. When its time comes, it
is compared with the records, and skipped if it is stale. When most entries are stale, the heap is rebuilt.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from ottla.node.share.in_flight_records import InFlightRecords

# This many entries are cheap to keep, however few records there are.
_FEW: Final = 64


class AcquisitionLocks:
    """The end times of the locks and waits of ranges of offsets, in a heap."""

    __slots__ = ("_entries", "_records")

    def __init__(self, records: InFlightRecords) -> None:
        self._records = records
        self._entries: list[tuple[int, int, int]] = []  # (time, first offset, last offset), a heap

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time_ms: int, first: int, last: int) -> None:
        """Add an entry for records whose lock or wait ends at this time."""
        heappush(self._entries, (time_ms, first, last))
        if len(self._entries) > 2 * len(self._records) + _FEW:
            self._rebuild()

    def next_ms(self) -> int | None:
        """Return the time of the next entry that is not stale, None if there is none."""
        while self._entries:
            time_ms, first, last = self._entries[0]
            begin, end = self._records.span(first, last)
            if time_ms in self._records.times_ms[begin:end]:
                return time_ms
            heappop(self._entries)
        return None

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        """Remove the entries whose time has come, and return their ranges."""
        due = []
        while self._entries and self._entries[0][0] <= now_ms:
            _, first, last = heappop(self._entries)
            due.append((first, last))
        return due

    def check_invariants(self) -> None:
        """Assert that every time of a record has an entry."""
        records = self._records
        for index, time_ms in enumerate(records.times_ms):
            first, last = records.firsts[index], records.lasts[index]
            covered = [(b, e) for when, b, e in self._entries if when <= time_ms and b <= last and e >= first]
            assert not time_ms or records.transitions[index] or covered, records.describe(index)

    def _rebuild(self) -> None:
        records = self._records
        self._entries = [
            (time_ms, records.firsts[index], records.lasts[index])
            for index, time_ms in enumerate(records.times_ms)
            if time_ms
        ]
        heapify(self._entries)
