"""Files and directories that are no longer part of anything, and when they go."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ottla.logstore.disk import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Files, or a directory, to be removed at `due_ms`."""

    paths: tuple[Path, ...]
    due_ms: int
    is_directory: bool


class Removals:
    """What waits to be removed."""

    def __init__(self, disk: Disk, now_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._now_ms = now_ms
        self.waiting: list[Removal] = []

    def add_files(self, paths: Iterable[Path], delay_ms: int) -> None:
        """Remove these files when `delay_ms` are over."""
        due_ms = self._now_ms() + delay_ms
        self.waiting.append(Removal(paths=tuple(paths), due_ms=due_ms, is_directory=False))

    def add_directory(self, directory: Path, delay_ms: int) -> None:
        """Remove this directory, with all that is in it, when `delay_ms` are over."""
        due_ms = self._now_ms() + delay_ms
        self.waiting.append(Removal(paths=(directory,), due_ms=due_ms, is_directory=True))

    def take_due(self) -> list[Removal]:
        """What is to be removed now, for `remove`; it is the caller's then."""
        now_ms = self._now_ms()
        due = [removal for removal in self.waiting if removal.due_ms <= now_ms]
        self.waiting = [removal for removal in self.waiting if removal.due_ms > now_ms]
        return due

    def remove(self, removals: Iterable[Removal]) -> list[tuple[Path, OSError]]:
        """Remove files and directories; (log directory, error) of those that failed. Blocks, any thread."""
        failed: list[tuple[Path, OSError]] = []
        for removal in removals:
            for path in removal.paths:
                try:
                    if removal.is_directory:
                        self._disk.remove_directory(path)
                    else:
                        self._disk.remove(path)
                except OSError as error:
                    failed.append((path.parent if removal.is_directory else path.parent.parent, error))
        return failed
