"""The file that `ottla consume --output-file` writes."""

import os
import stat
from pathlib import Path

from ottla.node.cli.failure import CommandError
from ottla.node.cli.progress import Progress


class OutputFile:
    """A file of records; FileExistsError if it exists and is not to be appended to."""

    def __init__(self, path: Path, *, appends: bool) -> None:
        self._path = path
        self._file = path.open("ab" if appends else "xb", buffering=0)
        self._has_disk = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)  # a pipe cannot be synced
        self._progress = Progress()
        self._written_bytes = 0

    def write(self, lines: bytes) -> None:
        """Write whole lines; CommandError if the write fails."""
        view = memoryview(lines)
        try:
            while view:
                view = view[self._file.write(view) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._refused(error) from None
        self._written_bytes += len(lines)
        self._progress.show(self._written_bytes)

    def sync(self) -> None:
        """Flush all of it to disk."""
        if self._has_disk:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise self._refused(error) from None

    def close(self) -> None:
        """Close the file and clear the progress line."""
        self._progress.end()
        self._file.close()

    def _refused(self, error: OSError) -> CommandError:
        return CommandError(f"{self._path} cannot be written: {error.strerror}.")
