"""What must be on the disk before a recovery point may move, as work that a thread can do."""

from dataclasses import dataclass
from pathlib import Path

from ottla.logstore.disk import Disk, DiskFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushTarget:
    """What to make durable so that the recovery point may move to `offset`. `run` blocks and may run in a
    thread.
    """

    offset: int
    cuts: int  # how often its log had been truncated when this was found out
    disk: Disk
    directory: Path
    files: tuple[DiskFile, ...]
    paths: tuple[Path, ...]

    def run(self) -> None:
        for file in self.files:
            file.sync()
        for path in self.paths:
            # A segment that was deleted meanwhile needs no fsync.
            try:
                self.disk.open(path).sync()
            except FileNotFoundError:
                continue
        self.disk.sync_directory(self.directory)
