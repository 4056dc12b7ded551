"""The door to files: the interface that the log needs of a disk, and its implementations.

`OsDisk` is the operating system's; `MemoryDisk` is in memory and fails on demand. Both raise `OSError`, which
the log turns into KAFKA_STORAGE_ERROR. An `OsFile` closes its descriptor when the last reference to it goes.
So a thread that still reads a segment, after it was dropped from the cache or deleted, reads that segment and
never another file that got the same descriptor number.
"""

import errno
import os
import shutil
import stat
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ottla.logstore import file_space
from ottla.logstore.dirty_pages import DirtyPages
from ottla.logstore.file_identity import FileIdentity, identity_of
from ottla.logstore.page_cache import is_cached
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.logstore.words.varint import ByteSource

# Descriptors kept open for reading closed segments and their indexes, for all logs of a process together.
# With one more for each partition's active segment, 10,000 partitions stay below the usual limit of 20,000.
MAX_CACHED_FILES: Final = 512
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# Checkpoints, indexes and snapshots are read whole; the largest legal one is an index of 2 GiB.
MAX_WHOLE_FILE_BYTES: Final = 2**31 - 1
# A range found in the page cache is assumed to stay there for this long: the look-up is made when a response
# is built, again when it is sent, and for each of the pieces in which a peer reads it.
CACHED_FOR_S: Final = 0.1
# The range to look up at once when one reader goes through a file, as it will read the bytes ahead next.
CACHED_AHEAD_BYTES: Final = 4 * 1024 * 1024
_TEMPORARY_SUFFIX = ".tmp"
# The mode of the metadata files, which hold the credentials of users and nodes. Log segments get the mode
# that the umask leaves, as in Kafka; their directory is private if the node itself made it.
PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
_FILES_OF_A_DISK: Final = 1_000_000_000  # the most files that a `MemoryDisk` can have


class DiskFile(Protocol):
    """An open file. Positions and sizes are bytes; every method may raise OSError."""

    def size(self) -> int: ...

    def modified_ms(self) -> int: ...

    def identity(self) -> tuple[int, int]:
        """Return a value that is equal for two open files exactly if they are the same file."""

    def write_at(self, position: int, buffers: Sequence[ByteSource]) -> None:
        """Write all of `buffers`, one after the other; after an error any part may have been written."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes, or fewer if the file ends before."""

    def read_at_cached(self, position: int, size: int) -> bytes | bytearray | None:
        """Return the bytes of `read_at`, or None if that would have to wait for the disk."""

    def can_send(self, position: int, size: int) -> bool:
        """Return True if `send_to` is possible, and would not have to wait for the disk."""

    def send_to(self, number: int, position: int, size: int) -> int:
        """Send bytes uncopied to a non-blocking pipe or socket (a file descriptor); return how many.

        The result is 0 at the end of the file. BlockingIOError if the descriptor takes none.
        """

    def truncate(self, size: int) -> None: ...

    def preallocate(self, size: int) -> None: ...

    def allocate(self, position: int, size: int) -> None:
        """Allocate space for a range that is written soon, if the file system can; keep the file's size."""

    def reaches_beyond(self, size: int) -> bool:
        """Return True if truncating to `size` bytes would free any space."""

    def sync(self) -> None: ...


class Disk(Protocol):
    """The file operations of the log; every method may raise OSError. Missing files are FileNotFoundError."""

    def open(self, path: Path, *, create: bool = False, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; create a private one readable by its owner alone."""

    def open_to_read(self, path: Path) -> DiskFile:
        """Open a file for reading, through a cache of the files used last."""

    def forget(self, path: Path) -> None:
        """Drop `path` from the cache of open files, before it is renamed, replaced or removed."""

    def exists(self, path: Path) -> bool: ...

    def file_size(self, path: Path) -> int: ...

    def read_file(self, path: Path) -> bytes: ...

    def write_file(self, path: Path, content: ByteSource, *, sync: bool) -> None:
        """Replace the file as a whole; a crash leaves the old content or the new."""

    def write_file_that_names_itself(self, path: Path, content_of: Callable[[FileIdentity], bytes]) -> None:
        """Replace the file, durably, by a new private file that holds `content_of` its own identity."""

    def identity_of(self, path: Path) -> FileIdentity:
        """Return the identity of the file, which a copy of it does not have."""

    def list_directory(self, path: Path) -> list[str]:
        """Return the names of the plain files in a directory, sorted."""

    def list_directories(self, path: Path) -> list[str]:
        """Return the names of the directories in a directory, sorted."""

    def make_directory(self, path: Path, *, is_private: bool = False) -> None:
        """Create a directory with its parents, unless it exists; only its owner can use a private one."""

    def close_to_others(self, path: Path) -> None:
        """Restrict a directory to its owner, if this process runs as the owner."""

    def remove_directory(self, path: Path) -> None:
        """Remove a directory with its content, if it exists."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or a directory; replace a file at `target`."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""

    def page_cache_id(self) -> bytes:
        """Return a 16-byte id of the page cache's current contents, or zeros if none can be determined.

        As long as the id is the same, no write was lost, synced or not: the kernel has not been restarted.
        """

    def is_behind(self) -> bool:
        """Return True if so much is unwritten that large writers should wait before writes block."""


class OsFile:
    """A file of the operating system."""

    __slots__ = ("__weakref__", "_cached", "_can_allocate", "_dirty_pages", "_fd", "_has_nowait")

    def __init__(self, fd: int, dirty_pages: DirtyPages) -> None:
        self._fd = fd
        self._dirty_pages = dirty_pages
        # A range that was found in the page cache: start, end, and the time until which the finding is used.
        self._cached = (0, 0, 0.0)
        self._has_nowait = hasattr(os, "RWF_NOWAIT")
        self._can_allocate = True

    def __del__(self) -> None:
        os.close(self._fd)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def modified_ms(self) -> int:
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def identity(self) -> tuple[int, int]:
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    def write_at(self, position: int, buffers: Sequence[ByteSource]) -> None:
        if len(buffers) == 1:  # the usual case: a fifth cheaper than pwritev
            written = os.pwrite(self._fd, buffers[0], position)
            missing = len(buffers[0]) - written
        else:
            written = os.pwritev(self._fd, buffers, position)
            missing = sum(map(len, buffers)) - written
        if missing:
            self._write_rest(position + written, b"".join(buffers)[written:])

    def _write_rest(self, position: int, rest: bytes) -> None:
        view = memoryview(rest)
        while view:
            written = os.pwrite(self._fd, view, position)
            if written == 0:
                raise OSError(errno.EIO, "a write made no progress")
            view, position = view[written:], position + written

    def read_at(self, position: int, size: int) -> bytes:
        content = os.pread(self._fd, size, position)
        if len(content) == size:
            return content
        chunks = [content]
        missing = size - len(content)
        while content and missing:
            content = os.pread(self._fd, missing, position + size - missing)
            chunks.append(content)
            missing -= len(content)
        return b"".join(chunks)

    def read_at_cached(self, position: int, size: int) -> bytes | bytearray | None:
        if not self._has_nowait:
            return self.read_at(position, size)
        content = bytearray(size)
        try:
            count = os.preadv(self._fd, (content,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            # This file system does not support it (overlay, network), so the read has to wait for the disk.
            self._has_nowait = False
            return self.read_at(position, size)
        if count == size:
            return content
        # A short read: the file ends, or the rest is not in memory. Only a read that may wait finds out.
        return None

    def can_send(self, position: int, size: int) -> bool:
        start, end, until_s = self._cached
        now_s = time.monotonic()
        if start <= position and position + size <= end and now_s < until_s:
            return True
        # Look ahead for a sequential reader only: readers in turns would overwrite each other's range.
        ahead = min(CACHED_AHEAD_BYTES, self.size() - position) if start <= position <= end else 0
        if ahead > size and is_cached(self._fd, position, ahead):
            size = ahead
        elif not is_cached(self._fd, position, size):
            return False
        self._cached = (position, position + size, now_s + CACHED_FOR_S)
        return True

    def send_to(self, number: int, position: int, size: int) -> int:
        return os.sendfile(number, self._fd, position, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def preallocate(self, size: int) -> None:
        os.posix_fallocate(self._fd, 0, size)

    def allocate(self, position: int, size: int) -> None:
        # If the disk is full, the write itself will fail. While the disk is busy, allocating much space waits
        # longer than a write that allocates its own blocks.
        if self._can_allocate and not self._dirty_pages.is_writing_back():
            self._can_allocate = file_space.allocate(self._fd, position, size)

    def reaches_beyond(self, size: int) -> bool:
        return file_space.reaches_beyond(os.fstat(self._fd), size)

    def sync(self) -> None:
        os.fdatasync(self._fd)


class OsDisk:
    """The operating system's files."""

    def __init__(self, *, max_cached_files: int = MAX_CACHED_FILES) -> None:
        self._cached: OrderedDict[str, OsFile] = OrderedDict()
        self._max_cached_files = max_cached_files
        self._dirty_pages = DirtyPages()
        # The event loop and the threads that clean and read share the cache.
        self._lock = threading.RLock()

    def page_cache_id(self) -> bytes:
        # The kernel makes a new boot id at each boot (random(4)). Containers share it with their host, as
        # they share the page cache.
        try:
            return uuid.UUID(BOOT_ID.read_text().strip()).bytes
        except (OSError, ValueError):
            return ZERO_UUID

    def is_behind(self) -> bool:
        return self._dirty_pages.must_pause()

    def _open(self, path: Path, flags: int, mode: int = 0o644) -> OsFile:
        try:
            return OsFile(os.open(path, flags | os.O_CLOEXEC, mode), self._dirty_pages)
        except OSError as error:
            if error.errno != errno.EMFILE or not self._cached:
                raise
        # No descriptor is left. Cached files can be reopened; the one to open may be an active segment.
        with self._lock:
            self._cached.clear()
        return OsFile(os.open(path, flags | os.O_CLOEXEC, mode), self._dirty_pages)

    def open(self, path: Path, *, create: bool = False, is_private: bool = False) -> OsFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return self._open(path, flags, PRIVATE_FILE) if is_private else self._open(path, flags)

    def open_to_read(self, path: Path) -> OsFile:
        key = str(path)
        with self._lock:
            file = self._cached.get(key)
            if file is None:
                file = self._cached[key] = self._open(path, os.O_RDONLY)
                if len(self._cached) > self._max_cached_files:
                    self._cached.popitem(last=False)
            else:
                self._cached.move_to_end(key)
            return file

    def forget(self, path: Path) -> None:
        with self._lock:
            self._cached.pop(str(path), None)

    def _forget_below(self, directory: Path) -> None:
        prefix = f"{directory}/"
        with self._lock:
            for key in [key for key in self._cached if key.startswith(prefix)]:
                del self._cached[key]

    def exists(self, path: Path) -> bool:
        return path.exists()

    def file_size(self, path: Path) -> int:
        return path.stat().st_size

    def read_file(self, path: Path) -> bytes:
        with path.open("rb") as file:
            return file.read(MAX_WHOLE_FILE_BYTES)

    def write_file(self, path: Path, content: ByteSource, *, sync: bool) -> None:
        temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        file = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        file.write_at(0, (content,))
        if sync:
            file.sync()
        temporary.replace(path)
        self.forget(path)
        if sync:
            self.sync_directory(path.parent)

    def write_file_that_names_itself(self, path: Path, content_of: Callable[[FileIdentity], bytes]) -> None:
        temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        # Remove the leftover of a crash: a file that is opened again keeps its old birth time.
        temporary.unlink(missing_ok=True)
        file = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        file.write_at(0, (content_of(identity_of(file._fd)),))
        file.sync()
        temporary.replace(path)
        self.forget(path)
        self.sync_directory(path.parent)

    def identity_of(self, path: Path) -> FileIdentity:
        file = self._open(path, os.O_RDONLY)
        return identity_of(file._fd)

    def list_directory(self, path: Path) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())

    def list_directories(self, path: Path) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def make_directory(self, path: Path, *, is_private: bool = False) -> None:
        path.mkdir(PRIVATE_DIRECTORY if is_private else 0o777, parents=True, exist_ok=True)

    def close_to_others(self, path: Path) -> None:
        # A volume may belong to another user, who gave access to our group on purpose.
        status = path.stat()
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != PRIVATE_DIRECTORY:
            path.chmod(PRIVATE_DIRECTORY)

    def remove_directory(self, path: Path) -> None:
        self._forget_below(path)
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass

    def rename(self, source: Path, target: Path) -> None:
        self.forget(source)
        self.forget(target)
        source.replace(target)
        self._forget_below(source)

    def remove(self, path: Path) -> None:
        self.forget(path)
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        directory = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory._fd)  # fdatasync is not required to write names


@dataclass(slots=True)
class _Inode:
    content: bytearray
    synced: bytes
    modified_ms: int
    allocated_bytes: int = 0  # the end of the space that was requested
    number: int = 0  # unique on its disk


class MemoryFile:
    """An open file of a `MemoryDisk`."""

    def __init__(self, disk: "MemoryDisk", path: Path, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.content)

    def modified_ms(self) -> int:
        return self._inode.modified_ms

    def identity(self) -> tuple[int, int]:
        return 0, id(self._inode)

    def write_at(self, position: int, buffers: Sequence[ByteSource]) -> None:
        content = b"".join(buffers)
        try:
            self._disk.step("write", self._path)
        except OSError:
            self._put(position, content[: self._disk.torn_bytes])
            raise
        self._put(position, content)

    def _put(self, position: int, content: bytes) -> None:
        target = self._inode.content
        if position > len(target):
            target += bytes(position - len(target))
        target[position : position + len(content)] = content
        self._inode.modified_ms = self._disk.now_ms

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.step("read", self._path)
        return bytes(self._inode.content[position : position + size])

    def read_at_cached(self, position: int, size: int) -> bytes | None:
        content = self.read_at(position, size)
        return content if self._disk.is_cached and len(content) == size else None

    def can_send(self, position: int, size: int) -> bool:
        return self._disk.is_sendable and self._disk.is_cached and position + size <= self.size()

    def send_to(self, number: int, position: int, size: int) -> int:
        return os.write(number, self.read_at(position, size))

    def truncate(self, size: int) -> None:
        self._disk.step("truncate", self._path)
        del self._inode.content[size:]
        # A file system's journal makes sizes durable in order; this one does so at once.
        self._inode.synced = self._inode.synced[:size]
        self._inode.allocated_bytes = 0
        if size > len(self._inode.content):
            self._inode.content += bytes(size - len(self._inode.content))

    def preallocate(self, size: int) -> None:
        if size > self.size():
            self.truncate(size)

    def allocate(self, position: int, size: int) -> None:
        self._inode.allocated_bytes = max(self._inode.allocated_bytes, position + size)

    def reaches_beyond(self, size: int) -> bool:
        return max(self.size(), self._inode.allocated_bytes) > size

    def sync(self) -> None:
        self._disk.step("sync", self._path)
        self._inode.synced = bytes(self._inode.content)


class MemoryDisk:
    """A disk in dictionaries for tests, which can fail at any step and lose unsynced writes.

    `step` is called before each operation, and counts in `steps` the operations that change something.
    `fail_at` is the number of the step that raises `error`; with `stays_broken` all later steps raise it too.
    A write that fails leaves its first `torn_bytes` bytes behind. Names are durable at once, as on a
    journalling file system; contents only after `sync`.
    """

    def __init__(self) -> None:
        self.files: dict[Path, _Inode] = {}
        self.directories: set[Path] = set()
        self.now_ms = 0
        self.is_cached = True
        self.is_sendable = False  # most tests read the bytes of a slice
        self.steps = 0
        self.fail_at: int | None = None
        self.error = errno.EIO
        self.stays_broken = False
        self.fail_reads = False
        self.torn_bytes = 0
        self.watch: Callable[[str, Path], None] | None = None
        self.page_cache = 1  # increased at each loss of power
        self.device = 1  # a copy on another disk has another number
        self._inodes = 0  # the number of files created so far

    def step(self, operation: str, path: Path) -> None:
        """Count an operation, and raise the error if this is the step that is to fail."""
        if self.watch is not None:
            self.watch(operation, path)
        if operation == "read":
            if self.fail_reads:
                raise OSError(self.error, os.strerror(self.error), str(path))
            return
        self.steps += 1
        if self.fail_at is not None and (
            self.steps == self.fail_at or (self.stays_broken and self.steps > self.fail_at)
        ):
            raise OSError(self.error, os.strerror(self.error), str(path))

    def lose_power(self, *, keep_bytes: Callable[[Path, int], int] = lambda _path, _unsynced: 0) -> None:
        """Lose the unsynced writes, except the first `keep_bytes(path, unsynced)` bytes appended."""
        for path, inode in self.files.items():
            if inode.content.startswith(inode.synced):
                unsynced = len(inode.content) - len(inode.synced)
                del inode.content[len(inode.synced) + keep_bytes(path, unsynced) :]
            else:
                inode.content[:] = inode.synced
            inode.synced = bytes(inode.content)

        self.page_cache += 1

    def is_behind(self) -> bool:
        return False

    def page_cache_id(self) -> bytes:
        return self.page_cache.to_bytes(16)

    def repair(self) -> None:
        """Let the disk work again."""
        self.fail_at = None
        self.fail_reads = False

    def open(self, path: Path, *, create: bool = False, is_private: bool = False) -> MemoryFile:
        inode = self.files.get(path)
        if inode is None:
            if not create or path.parent not in self.directories:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self.step("create", path)
            inode = self.files[path] = self._new_inode(b"")
        return MemoryFile(self, path, inode)

    def open_to_read(self, path: Path) -> MemoryFile:
        return self.open(path)

    def forget(self, path: Path) -> None:
        pass

    def exists(self, path: Path) -> bool:
        return path in self.files or path in self.directories

    def file_size(self, path: Path) -> int:
        return self.open(path).size()

    def read_file(self, path: Path) -> bytes:
        file = self.open(path)
        return file.read_at(0, file.size())

    def write_file(self, path: Path, content: ByteSource, *, sync: bool) -> None:
        if path.parent not in self.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self.step("write", path)
        # Even without sync, journalling file systems write the data before the rename that replaces a file.
        self.files[path] = self._new_inode(content)

    def _new_inode(self, content: ByteSource) -> _Inode:
        self._inodes += 1
        return _Inode(bytearray(content), bytes(content), self.now_ms, number=self._inodes)

    def write_file_that_names_itself(self, path: Path, content_of: Callable[[FileIdentity], bytes]) -> None:
        own = FileIdentity(self.device * _FILES_OF_A_DISK + self._inodes + 1, 0)
        self.write_file(path, content_of(own), sync=True)

    def identity_of(self, path: Path) -> FileIdentity:
        self.open(path)
        return FileIdentity(self.device * _FILES_OF_A_DISK + self.files[path].number, 0)

    def copy(self, device: int | None = None) -> "MemoryDisk":
        """Return a copy of the synced content: of the files on another device, or (None) of the volume."""
        other = MemoryDisk()
        other.directories = set(self.directories)
        other.device, other._inodes = device or self.device, self._inodes
        for path, inode in self.files.items():
            other.files[path] = _Inode(
                bytearray(inode.synced), inode.synced, inode.modified_ms, number=inode.number
            )
        return other

    def list_directory(self, path: Path) -> list[str]:
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return sorted(file.name for file in self.files if file.parent == path)

    def list_directories(self, path: Path) -> list[str]:
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return sorted(one.name for one in self.directories if one.parent == path and one != path)

    def make_directory(self, path: Path, *, is_private: bool = False) -> None:
        self.step("mkdir", path)
        self.directories |= {path, *path.parents}

    def close_to_others(self, path: Path) -> None:
        pass

    def remove_directory(self, path: Path) -> None:
        self.step("remove", path)
        self.directories = {one for one in self.directories if one != path and path not in one.parents}
        self.files = {one: inode for one, inode in self.files.items() if path not in one.parents}

    def rename(self, source: Path, target: Path) -> None:
        self.step("rename", source)
        if source in self.directories:
            moved = {one for one in self.directories if one == source or source in one.parents}
            self.directories = (self.directories - moved) | {
                target / one.relative_to(source) for one in moved
            }
            for path in [one for one in self.files if source in one.parents]:
                self.files[target / path.relative_to(source)] = self.files.pop(path)
        elif source in self.files:
            self.files[target] = self.files.pop(source)
        else:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))

    def remove(self, path: Path) -> None:
        self.step("remove", path)
        self.files.pop(path, None)

    def sync_directory(self, path: Path) -> None:
        self.step("sync", path)


@dataclass(slots=True)
class FileRecords:
    """Records to send to a socket directly from their file; in a response they stand for their bytes."""

    file: DiskFile
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def after(self, count: int) -> "FileRecords":
        """Return the rest after `count` bytes have been sent."""
        return FileRecords(self.file, self.position + count, self.size - count)

    def read(self) -> bytes:
        """Return all the bytes; OSError if the file has become shorter."""
        content = self.file.read_at(self.position, self.size)
        if len(content) != self.size:
            raise OSError(errno.EIO, "a log was truncated while it was sent")
        return content


class FileSlice(NamedTuple):
    """A range of bytes of a segment, to be read when the response is written; it keeps its file open.

    `read_cached` never waits for the disk; if it returns None, call `read`, which may wait, in a thread.
    """

    file: DiskFile | None
    position: int
    size: int

    def read_cached(self) -> bytes | bytearray | None:
        """Return the bytes, or None if not all of them are in the page cache."""
        if self.file is None or self.size == 0:
            return b""
        return self.file.read_at_cached(self.position, self.size)

    def to_send(self) -> FileRecords | None:
        """Return the range, to be sent from its file; None if it is not cached or the disk cannot send."""
        if self.file is None or self.size == 0 or not self.file.can_send(self.position, self.size):
            return None
        return FileRecords(self.file, self.position, self.size)

    def read(self) -> bytes:
        """Return the bytes; fewer than `size` only if the log was truncated meanwhile."""
        if self.file is None:
            return b""
        return self.file.read_at(self.position, self.size)


EMPTY_SLICE: Final = FileSlice(file=None, position=0, size=0)
