"""The segments of one log as a row of files: begun, cut, replaced and dropped.

A dropped file is renamed to `.deleted` and waits in `deleted_paths`, so that readers who hold it go on. What
the records in the files say (epochs, producers, offsets) is the log's business.
"""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from ottla.logstore.disk import Disk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.producer_snapshots import ProducerSnapshots
from ottla.logstore.segment import DELETED_SUFFIX, SWAP_SUFFIX, Segment


class LogSegments:
    """`row` in the order of offsets, the last one active, and `base_offsets` of the same. Both lists are
    changed in place, for the log holds them too. Every method may raise OSError.
    """

    __slots__ = ("_disk", "_snapshots", "base_offsets", "deleted_paths", "directory", "row")

    def __init__(
        self, disk: Disk, directory: Path, segments: list[Segment], snapshots: ProducerSnapshots
    ) -> None:
        self._disk = disk
        self._snapshots = snapshots
        self.directory = directory
        self.row = segments
        self.base_offsets = [segment.base_offset for segment in segments]
        self.deleted_paths: list[Path] = []  # the owner removes them after a while

    def roll(self, base_offset: int, config: LogConfig, *, now_ms: int) -> Segment:
        """Seal the active segment, or drop it if it is empty, and begin one at `base_offset`."""
        active = self.row[-1]
        if active.size_bytes == 0:
            self._drop_files(self.row.pop())
            self.base_offsets.pop()
        else:
            active.seal()
        return self.begin(base_offset, config, now_ms=now_ms)

    def begin(self, base_offset: int, config: LogConfig, *, now_ms: int) -> Segment:
        """A new active segment behind the others, of which none is active."""
        segment = Segment.create(self._disk, self.directory, base_offset, config, now_ms=now_ms)
        self.row.append(segment)
        self.base_offsets.append(base_offset)
        return segment

    def truncate_to(self, offset: int) -> int:
        """Cut everything from the batch that contains `offset` on; the new end of the log."""
        keep = max(1, bisect_right(self.base_offsets, offset))
        doomed = self.row[keep:]
        del self.row[keep:], self.base_offsets[keep:]
        for segment in doomed:
            self._drop_files(segment)
        last = self.row[-1]
        if not last.is_active:
            last.activate(last.find_end()[0])
        last.truncate_to(offset)
        # The batch that contained `offset` went as a whole.
        return min(offset, max(last.find_end()[0], last.base_offset))

    def drop_all(self) -> None:
        """Leave none; `begin` must follow."""
        doomed = self.row[:]
        self.row.clear()
        self.base_offsets.clear()
        for segment in doomed:
            self._drop_files(segment)

    def drop_oldest(self, count: int) -> None:
        """Take the first `count` out, with the snapshots that stand for them."""
        doomed = self.row[:count]
        del self.row[:count], self.base_offsets[:count]
        for segment in doomed:
            self._drop_files(segment)
            self._drop_snapshot(segment.base_offset)

    def replace(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put cleaned segments (suffix `.cleaned`, sealed) in the place of the ones that they were made from.

        A crash at any point leaves either the old ones or, by way of `.swap`, the new ones.
        """
        first = self.row.index(old[0])
        assert self.row[first : first + len(old)] == list(old), "the old segments are neighbours"
        assert not any(segment.is_active for segment in (*new, *old)), "the active segment is not cleaned"
        # Last one first: as long as a `.cleaned` file is left, swaps from it on are void.
        for segment in reversed(new):
            segment.change_suffix(SWAP_SUFFIX)
        self.row[first : first + len(old)] = new
        self.base_offsets[:] = [segment.base_offset for segment in self.row]
        kept = {segment.base_offset for segment in new}
        for segment in old:
            self._drop_files(segment)
            if segment.base_offset not in kept:
                self._drop_snapshot(segment.base_offset)
        for segment in new:
            segment.change_suffix("")

    def _drop_files(self, segment: Segment) -> None:
        segment.close()
        segment.change_suffix(DELETED_SUFFIX)
        self.deleted_paths += segment.existing_paths()

    def _drop_snapshot(self, offset: int) -> None:
        snapshot = self._snapshots.mark_deleted(offset)
        if snapshot is not None:
            self.deleted_paths.append(snapshot)

    def unflushed_paths(self, recovery_point: int) -> list[Path]:
        """The files, but for the active `.log`, that may not be durable yet."""
        dirty = [
            segment
            for number, segment in enumerate(self.row[:-1])
            # "At" counts: the segment may have been flushed as the active one, before its indexes were
            # written.
            if self.base_offsets[number + 1] >= recovery_point
        ]
        paths: list[Path] = [self.row[-1].transaction_index.path]
        for segment in dirty:
            paths += segment.existing_paths()
        return paths + [
            self._snapshots.path(offset) for offset in self._snapshots.offsets if offset >= recovery_point
        ]

    def move_to(self, directory: Path) -> None:
        """The directory of the log was renamed."""
        self.directory = directory
        self._snapshots.directory = directory
        self.deleted_paths = [directory / path.name for path in self.deleted_paths]
        for segment in self.row:
            segment.move_to(directory)

    def check_invariants(self) -> None:
        """Assert that the row is in order and its last segment active."""
        assert self.row and self.base_offsets == [one.base_offset for one in self.row]
        assert self.base_offsets == sorted(set(self.base_offsets))
        assert all(not segment.is_active for segment in self.row[:-1])
        assert self.row[-1].is_active
