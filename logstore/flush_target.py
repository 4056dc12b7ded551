"""The files to flush before a recovery point may move, as work for a thread."""

from dataclasses import dataclass
from pathlib import Path

from ottla.logstore.disk import Disk, DiskFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushTarget:
    """The files to make durable so that the recovery point may move to `offset`.

    `run` blocks, and may run in any thread.
    """

    offset: int
    cuts: int  # the number of truncations of the log when this was made
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
