"""The file of the audit log, one JSON object a line, and its rotation.

A file holds whole lines even if the disk was full. Only its owner can read it. The file and the rotated ones
(`FILE.1` is the newest) stay within their size. If the file was renamed or removed, the next line creates it
again, so other programs may rotate it.
"""

import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
_MODE: Final = 0o600


class AuditFile:
    """One file. Every call may block on the disk; only one thread may call at a time."""

    def __init__(self, path: Path, *, max_bytes: int, max_files: int) -> None:
        """`max_files` counts the file itself."""
        self.path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._descriptor = -1
        self._size_bytes = 0

    def open(self) -> None:
        """Open or create the file; OSError if it is not writable or another process writes to it."""
        self.close()
        descriptor = os.open(self.path, _FLAGS, _MODE)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f"{self.path} is not a regular file")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError(f"another node writes {self.path}") from None
            if stat.S_IMODE(found.st_mode) & ~_MODE:
                os.fchmod(descriptor, _MODE)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self._size_bytes = descriptor, found.st_size
        self._end_torn_line()

    def close(self) -> None:
        """Close the file; `write` opens it again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def write(self, lines: Sequence[bytes]) -> int:
        """Write lines, rotating full files; return the number of lines written.

        OSError if not even the first line could be written.
        """
        if self._descriptor < 0 or not self._is_still_there():
            self.open()
        written = 0
        try:
            while written < len(lines):
                count = self._fitting(lines[written:])
                if count:
                    self._append(b"".join(lines[written : written + count]))
                    written += count
                else:
                    self._rotate()
        except OSError:
            if not written:
                raise
        return written

    def _fitting(self, lines: Sequence[bytes]) -> int:
        """Return how many lines still fit into the file; a line too large for any file gets one alone."""
        count, size_bytes = 0, self._size_bytes
        for line in lines:
            size_bytes += len(line)
            if size_bytes > self._max_bytes and size_bytes > len(line):
                break
            count += 1
        return count

    def _append(self, content: bytes) -> None:
        position = 0
        try:
            while position < len(content):
                position += os.write(self._descriptor, content[position:])
        except OSError:
            if position:
                with suppress(OSError):  # the written part would be a torn line
                    os.ftruncate(self._descriptor, self._size_bytes)
            raise
        self._size_bytes += len(content)

    def _rotate(self) -> None:
        """Rename the file and create a new one."""
        if self._max_files <= 1:
            os.ftruncate(self._descriptor, 0)
            self._size_bytes = 0
            return
        for number in range(self._max_files - 2, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(self._numbered(number), self._numbered(number + 1))
        os.replace(self.path, self._numbered(1))
        self.open()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _is_still_there(self) -> bool:
        """Return True if the path still refers to the open file."""
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        ours = os.fstat(self._descriptor)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _end_torn_line(self) -> None:
        """End the last line if a crash tore it."""
        if not self._size_bytes:
            return
        with open(self.path, "rb") as reader:
            reader.seek(-1, os.SEEK_END)
            is_torn = reader.read(1) != b"\n"
        if is_torn:
            with suppress(OSError):  # on a full disk: the next line tries again
                self._append(b"\n")
