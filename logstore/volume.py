"""The services of the operating system for a log directory: its lock, a mutex for threads, its free space.

Two locks are taken on the file `.lock`: flock, which also excludes a second node in the same process, and the
POSIX lock that Apache Kafka takes. The kernel releases both when the process ends, in whatever way.
"""

import fcntl
import os
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError

LOCK_FILE: Final = ".lock"
_MAX_PID_BYTES: Final = 20


class VolumeBytes(NamedTuple):
    """The size of a file system and its usable space; -1 if unknown."""

    total: int
    usable: int


class DirectoryLock:
    """The lock of this process on a log directory, held until `release`."""

    __slots__ = ("_fd", "directory")

    def __init__(self, directory: Path) -> None:
        """Take the lock; INVALID_CONFIG if another node has it, OSError if the disk fails."""
        self.directory = directory
        self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, _MAX_PID_BYTES, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            if not isinstance(error, BlockingIOError | PermissionError):
                raise
            named = f"process {holder}" if holder.isdigit() else "another process"
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"The log directory {directory} is in use by {named}: stop it or choose another log.dirs.",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def mutex() -> AbstractContextManager[bool]:
    """Return a mutex for a `with` statement: one thread holds it at a time."""
    return threading.Lock()


def volume_bytes(directory: Path) -> VolumeBytes:
    """Return size and free space of the file system under `directory`."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return VolumeBytes(-1, -1)
    return VolumeBytes(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)
