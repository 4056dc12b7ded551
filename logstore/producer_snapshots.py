"""The `.snapshot` files of a log: the producer state at the base offset of a segment, and at a clean close.

A snapshot at offset N has the state after all batches below N. At start the newest one is loaded and the
batches above it are replayed; a broken one is removed, and the next older one is used.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path

from ottla.logstore.disk import Disk
from ottla.logstore.producer_state import ProducerState, decode_snapshot, encode_snapshot
from ottla.logstore.segment import DELETED_SUFFIX, SNAPSHOT_SUFFIX, file_name
from ottla.logstore.words.errors import KafkaError


class ProducerSnapshots:
    """The snapshot files of one log, by offset."""

    __slots__ = ("_disk", "directory", "offsets")

    def __init__(self, disk: Disk, directory: Path, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self.directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> Path:
        return self.directory / file_name(offset, SNAPSHOT_SUFFIX)

    def take(self, state: ProducerState, *, sync: bool = False) -> None:
        """Write the state, unless the newest file has it already."""
        offset = state.map_end_offset
        if self.offsets and self.offsets[-1] >= offset:
            return
        self._disk.write_file(self.path(offset), encode_snapshot(state.entries.values()), sync=sync)
        self.offsets.append(offset)

    def load_latest(self, state: ProducerState, base_offset: int, end_offset: int, now_ms: int) -> list[str]:
        """Load `state` from the newest valid snapshot up to `end_offset`; return the problems of others.

        Without one the state is empty at `base_offset`, that of the first segment, where the replay begins.
        Snapshots below `base_offset` are ignored: the batches between them and the log are missing. The log
        start offset may be higher than `base_offset`, but a client may still send again a batch below it.
        """
        problems: list[str] = []
        at = bisect_right(self.offsets, end_offset) - 1
        while at >= 0 and self.offsets[at] >= base_offset:
            path = self.path(self.offsets[at])
            try:
                entries = decode_snapshot(self._disk.read_file(path), now_ms)
            except (KafkaError, FileNotFoundError) as error:
                problems.append(f"{path} is not a producer snapshot and was removed: {error}")
                self._remove(self.offsets.pop(at))
                at -= 1
                continue
            state.load(entries, self.offsets[at])
            return problems
        state.clear(base_offset)
        return problems

    def remove_above(self, offset: int) -> None:
        """Remove the snapshots above `offset`, which cover more than the log has."""
        keep = bisect_right(self.offsets, offset)
        for beyond in self.offsets[keep:]:
            self._remove(beyond)
        del self.offsets[keep:]

    def remove_strays(self, segment_offsets: Iterable[int]) -> None:
        """Remove the snapshots that belong to no segment, except the newest, which a close wrote."""
        kept = set(segment_offsets) | set(self.offsets[-1:])
        for offset in [offset for offset in self.offsets if offset not in kept]:
            self._remove(offset)
        self.offsets = [offset for offset in self.offsets if offset in kept]

    def mark_deleted(self, offset: int) -> Path | None:
        """Rename the snapshot of a segment that is deleted to `.deleted`; return its new path, or None."""
        at = bisect_left(self.offsets, offset)
        if at == len(self.offsets) or self.offsets[at] != offset:
            return None
        del self.offsets[at]
        path = self.path(offset)
        target = path.with_name(path.name + DELETED_SUFFIX)
        try:
            self._disk.rename(path, target)
        except FileNotFoundError:
            return None
        return target

    def clear(self) -> None:
        """Remove all snapshots."""
        for offset in self.offsets:
            self._remove(offset)
        self.offsets.clear()

    def _remove(self, offset: int) -> None:
        self._disk.remove(self.path(offset))
