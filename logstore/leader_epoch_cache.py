"""The start offset of each leader epoch, which tells followers and consumers where to truncate (KIP-101).

The entries are in `leader-epoch-checkpoint`; `checkpoint` has its format. The file is replaced at each change
without waiting for the disk. After a power cut it may lack entries, or have entries of batches that are lost:
recovery corrects it from the batch headers above the recovery point, which it reads again.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.checkpoint import LEADER_EPOCH_CHECKPOINT, decode_epochs, encode_epochs
from ottla.logstore.disk import Disk

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """The first offset that was written in the leader epoch `epoch`."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The largest epoch at or below a requested one, and the offset where it ended; (-1, -1) if unknown."""

    leader_epoch: int
    end_offset: int


class LeaderEpochCache:
    """The epochs of one log in memory, and their file."""

    __slots__ = ("_disk", "_entries", "_is_written", "latest_epoch", "path")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self.path = directory / LEADER_EPOCH_CHECKPOINT
        self._entries: list[EpochEntry] = []
        self.latest_epoch = UNDEFINED_EPOCH
        self._is_written = False  # True: the file has the entries in memory

    def load(self) -> None:
        """Read the file, if there is one; KAFKA_STORAGE_ERROR if it is malformed."""
        try:
            content = self._disk.read_file(self.path)
        except FileNotFoundError:
            return
        for epoch, start_offset in decode_epochs(content, self.path):
            self._assign(epoch, start_offset)
        self._is_written = True

    def write(self, *, sync: bool = False) -> None:
        """Replace the file by the entries in memory."""
        self._disk.write_file(self.path, encode_epochs(self._entries), sync=sync)
        self._is_written = True

    def write_changes(self) -> None:
        """Replace the file if it differs from the entries in memory."""
        if not self._is_written:
            self.write()

    def move_to(self, directory: Path) -> None:
        """Use the new directory, after that of the log was renamed."""
        self.path = directory / LEADER_EPOCH_CHECKPOINT

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add an entry: `epoch` begins at `start_offset`. Return True if that is new, after writing the file.

        Entries that contradict the new one, by epoch or by offset, are dropped.
        """
        changed = self._assign(epoch, start_offset)
        if changed:
            self.write()
        return changed

    def _assign(self, epoch: int, start_offset: int) -> bool:
        assert epoch >= 0 and start_offset >= 0, (epoch, start_offset)
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        self._is_written = False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch in which `offset` was, or will be, written; -1 if it is unknown."""
        found = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[found].epoch if found >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the end of `epoch`, or of the last known epoch before it (OffsetForLeaderEpoch)."""
        if epoch == UNDEFINED_EPOCH:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if above == len(self._entries):
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        end_offset = self._entries[above].start_offset
        # The records of an epoch older than all known ones are gone: continue at the first known offset.
        return EpochEndOffset(self._entries[above - 1].epoch if above else epoch, end_offset)

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs from `end_offset` on; return True, after writing the file, if there were any."""
        keep = len(self._entries)
        while keep and self._entries[keep - 1].start_offset >= end_offset:
            keep -= 1
        if keep == len(self._entries):
            return False
        del self._entries[keep:]
        self._is_written = False
        self.latest_epoch = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        self.write()
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop the epochs that ended below `start_offset`, and let the first remaining one begin there.

        Return True, after writing the file, if that changed anything.
        """
        below = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if not below or self._entries[0].start_offset == start_offset:
            return False
        self._entries[:below] = [EpochEntry(self._entries[below - 1].epoch, start_offset)]
        self._is_written = False
        self.write()
        return True

    def replace(self, entries: Iterable[EpochEntry], end_offset: int) -> None:
        """Replace the epochs below `end_offset` by these, and write the file."""
        later = [entry for entry in self._entries if entry.start_offset >= end_offset]
        self._entries, self.latest_epoch = [], UNDEFINED_EPOCH
        for entry in (*entries, *later):
            self._assign(entry.epoch, entry.start_offset)
        self.write()

    def clear(self) -> None:
        """Drop all epochs."""
        if self._entries:
            self._entries.clear()
            self._is_written = False
            self.latest_epoch = UNDEFINED_EPOCH
            self.write()

    def check_invariants(self) -> None:
        """Assert that epochs and offsets grow."""
        for one, other in pairwise(self._entries):
            assert one.epoch < other.epoch and one.start_offset < other.start_offset, self._entries
        assert self.latest_epoch == (self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH)
