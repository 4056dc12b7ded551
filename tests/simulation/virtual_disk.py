"""A disk that keeps what is durable when the power fails, and a random part of the rest.

A write is in the page cache at once, where a killed process leaves it. It is durable after `sync` of its
file. When the power fails, each page written since then is durable or lost, at random. In a file that grew,
lost pages are zeros; if a truncation is lost, so are all later writes. Changes of names (create, rename,
remove) are in a journal, of which a prefix survives. `sync_directory` makes the journal durable, and so does
the sync of any file if `names_follow_files` is set, as on most file systems.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ottla.logstore.file_identity import FileIdentity
from ottla.logstore.words.varint import ByteSource
from tests.simulation.virtual_loop import Process

PAGE_BYTES: Final = 4096
MAX_JOURNAL: Final = 4_096  # changes of names; beyond it the older half becomes durable without a sync


class _Inode:
    """The content of a file, with the changes since it was last durable."""

    __slots__ = ("changes", "content", "modified_ms", "number")

    def __init__(self, content: bytes, modified_ms: int, number: int = 0) -> None:
        self.number = number  # the identity of a file that contains its own identity
        self.content = bytearray(content)
        self.modified_ms = modified_ms
        # (position, new bytes, old bytes, old size); a truncation has None and the bytes that it cut off.
        self.changes: list[tuple[int, bytes | None, bytes, int]] = []


_Entry = _Inode | None  # None is a directory


class VirtualStorage:
    """The content of a host's disk, which survives the host's processes."""

    def __init__(self, chance: random.Random, *, now_ms: Callable[[], int]) -> None:
        self.chance = chance
        self.now_ms = now_ms
        self.names_follow_files = chance.random() < 0.5
        self.directories: dict[str, dict[str, _Entry]] = {"/": {}}
        self.journal: list[Callable[[], None]] = []  # functions that undo the changes of names
        self.boots = 1
        self.named = 0  # files written that contain their own identity
        # Called before each change with its kind and path; may raise OSError or end the process.
        self.before: Callable[[str, str], None] = lambda kind, path: None
        self.sync_seconds: Callable[[], float] = lambda: 0.0
        self.trace: Callable[[str, str], None] = lambda kind, detail: None

    def step(self, kind: str, path: str) -> None:
        self.before(kind, path)
        self.trace(kind, path)

    # ---- names ---------------------------------------------------------------------------------------

    def find(self, path: str) -> _Inode:
        parent, _, name = path.rpartition("/")
        entries = self.directories.get(parent or "/")
        inode = entries.get(name) if entries is not None else None
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def entries(self, path: str) -> dict[str, _Entry]:
        found = self.directories.get(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def put(self, path: str, inode: _Inode) -> None:
        """Give a file a name, in place of the file that had it."""
        parent, _, name = path.rpartition("/")
        entries = self.entries(parent or "/")
        before = entries.get(name)
        was_there = name in entries
        entries[name] = inode

        def undo() -> None:
            if was_there:
                entries[name] = before
            else:
                entries.pop(name, None)

        self._note(undo)

    def drop(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        entries = self.entries(parent or "/")
        inode = entries.pop(name)
        self._note(lambda: entries.__setitem__(name, inode))

    def move_file(self, source: str, target: str) -> None:
        self.put(target, self.find(source))
        undo_put = self.journal.pop()
        self.drop(source)
        undo_drop = self.journal.pop()

        def undo() -> None:
            undo_drop()
            undo_put()

        self._note(undo)

    def make_directory(self, path: str) -> None:
        if path in self.directories:
            return
        parent, _, name = path.rpartition("/")
        self.make_directory(parent or "/")
        above = self.directories[parent or "/"]
        above[name] = None
        self.directories[path] = {}

        def undo() -> None:
            above.pop(name, None)
            self.directories.pop(path, None)

        self._note(undo)

    def move_directory(self, source: str, target: str) -> None:
        if self.directories.get(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        self._move(source, target)
        self._note(lambda: self._move(target, source))

    def _move(self, source: str, target: str) -> None:
        prefix = source + "/"
        for path in [one for one in self.directories if one == source or one.startswith(prefix)]:
            self.directories[target + path[len(source) :]] = self.directories.pop(path)
        parent, _, name = source.rpartition("/")
        self.directories[parent or "/"].pop(name, None)
        parent, _, name = target.rpartition("/")
        self.entries(parent or "/")[name] = None

    def remove_tree(self, path: str) -> None:
        prefix = path + "/"
        gone = {
            one: self.directories[one] for one in self.directories if one == path or one.startswith(prefix)
        }
        if not gone:
            return
        parent, _, name = path.rpartition("/")
        above = self.entries(parent or "/")
        for one in gone:
            del self.directories[one]
        above.pop(name, None)

        def undo() -> None:
            self.directories.update(gone)
            above[name] = None

        self._note(undo)

    def _note(self, undo: Callable[[], None]) -> None:
        self.journal.append(undo)
        if len(self.journal) > MAX_JOURNAL:
            del self.journal[: MAX_JOURNAL // 2]

    # ---- power ---------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Lose a random part of what is not durable."""
        chance = self.chance
        self.boots += 1
        keep = chance.choice((0, len(self.journal), chance.randint(0, len(self.journal))))
        while len(self.journal) > keep:
            self.journal.pop()()
        self.journal.clear()
        keep_chance = chance.choice((0.0, 0.0, 0.5, 0.9, 1.0))
        for directory in sorted(self.directories):
            for name in sorted(self.directories[directory]):
                inode = self.directories[directory][name]
                if inode is not None and inode.changes:
                    _forget(inode, chance, keep_chance)

    def lose_everything(self) -> None:
        """Replace the disk by an empty one."""
        self.directories = {"/": {}}
        self.journal.clear()


def _forget(inode: _Inode, chance: random.Random, keep_chance: float) -> None:
    """Undo all changes that are not durable, then redo some at random."""
    changes, inode.changes = inode.changes, []
    content = inode.content
    for position, new, old, old_size in reversed(changes):
        if new is None:
            content += old
        else:
            del content[old_size:]
            content[position : position + len(old)] = old
    for position, new, _, _ in changes:
        if new is None:
            if chance.random() >= keep_chance:
                return  # later writes went to pages that are lost
            del content[position:]
            continue
        start = position
        while start < position + len(new):
            end = min(position + len(new), (start // PAGE_BYTES + 1) * PAGE_BYTES)
            if chance.random() < keep_chance:
                # A torn page has new bytes in front and old bytes behind.
                torn = end if chance.random() < 0.8 else chance.randint(start, end)
                if start > len(content):
                    content += bytes(start - len(content))
                content[start:torn] = new[start - position : torn - position]
            start = end


class VirtualFile:
    """An open file, which stays the same when its name is changed or removed."""

    __slots__ = ("__weakref__", "_disk", "_inode", "_path")

    def __init__(self, disk: "VirtualDisk", path: str, inode: _Inode) -> None:
        self._disk, self._path, self._inode = disk, path, inode

    def size(self) -> int:
        return len(self._inode.content)

    def modified_ms(self) -> int:
        return self._inode.modified_ms

    def identity(self) -> tuple[int, int]:
        return id(self._disk), id(self._inode)

    def write_at(self, position: int, buffers: Sequence[ByteSource]) -> None:
        new = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
        try:
            self._disk.step("write", self._path)
        except OSError as error:
            if error.errno in (errno.EIO, errno.ENOSPC) and new:
                self._put(position, new[: self._disk.storage.chance.randrange(len(new))])
            raise
        self._put(position, new)

    def _put(self, position: int, new: bytes) -> None:
        inode = self._inode
        content = inode.content
        size = len(content)
        if position > size:
            content += bytes(position - size)
        inode.changes.append((position, new, bytes(content[position : position + len(new)]), size))
        content[position : position + len(new)] = new
        inode.modified_ms = self._disk.storage.now_ms()

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.check_alive(self._path)
        return bytes(self._inode.content[position : position + size])

    def read_at_cached(self, position: int, size: int) -> bytes | None:
        # Some reads have to wait for the disk, and then go through a thread.
        if self._disk.storage.chance.random() < 0.02:
            return None
        content = self.read_at(position, size)
        return content if len(content) == size else None

    def can_send(self, position: int, size: int) -> bool:
        return position + size <= self.size() and self._disk.storage.chance.random() < 0.5

    def send_to(self, socket_number: int, position: int, size: int) -> int:
        raise OSError(errno.EINVAL, "virtual sockets have no numbers")

    def truncate(self, size: int) -> None:
        self._disk.step("truncate", self._path)
        content = self._inode.content
        if size < len(content):
            self._inode.changes.append((size, None, bytes(content[size:]), len(content)))
            del content[size:]
        elif size > len(content):
            self._put(size, b"")

    def preallocate(self, size: int) -> None:
        if size > self.size():
            self.truncate(size)

    def allocate(self, position: int, size: int) -> None: ...

    def reaches_beyond(self, size: int) -> bool:
        return self.size() > size

    def sync(self) -> None:
        self._disk.step("sync", self._path)
        self._inode.changes.clear()
        if self._disk.storage.names_follow_files:
            self._disk.storage.journal.clear()
        self._disk.wait_for_platter()


class VirtualDisk:
    """The disk as one process sees it; every operation fails once the process is dead."""

    def __init__(
        self,
        storage: VirtualStorage,
        process: Process,
        wait: Callable[[Process, float], None] = lambda process, seconds: None,
    ) -> None:
        """Create the disk; `wait` is called with the seconds for which the process has to wait for a sync."""
        self.storage = storage
        self._wait = wait
        self._process = process

    def page_cache_id(self) -> bytes:
        return self.storage.boots.to_bytes(16)

    def is_behind(self) -> bool:
        return False

    def step(self, kind: str, path: str) -> None:
        self.check_alive(path)
        self.storage.step(kind, path)
        if self._process.is_dead:
            raise OSError(errno.ESHUTDOWN, "this process has just died", path)

    def check_alive(self, path: str) -> None:
        """Raise OSError if the process is dead."""
        if self._process.is_dead:
            raise OSError(errno.ESHUTDOWN, "this process is dead", path)

    def wait_for_platter(self) -> None:
        seconds = self.storage.sync_seconds()
        if seconds:
            self._wait(self._process, seconds)

    def open(self, path: Path, *, create: bool = False, is_private: bool = False) -> VirtualFile:
        name = str(path)
        try:
            return VirtualFile(self, name, self.storage.find(name))
        except FileNotFoundError:
            if not create:
                raise
        self.storage.entries(str(path.parent))
        self.step("create", name)
        inode = _Inode(b"", self.storage.now_ms())
        self.storage.put(name, inode)
        return VirtualFile(self, name, inode)

    def open_to_read(self, path: Path) -> VirtualFile:
        return self.open(path)

    def forget(self, path: Path) -> None:
        pass

    def exists(self, path: Path) -> bool:
        self.check_alive(str(path))
        name = str(path)
        if name in self.storage.directories:
            return True
        parent, _, last = name.rpartition("/")
        return last in self.storage.directories.get(parent or "/", ())

    def file_size(self, path: Path) -> int:
        return len(self.storage.find(str(path)).content)

    def read_file(self, path: Path) -> bytes:
        self.check_alive(str(path))
        return bytes(self.storage.find(str(path)).content)

    def write_file_that_names_itself(self, path: Path, content_of: Callable[[FileIdentity], bytes]) -> None:
        self.storage.named += 1
        number = self.storage.named
        self._replace(path, content_of(FileIdentity(number, 0)), sync=True, number=number)

    def identity_of(self, path: Path) -> FileIdentity:
        return FileIdentity(self.storage.find(str(path)).number, 0)

    def write_file(self, path: Path, content: ByteSource, *, sync: bool) -> None:
        self._replace(path, content, sync=sync)

    def _replace(self, path: Path, content: ByteSource, *, sync: bool, number: int = 0) -> None:
        name = str(path)
        self.storage.entries(str(path.parent))
        self.step("replace", name)
        # A file system in ordered mode writes the bytes of a file before the rename that puts it in place.
        self.storage.put(name, _Inode(bytes(content), self.storage.now_ms(), number))
        if sync:
            self.sync_directory(path.parent)

    def list_directory(self, path: Path) -> list[str]:
        self.check_alive(str(path))
        return sorted(name for name, inode in self.storage.entries(str(path)).items() if inode is not None)

    def list_directories(self, path: Path) -> list[str]:
        self.check_alive(str(path))
        return sorted(name for name, inode in self.storage.entries(str(path)).items() if inode is None)

    def close_to_others(self, path: Path) -> None:
        pass

    def make_directory(self, path: Path, *, is_private: bool = False) -> None:
        if str(path) not in self.storage.directories:
            self.step("mkdir", str(path))
            self.storage.make_directory(str(path))

    def remove_directory(self, path: Path) -> None:
        self.step("rmdir", str(path))
        self.storage.remove_tree(str(path))

    def rename(self, source: Path, target: Path) -> None:
        self.step("rename", str(source))
        if str(source) in self.storage.directories:
            self.storage.move_directory(str(source), str(target))
            return
        self.storage.move_file(str(source), str(target))

    def remove(self, path: Path) -> None:
        try:
            self.storage.find(str(path))
        except FileNotFoundError:
            return
        self.step("remove", str(path))
        self.storage.drop(str(path))

    def sync_directory(self, path: Path) -> None:
        self.storage.entries(str(path))
        self.step("sync", str(path))
        self.storage.journal.clear()
        self.wait_for_platter()
