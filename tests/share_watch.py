"""The guarantees of a share group as assertions, for random sessions and simulations.

Tests report to a `ShareWatch` what the leader of a partition does. It checks that a record is held by one
member at a time, is not lost, is not delivered after its acknowledgement was written, is not delivered more
often than the limit, and that the start offset never goes backwards.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Hold(NamedTuple):
    member: str
    until_ms: int
    delivery_count: int


class ShareWatch:
    """The checks of one share group in one partition."""

    def __init__(self, *, lock_duration_ms: int, delivery_count_limit: int) -> None:
        self._lock_duration_ms = lock_duration_ms
        self._delivery_count_limit = delivery_count_limit
        self._holds: dict[int, Hold] = {}
        self._done: set[int] = set()  # acknowledged or archived, and written
        self._counts: dict[int, int] = {}  # of ended deliveries, as written
        self._start_offset = 0

    def hold_of(self, offset: int) -> Hold | None:
        """Return the last hold of a record, unless it ended before its lock expired."""
        return self._holds.get(offset)

    def acquired(self, member: str, first: int, last: int, delivery_count: int, now_ms: int) -> None:
        """Check that a member may acquire records, and note its holds."""
        assert 1 <= delivery_count <= self._delivery_count_limit, (first, last, delivery_count)
        assert first >= self._start_offset, (first, self._start_offset)
        for offset in range(first, last + 1):
            hold = self._holds.get(offset)
            assert hold is None or hold.until_ms <= now_ms, (
                f"{offset} is held by {hold}, and acquired by {member}"
            )
            assert offset not in self._done, f"{offset} is finished, and acquired by {member}"
            assert delivery_count > self._counts.get(offset, 0), (offset, delivery_count, self._counts)
            self._holds[offset] = Hold(member, now_ms + self._lock_duration_ms, delivery_count)

    def renewed(self, member: str, first: int, last: int, now_ms: int) -> None:
        """Note that a member renewed its locks."""
        for offset in range(first, last + 1):
            hold = self._holds[offset]
            assert hold.member == member, (offset, hold, member)
            self._holds[offset] = hold._replace(until_ms=now_ms + self._lock_duration_ms)

    def released(self, first: int, last: int, delivery_count: int) -> None:
        """Note that the release of records is written, so that they may be delivered again."""
        for offset in range(first, last + 1):
            hold = self._holds.pop(offset, None)
            assert hold is None or hold.delivery_count == delivery_count, (offset, hold, delivery_count)
            self._counts[offset] = delivery_count

    def done(self, first: int, last: int) -> None:
        """Note that the end of records is written, so that they are never delivered again."""
        for offset in range(first, last + 1):
            self._holds.pop(offset, None)
            self._done.add(offset)

    def start_offset(self, offset: int) -> None:
        """Check and note the start offset, before which all records are finished or deleted."""
        assert offset >= self._start_offset, (offset, self._start_offset)
        self._start_offset = offset

    def leader_changed(self, start_offset: int) -> None:
        """Note a new leader, which has read the state: it knows all that was written, but no locks."""
        self._holds.clear()
        self._start_offset = start_offset

    def none_lost(self, offsets: Iterable[int]) -> None:
        """Check that all records are finished."""
        lost = sorted(set(offsets) - self._done)
        assert not lost, f"never finished: {lost[:20]}, {len(lost)} in all"
