"""The pipe between files and sockets: it holds a response of a megabyte, and nothing between two turns."""

import errno
import fcntl
import mmap
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.logstore.disk import FileRecords, OsDisk
from ottla.node.net.file_pipe import CAPACITY_BYTES, FilePipe

CONTENT = os.urandom(CAPACITY_BYTES + 50_000)


@pytest.fixture
def pipe() -> Iterator[FilePipe]:
    pipe = FilePipe()
    yield pipe
    pipe.close()


@pytest.fixture
def records(tmp_path: Path) -> FileRecords:
    path = tmp_path / "0.log"
    path.write_bytes(CONTENT)
    return FileRecords(OsDisk().open(path), 0, len(CONTENT))


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    peer.settimeout(10)
    with ours, peer:
        yield ours, peer


def received(peer: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        content += peer.recv(size - len(content))
    return bytes(content)


def is_empty(pipe: FilePipe, records: FileRecords) -> bool:
    """Return True if the pipe takes as much as an empty one does."""
    return pipe.put(records, len(CONTENT)) > pipe.capacity_bytes - 3 * mmap.PAGESIZE


def test_header_and_records_leave_together_in_their_order(
    pipe: FilePipe, records: FileRecords, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, peer = sockets
    taken = [pipe.put(b"header", 6), pipe.put(records, 10_000), pipe.put(memoryview(b"tail"), 4)]

    assert taken == [6, 10_000, 4]
    assert pipe.empty_into(ours.fileno(), is_more=False) == pipe.size_bytes + 10_010
    assert received(peer, 10_010) == b"header" + CONTENT[:10_000] + b"tail"


def test_a_pipe_takes_nearly_a_megabyte_and_then_nothing(pipe: FilePipe, records: FileRecords) -> None:
    pipe.put(b"header", 6)
    taken = pipe.put(records, len(CONTENT))

    assert pipe.capacity_bytes - 3 * mmap.PAGESIZE < taken < pipe.capacity_bytes
    assert pipe.put(records.after(taken), 10_000) == 0
    assert pipe.put(b"x" * 5000, 5000) == 0
    assert pipe.size_bytes == 6 + taken


def test_bytes_that_the_socket_does_not_take_are_dropped(
    pipe: FilePipe, records: FileRecords, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, peer = sockets
    held = pipe.put(records, len(CONTENT))
    sent = pipe.empty_into(ours.fileno(), is_more=True)
    assert 0 < sent < held, "a socket of a few hundred kilobytes"
    pipe.put(b"late", 4)
    assert pipe.empty_into(ours.fileno(), is_more=False) == 0
    assert received(peer, sent) == CONTENT[:sent]

    pipe.put(b"next", 4)

    assert pipe.empty_into(ours.fileno(), is_more=False) == 4
    assert received(peer, 4) == b"next"


def test_a_pipe_is_empty_after_a_peer_that_is_gone(
    pipe: FilePipe, records: FileRecords, sockets: tuple[socket.socket, socket.socket]
) -> None:
    ours, peer = sockets
    peer.close()
    pipe.put(records, 10_000)
    with pytest.raises(BrokenPipeError):
        pipe.empty_into(ours.fileno(), is_more=False)

    assert pipe.size_bytes == 0
    assert is_empty(pipe, records)


def test_a_file_that_ends_too_early_is_an_error(pipe: FilePipe, records: FileRecords) -> None:
    pipe.put(b"header", 6)
    with pytest.raises(OSError, match="the log was truncated"):
        pipe.put(records.after(len(CONTENT) - 1).after(1), 1)

    pipe.drop()

    assert is_empty(pipe, records)


def test_a_user_that_may_have_no_large_pipe_gets_a_small_one(
    records: FileRecords, sockets: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.fcntl", refusing(capacity_bytes=64 * 1024))
    pipe = FilePipe()
    taken = pipe.put(records, len(CONTENT))

    assert 0 < taken <= 64 * 1024
    assert pipe.empty_into(sockets[0].fileno(), is_more=True) == taken
    pipe.close()


def test_a_pipe_that_cannot_be_created_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="too many open pipes"):
        patched.setattr("fcntl.fcntl", refusing(capacity_bytes=2 * mmap.PAGESIZE))
        FilePipe()
    with monkeypatch.context() as patched, pytest.raises(OSError, match="Too many open files"):
        patched.setattr("os.open", refuse)
        FilePipe()

    assert os.listdir("/proc/self/fd") == before


def refuse(*_: object) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def refusing(*, capacity_bytes: int) -> Callable[[int, int, int], int]:
    """Return a `fcntl` that behaves as for a user with many pipes, whose new pipes have this size."""

    def answer(_: int, question: int, argument: int = 0) -> int:
        if question == fcntl.F_SETPIPE_SZ:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return capacity_bytes

    return answer


def test_a_closed_pipe_takes_nothing(pipe: FilePipe) -> None:
    pipe.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        pipe.put(b"into a file that has its number by now", 10)
