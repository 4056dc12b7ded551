"""Records sent from files over real sockets: in pieces, in order, and abandoned if they are incomplete."""

import asyncio
import functools
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from ottla.logstore.disk import FileRecords, MemoryDisk, MemoryFile, OsDisk
from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.net.answers import Answer, Pending, Service
from ottla.node.net.connection import Connection
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.file_pipe import FilePipe
from ottla.node.net.file_sender import CHUNK_BYTES, FileSender
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.receive_windows import ReceiveWindows
from ottla.node.net.send_buffers import SendBuffers
from ottla.node.net.unsent_answers import UnsentAnswers

CONTENT = os.urandom(3 * CHUNK_BYTES + 12_345)
INFO = ConnectionInfo(
    access=Access(ANONYMOUS, "127.0.0.1"),
    number=1,
    connection_id="1",
    listener_name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    client_host="127.0.0.1",
    client_port=50000,
    local_host="127.0.0.1",
    local_port=9092,
)


@dataclass
class SenderAndPeer:
    """A file sender, the peer at the other end of its socket, and the events that the sender reported."""

    sender: FileSender
    peer: socket.socket
    events: list[str] = field(default_factory=list)

    async def read(self, size: int) -> bytes:
        received = bytearray()
        loop = asyncio.get_running_loop()
        while len(received) < size:
            chunk = await asyncio.wait_for(loop.sock_recv(self.peer, 1 << 16), 60)
            assert chunk, f"the sender closed after {len(received)} bytes"
            received += chunk
        return bytes(received)

    async def event(self) -> str:
        async with asyncio.timeout(60):
            while not self.events:
                await asyncio.sleep(0)
        return self.events[0]


def on_a_loop(scene: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on the same kind of event loop as a node."""

    async def until_something_fails(**fixtures: Any) -> None:
        """Run the test until it ends or a callback of the loop fails, after which it would wait for ever."""
        main, failures = asyncio.current_task(), list[BaseException]()

        def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            failures.append(context.get("exception") or RuntimeError(context["message"]))
            assert main is not None
            main.cancel()

        asyncio.get_running_loop().set_exception_handler(fail)
        try:
            await scene(**fixtures)
        except asyncio.CancelledError:
            raise failures[0] from None

    @functools.wraps(scene)
    def run(**fixtures: Any) -> None:
        uvloop.run(until_something_fails(**fixtures))

    return run


@asynccontextmanager
async def sender_and_peer() -> AsyncIterator[SenderAndPeer]:
    ours, peer = socket.socketpair()
    peer.setblocking(False)
    events: list[str] = []
    pipe = FilePipe()
    async with asyncio.TaskGroup() as tasks:
        sender = FileSender(
            os.dup(ours.fileno()),
            pipe=pipe,
            buffers=SendBuffers(8 * 1024),
            loop=asyncio.get_running_loop(),
            start_task=tasks.create_task,
            finished=lambda: events.append("finished"),
            failed=events.append,
        )
        ours.close()
        yield SenderAndPeer(sender, peer, events)
    sender.close()
    peer.close()
    pipe.close()


@pytest.fixture
def records(tmp_path: Path) -> FileRecords:
    path = tmp_path / "0.log"
    path.write_bytes(b"before" + CONTENT + b"after")
    return FileRecords(OsDisk().open(path), 6, len(CONTENT))


@on_a_loop
async def test_records_that_fit_the_socket_are_sent_at_once(records: FileRecords) -> None:
    async with sender_and_peer() as pair:
        part = FileRecords(records.file, 6, 1000)

        assert pair.sender.send([b"header", part, b"", b"between", part])

        assert await pair.read(2013) == b"header" + CONTENT[:1000] + b"between" + CONTENT[:1000]
        assert not pair.events


@on_a_loop
async def test_other_connections_get_a_turn_between_records_but_not_before_a_tail(
    records: FileRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.node.net.file_sender.MAX_BYTES_PER_TURN", 1000)
    async with sender_and_peer() as pair:
        part = FileRecords(records.file, 6, 1000)

        assert pair.sender.send([b"header", part, b"tail"])
        assert not pair.sender.send([b"header", part, b"between", part, b"tail"])

        assert await pair.event() == "finished"
        sent = b"header" + CONTENT[:1000] + b"tail"
        sent += b"header" + CONTENT[:1000] + b"between" + CONTENT[:1000] + b"tail"
        assert await pair.read(len(sent)) == sent


@on_a_loop
async def test_bytes_that_do_not_fit_the_socket_follow_as_the_peer_reads(records: FileRecords) -> None:
    async with sender_and_peer() as pair:
        large = os.urandom(200_000)

        assert not pair.sender.send([b"header", records, large, records, b"tail"])
        assert pair.sender.is_sending

        expected = b"header" + CONTENT + large + CONTENT + b"tail"
        assert await pair.read(len(expected)) == expected
        assert await pair.event() == "finished"
        assert not pair.sender.is_sending
        assert pair.sender.send([b"next"])
        assert pair.events == ["finished"]


@on_a_loop
async def test_a_peer_that_closes_half_way_ends_the_answer(records: FileRecords) -> None:
    async with sender_and_peer() as pair:
        pair.sender.send([records])
        await pair.read(100_000)

        pair.peer.close()

        assert "could not be sent" in await pair.event()
        assert not pair.sender.is_sending


@on_a_loop
async def test_a_response_that_cannot_be_assembled_leaves_nothing_for_the_next_peer(
    records: FileRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise MemoryError

    async with sender_and_peer() as pair:
        with monkeypatch.context() as patched, pytest.raises(MemoryError):
            patched.setattr(type(records.file), "send_to", fail)
            pair.sender.send([b"of one", FileRecords(records.file, 6, 1000)])
        pair.sender._pieces.clear()

        assert pair.sender.send([b"of the next"])

        assert await pair.read(11) == b"of the next"


@on_a_loop
async def test_a_file_that_is_cut_half_way_ends_the_answer(records: FileRecords) -> None:
    async with sender_and_peer() as pair:
        pair.sender.send([records])
        records.file.truncate(500_000)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pair.read(len(CONTENT))

        assert "was truncated" in await pair.event()


@on_a_loop
async def test_records_outside_the_page_cache_are_read_in_a_thread() -> None:
    async with sender_and_peer() as pair:
        disk = MemoryDisk()
        disk.is_sendable = True
        disk.make_directory(Path("/data"))
        file: MemoryFile = disk.open(Path("/data/log"), create=True)
        file.write_at(0, [CONTENT])
        pair.sender.send([b"header", FileRecords(file, 0, len(CONTENT)), b"tail"])

        disk.is_cached = False

        assert await pair.read(len(CONTENT) + 10) == b"header" + CONTENT + b"tail"
        assert await pair.event() == "finished"


@on_a_loop
async def test_records_evicted_before_the_first_byte_are_read_in_a_thread() -> None:
    async with sender_and_peer() as pair:
        disk = MemoryDisk()
        disk.make_directory(Path("/data"))
        file = disk.open(Path("/data/log"), create=True)
        file.write_at(0, [CONTENT])

        assert not pair.sender.send([b"header", FileRecords(file, 0, 1000), b"tail"])

        assert await pair.read(1010) == b"header" + CONTENT[:1000] + b"tail"
        assert await pair.event() == "finished"


@on_a_loop
async def test_a_disk_that_fails_half_way_ends_the_answer() -> None:
    async with sender_and_peer() as pair:
        disk = MemoryDisk()
        disk.is_sendable = True
        disk.make_directory(Path("/data"))
        file = disk.open(Path("/data/log"), create=True)
        file.write_at(0, [CONTENT])
        pair.sender.send([FileRecords(file, 0, len(CONTENT))])
        disk.is_cached, disk.fail_reads = False, True

        await pair.read(10_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pair.read(len(CONTENT))

        assert "could not be sent" in await pair.event()


class OneConnection:
    """A listener reduced to one connection, which answers each frame as the test says."""

    def __init__(self, answer: Callable[[bytes], Answer], tasks: asyncio.TaskGroup) -> None:
        self.loop = asyncio.get_running_loop()
        self.memory = ReceiveMemory()
        self.unsent = UnsentAnswers()
        self.gathered = GatheredAnswers(self.loop)
        self.must_pause = lambda: False
        self.login_gate = None
        self.service = Service(serve=lambda _, frame: answer(bytes(frame)), fail=self._fail)
        self.send_buffers, self.receive_windows = SendBuffers(64 * 1024), ReceiveWindows(0)
        self.max_frame_bytes, self.file_limit, self.tick = 1000, 10_000, 0
        self.tasks, self.pipe = tasks, FilePipe()
        self.connection = Connection(self)  # type: ignore[arg-type]

    def _fail(self, _: Connection, __: memoryview, error: BaseException) -> Answer | Pending:
        raise error

    def open_pipe(self) -> FilePipe:
        return self.pipe

    def start_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        return self.tasks.create_task(work)

    def describe(self, _: Any) -> ConnectionInfo:
        return INFO

    def pace(self, _: Connection, __: Any) -> None: ...
    def admit(self, _: Connection) -> str:
        return ""

    def forget(self, _: Connection) -> None:
        self.pipe.close()

    def log_rejected(self, _: ConnectionInfo, reason: str) -> None: ...


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


@pytest.mark.parametrize("closes", [False, True])
@on_a_loop
async def test_pipelined_answers_keep_their_order(records: FileRecords, closes: bool) -> None:
    def answer(body: bytes) -> Answer:
        if closes and body == b"3":
            server.connection.close()  # as a node that stops: earlier responses are still sent
        return [body, records] if body in b"13" else [body]

    async with asyncio.TaskGroup() as tasks:
        server = OneConnection(answer, tasks)
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: server.connection, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())

        writer.write(b"".join(map(frame, (b"0", b"1", b"2", b"3", b"4"))))

        expected = b"01" + CONTENT + b"23" + CONTENT + b"4"
        if closes:
            expected = b"01" + CONTENT + b"2"
        async with asyncio.timeout(60):
            assert await reader.readexactly(len(expected)) == expected
        writer.close()
        listening.close()


@on_a_loop
async def test_a_connection_closes_when_its_last_file_is_sent(records: FileRecords) -> None:
    async with asyncio.TaskGroup() as tasks:
        server = OneConnection(lambda body: [body, records], tasks)
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: server.connection, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(frame(b"1"))
        async with asyncio.timeout(60):
            assert await reader.readexactly(1) == b"1"

            server.connection.close()

            assert await reader.read() == CONTENT
        writer.close()
        listening.close()
