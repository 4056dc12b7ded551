"""The deferred removal of files and directories that no log uses any more."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ottla.logstore.disk import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Files, or a directory, to remove at `due_ms`."""

    paths: tuple[Path, ...]
    due_ms: int
    is_directory: bool


class Removals:
    """The files and directories that wait for their removal."""

    def __init__(self, disk: Disk, now_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._now_ms = now_ms
        self.waiting: list[Removal] = []

    def add_files(self, paths: Iterable[Path], delay_ms: int) -> None:
        """Schedule the removal of these files after `delay_ms`."""
        due_ms = self._now_ms() + delay_ms
        self.waiting.append(Removal(paths=tuple(paths), due_ms=due_ms, is_directory=False))

    def add_directory(self, directory: Path, delay_ms: int) -> None:
        """Schedule the removal of this directory, with its content, after `delay_ms`."""
        due_ms = self._now_ms() + delay_ms
        self.waiting.append(Removal(paths=(directory,), due_ms=due_ms, is_directory=True))

    def take_due(self) -> list[Removal]:
        """Hand over the removals that are due, which the caller passes to `remove`."""
        now_ms = self._now_ms()
        due = [removal for removal in self.waiting if removal.due_ms <= now_ms]
        self.waiting = [removal for removal in self.waiting if removal.due_ms > now_ms]
        return due

    def remove(self, removals: Iterable[Removal]) -> list[tuple[Path, OSError]]:
        """Remove files and directories; return (log directory, error) of those that failed.

        Blocks; may run in any thread.
        """
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
