"""The segments of one log as a row of files, which are created, truncated, replaced and dropped.

A dropped file is renamed to `.deleted` and its path is kept in `deleted_paths`, so that readers of the open
file can continue. The log itself handles the content of the files: epochs, producers, offsets.
"""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from ottla.logstore.disk import Disk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.producer_snapshots import ProducerSnapshots
from ottla.logstore.segment import DELETED_SUFFIX, SWAP_SUFFIX, Segment


class LogSegments:
    """The segments in the order of their offsets (`segments`, the last one active) and their `base_offsets`.

    Both lists are changed in place, because the log holds them too. Every method may raise OSError.
    """

    __slots__ = ("_disk", "_snapshots", "base_offsets", "deleted_paths", "directory", "segments")

    def __init__(
        self, disk: Disk, directory: Path, segments: list[Segment], snapshots: ProducerSnapshots
    ) -> None:
        self._disk = disk
        self._snapshots = snapshots
        self.directory = directory
        self.segments = segments
        self.base_offsets = [segment.base_offset for segment in segments]
        self.deleted_paths: list[Path] = []  # the owner removes them after file.delete.delay.ms

    def roll(self, base_offset: int, config: LogConfig, *, now_ms: int) -> Segment:
        """Seal the active segment, or drop it if it is empty; return a new one at `base_offset`."""
        active = self.segments[-1]
        if active.size_bytes == 0:
            self._drop_files(self.segments.pop())
            self.base_offsets.pop()
        else:
            active.seal()
        return self.begin(base_offset, config, now_ms=now_ms)

    def begin(self, base_offset: int, config: LogConfig, *, now_ms: int) -> Segment:
        """Create and return a new active segment behind the others, none of which may be active."""
        segment = Segment.create(self._disk, self.directory, base_offset, config, now_ms=now_ms)
        self.segments.append(segment)
        self.base_offsets.append(base_offset)
        return segment

    def truncate_to(self, offset: int) -> int:
        """Remove everything from the batch that contains `offset` on; return the new log end offset."""
        keep = max(1, bisect_right(self.base_offsets, offset))
        removed = self.segments[keep:]
        del self.segments[keep:], self.base_offsets[keep:]
        for segment in removed:
            self._drop_files(segment)
        last = self.segments[-1]
        if not last.is_active:
            last.activate(last.find_end()[0])
        last.truncate_to(offset)
        # The batch that contained `offset` was removed as a whole, so the end may be lower.
        return min(offset, max(last.find_end()[0], last.base_offset))

    def drop_all(self) -> None:
        """Drop all segments; `begin` must follow."""
        removed = self.segments[:]
        self.segments.clear()
        self.base_offsets.clear()
        for segment in removed:
            self._drop_files(segment)

    def drop_oldest(self, count: int) -> None:
        """Drop the first `count` segments and the snapshots at their base offsets."""
        removed = self.segments[:count]
        del self.segments[:count], self.base_offsets[:count]
        for segment in removed:
            self._drop_files(segment)
            self._drop_snapshot(segment.base_offset)

    def replace(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Replace segments by the cleaned ones made from them (suffix `.cleaned`, sealed).

        After a crash at any point, recovery finds the old segments or, through `.swap` files, the new ones.
        """
        first = self.segments.index(old[0])
        assert self.segments[first : first + len(old)] == list(old), "the old segments are neighbours"
        assert not any(segment.is_active for segment in (*new, *old)), "the active segment is not cleaned"
        # In reverse order: as long as a `.cleaned` file is left, recovery drops the `.swap` files from it on.
        for segment in reversed(new):
            segment.change_suffix(SWAP_SUFFIX)
        self.segments[first : first + len(old)] = new
        self.base_offsets[:] = [segment.base_offset for segment in self.segments]
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
        """Return the paths of files that may not be durable yet, except the active `.log`."""
        dirty = [
            segment
            for number, segment in enumerate(self.segments[:-1])
            # A segment that ends at the recovery point counts: it may have been flushed while it was active,
            # before its indexes were written.
            if self.base_offsets[number + 1] >= recovery_point
        ]
        paths: list[Path] = [self.segments[-1].transaction_index.path]
        for segment in dirty:
            paths += segment.existing_paths()
        return paths + [
            self._snapshots.path(offset) for offset in self._snapshots.offsets if offset >= recovery_point
        ]

    def move_to(self, directory: Path) -> None:
        """Use the new directory, after that of the log was renamed."""
        self.directory = directory
        self._snapshots.directory = directory
        self.deleted_paths = [directory / path.name for path in self.deleted_paths]
        for segment in self.segments:
            segment.move_to(directory)

    def check_invariants(self) -> None:
        """Assert that the segments are in order and only the last one is active."""
        assert self.segments and self.base_offsets == [one.base_offset for one in self.segments]
        assert self.base_offsets == sorted(set(self.base_offsets))
        assert all(not segment.is_active for segment in self.segments[:-1])
        assert self.segments[-1].is_active
