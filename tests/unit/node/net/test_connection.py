"""A connection without a socket: a fake transport records what is sent, and the test plays the event loop."""

import asyncio
import gc
import os
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from ottla.logstore.disk import FileRecords
from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.kafka_api.request_context import ConnectionInfo
from ottla.node.net import connection as module
from ottla.node.net import file_answers, read_turn, receive_buffer
from ottla.node.net.answers import Answer, CloseConnection, Pending, Service
from ottla.node.net.connection import Connection
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.ordered_answers import MAX_ORDERED
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.receive_windows import WIDENING_FRAME_BYTES, ReceiveWindows
from ottla.node.net.send_buffers import SendBuffers
from ottla.node.net.unsent_answers import UnsentAnswers

INFO = ConnectionInfo(
    access=Access(ANONYMOUS, "127.0.0.1"),
    number=1,
    connection_id="127.0.0.1:9092-127.0.0.1:50000-1",
    listener_name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    client_host="127.0.0.1",
    client_port=50000,
    local_host="127.0.0.1",
    local_port=9092,
)


class FakeTransport:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.writes = 0
        self.is_reading = True
        self.is_closed = False
        self.socket: socket.socket | None = None

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self.socket if name == "socket" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.writelines([data])

    def writelines(self, buffers: list[bytes]) -> None:
        self.writes += 1
        self.sent += [bytes(buffer) for buffer in buffers]

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class FakeFileSender:
    """A stand-in for the sender of file records: it has sent when the test says so."""

    def __init__(self, descriptor: int, *, finished: Callable[[], None], **_: Any) -> None:
        self._descriptor = descriptor
        self._finished = finished
        self.is_sending = False
        self.sent: list[Any] = []

    def send(self, out: list[Any]) -> bool:
        self.sent += out
        self.is_sending = True
        return False

    def has_sent(self) -> None:
        self.is_sending = False
        self._finished()

    def close(self) -> None:
        os.close(self._descriptor)


class FakeListener:
    """A stand-in for the listener: it echoes every frame, or answers as the test says."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: ReceiveMemory,
        gathered: GatheredAnswers | None = None,
    ) -> None:
        self.loop = loop
        self.memory = memory
        self.login_gate = None
        self.gathered = gathered if gathered is not None else GatheredAnswers(loop)
        self.send_buffers = SendBuffers(0)
        self.file_limit = 1 << 30
        self.receive_windows = ReceiveWindows(0)
        self.must_pause = lambda: False
        self.service = Service(serve=self._serve, fail=self._fail)
        self.max_frame_bytes = 100 * 1024 * 1024
        self.unsent = UnsentAnswers()
        self.tick = 0
        self.complaints: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.frames: list[bytes] = []
        self.answer: Callable[[memoryview], Answer | Pending] = lambda frame: [bytes(frame)]

    def _serve(self, connection: Connection, frame: memoryview) -> Answer | Pending:
        self.frames.append(bytes(frame))
        return self.answer(frame)

    def _fail(self, connection: Connection, frame: memoryview, error: BaseException) -> Answer:
        if bytes(frame) == b"hopeless":
            raise CloseConnection("no room for an error")
        return [b"failed"]

    def start_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        self.tasks.append(self.loop.create_task(work))
        return self.tasks[-1]

    def open_pipe(self) -> None: ...

    def describe(self, transport: Any) -> ConnectionInfo:
        return INFO

    def admit(self, connection: Connection) -> str:
        return ""

    def forget(self, connection: Connection) -> None: ...

    def log_rejected(self, info: ConnectionInfo, reason: str) -> None:
        self.complaints.append(reason)


class Peer:
    """A connection under test with all its stand-ins."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: ReceiveMemory | None = None,
        gathered: GatheredAnswers | None = None,
    ) -> None:
        """`gathered` are the answers shared with other connections of the node."""
        self.loop = loop
        self.memory = memory if memory is not None else ReceiveMemory()
        self.listener = FakeListener(loop, self.memory, gathered)
        self.connection = Connection(self.listener)  # type: ignore[arg-type]
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self, data: bytes) -> int:
        """Hand bytes over as the loop would; return how many were taken before reading was paused."""
        taken = 0
        while taken < len(data) and self.transport.is_reading and not self.transport.is_closed:
            room = self.connection.get_buffer(-1)
            assert len(room) > 0
            count = min(len(room), len(data) - taken)
            room[:count] = data[taken : taken + count]
            taken += count
            self.connection.buffer_updated(count)
        return taken

    def turn(self) -> None:
        """Let the event loop run everything that is ready, and everything that becomes ready by that."""
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))


def advance_clock(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Let time pass on the loop."""
    time = loop.time
    loop.time = lambda: time() + seconds  # type: ignore[method-assign]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make turns long, so that a busy machine does not decide how much is read at once."""
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", 3600.0)


@pytest.fixture
def peer(loop: asyncio.AbstractEventLoop) -> Peer:
    return Peer(loop)


@contextmanager
def sending_file(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFileSender]:
    """Send a response with file records, which takes until the test says otherwise."""
    opened: list[FakeFileSender] = []

    def open_sender(descriptor: int, **how: Any) -> FakeFileSender:
        opened.append(FakeFileSender(descriptor, **how))
        return opened[-1]

    monkeypatch.setattr(file_answers, "FileSender", open_sender)
    usual = peer.listener.answer
    answer = [b"header", FileRecords(cast(Any, None), 0, 7)]
    with open(os.devnull) as peer_socket:
        peer.connection.file_number = peer_socket.fileno()
        peer.listener.answer = lambda request: answer
        peer.send(frame(b"\0\1records"))
        peer.listener.answer = usual
        (sender,) = opened
        assert sender.sent == answer
        yield sender
        peer.connection.connection_lost(None)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_frames_are_served_in_order_and_answered_in_one_write(peer: Peer) -> None:
    peer.send(frame(b"one") + frame(b"two") + frame(b"three"))

    assert peer.transport.sent == [b"onetwothree"]
    assert peer.transport.writes == 1


def test_large_answers_of_one_turn_leave_uncopied_in_one_write(peer: Peer) -> None:
    peer.listener.answer = lambda body: [bytes(body) * module.JOIN_LIMIT_BYTES]

    peer.send(frame(b"a") + frame(b"b"))

    assert peer.transport.sent == [b"a" * module.JOIN_LIMIT_BYTES, b"b" * module.JOIN_LIMIT_BYTES]
    assert peer.transport.writes == 1


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7])
def test_frames_that_arrive_in_pieces_are_served_whole(peer: Peer, step: int) -> None:
    stream = b"".join(frame(bytes([index]) * index) for index in range(40))

    for start in range(0, len(stream), step):
        peer.send(stream[start : start + step])

    assert peer.listener.frames == [bytes([index]) * index for index in range(40)]


@pytest.mark.parametrize("size", [8_188, 8_189, 20_000, 65_536, 300_000, receive_buffer.MAPPED_BYTES + 1])
def test_large_frames_are_served_whole_and_leave_nothing_behind(peer: Peer, size: int) -> None:
    bodies = [bytes([index]) * (size + index) for index in range(4)]

    peer.send(b"".join(frame(body) for body in bodies))

    assert peer.listener.frames == bodies


def test_a_giant_frame_grows_in_place_and_is_paid_for_as_it_arrives(peer: Peer) -> None:
    body = bytes(range(256)) * (4 * receive_buffer.MAPPED_BYTES // 256)
    sent = frame(body)
    half = len(sent) // 2
    peer.send(sent[:half])
    began = peer.connection.buffer.mapped

    assert began is not None and len(began) == len(sent)
    assert half <= peer.memory.used_bytes <= 2 * half

    peer.send(sent[half:] + frame(b"next"))

    assert peer.listener.frames == [body, b"next"]
    assert peer.memory.used_bytes <= len(sent)


@pytest.mark.parametrize("size", [8_200, 16_384, 65_536, 100_000])
def test_the_requests_that_a_client_has_in_flight_are_read_at_once(peer: Peer, size: int) -> None:
    one = frame(bytes(size))
    peer.send(one)

    assert len(peer.connection.get_buffer(-1)) == receive_buffer.READ_AHEAD_FRAMES * len(one)
    peer.transport.sent.clear()
    peer.transport.writes = 0
    peer.listener.answer = lambda body: [b"."]
    peer.send(one * receive_buffer.READ_AHEAD_FRAMES)
    assert peer.transport.sent == [b"....."], "all are answered in one write"
    assert peer.transport.writes == 1


def test_a_read_ahead_ends_where_a_frame_does(peer: Peer) -> None:
    one = frame(bytes(65_536))
    peer.send(one)

    peer.send(one + one[:1000])

    assert len(peer.connection.get_buffer(-1)) == 4 * len(one) - 1000
    peer.send(one[1000:])
    assert peer.listener.frames == [one[4:]] * 3


def test_frames_of_differing_sizes_are_read_ahead_whole(peer: Peer) -> None:
    bodies = [bytes([number]) * (30_000 + 7_919 * number % 50_000) for number in range(60)]

    stream = b"".join(map(frame, bodies))
    while stream:
        stream = stream[peer.send(stream) :]
        peer.turn()

    assert peer.listener.frames == bodies


@pytest.mark.parametrize("size", [40_000, 65_536, 1 << 20])
def test_a_peer_that_sends_without_end_is_read_again_when_others_had_their_turn(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", 0.0)
    stream = frame(bytes(size)) * 20
    turns = 0

    while stream:
        taken = peer.send(stream)
        assert 0 < taken <= max(receive_buffer.READ_AHEAD_BYTES, size + 4), "the loop would read on"
        stream = stream[taken:]
        turns += 1
        peer.turn()

    assert turns >= 4
    assert peer.listener.frames == [bytes(size)] * 20


def test_a_peer_that_sends_less_than_a_turn_allows_is_read_on(peer: Peer) -> None:
    stream = frame(bytes(65_536)) * 40

    assert peer.send(stream) == len(stream)


def test_a_peer_that_does_not_read_is_not_read_from_after_its_turn_either(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", 0.0)
    stream = frame(bytes(65_536)) * 40
    peer.listener.answer = lambda body: [b"."]
    taken = peer.send(stream)
    assert not peer.transport.is_reading
    peer.connection.pause_writing()
    peer.turn()

    taken += peer.send(stream[taken:])
    served = len(peer.listener.frames)
    peer.turn()
    assert not peer.transport.is_reading
    peer.connection.resume_writing()
    while taken < len(stream):
        peer.turn()
        taken += peer.send(stream[taken:])

    assert served < len(peer.listener.frames) == 40


def test_frames_too_large_to_be_read_ahead_have_a_buffer_of_their_size(peer: Peer) -> None:
    one = frame(bytes(receive_buffer.READ_AHEAD_BYTES // 2 + 1))

    peer.send(one * 3)

    assert peer.memory.used_bytes == len(one)


def test_nothing_is_read_ahead_when_an_eighth_of_the_memory_is_in_use(
    loop: asyncio.AbstractEventLoop,
) -> None:
    memory = ReceiveMemory(8_000_000)
    peers = [Peer(loop, memory) for _ in range(20)]
    one = frame(bytes(100_000))

    for peer in peers:
        peer.send(one)

    assert 1_000_000 <= memory.used_bytes <= 1_000_000 + 20 * len(one)
    assert peers[0].connection.get_buffer(-1).nbytes == 5 * len(one)
    assert peers[-1].connection.get_buffer(-1).nbytes == len(one)


def test_a_buffer_that_was_read_ahead_into_shrinks(peer: Peer) -> None:
    peer.send(frame(bytes(65_536)) * 6)

    for _ in range(3):
        peer.connection.shrink()

    assert peer.memory.used_bytes == receive_buffer.INITIAL_BUFFER_BYTES


def test_a_frame_that_is_announced_costs_only_what_arrived(loop: asyncio.AbstractEventLoop) -> None:
    memory = ReceiveMemory()
    peers = [Peer(loop, memory) for _ in range(50)]

    for peer in peers:
        peer.send(struct.pack(">i", 100_000_000) + bytes(1024))

    assert memory.used_bytes == 50 * receive_buffer.INITIAL_BUFFER_BYTES


def test_memory_is_at_most_twice_what_arrived(peer: Peer) -> None:
    peer.send(struct.pack(">i", 50_000_000))
    for _ in range(20):
        peer.send(bytes(50_000))

    assert peer.memory.used_bytes <= 2 * 20 * 50_000


def test_all_connections_together_stay_within_the_budget_and_one_frame(
    loop: asyncio.AbstractEventLoop,
) -> None:
    memory = ReceiveMemory(1_000_000)
    peers = [Peer(loop, memory) for _ in range(10)]
    body = bytes(600_000)
    rest = {peer: frame(body) for peer in peers}

    for _ in range(1000):
        for peer in peers:
            taken = peer.send(rest[peer][:10_000])
            rest[peer] = rest[peer][taken:]
            assert memory.used_bytes <= 1_000_000 + 2 * 600_004

    assert [peer.listener.frames for peer in peers] == [[body]] * 10, "every frame got through in the end"


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * 1024 * 1024 + 1, 2**31 - 1])
def test_a_frame_of_impossible_size_closes_with_one_line(peer: Peer, size: int) -> None:
    peer.send(frame(b"fine") + struct.pack(">i", size))

    assert peer.transport.is_closed
    assert len(peer.listener.complaints) == 1
    assert peer.transport.sent == [b"fine"]


def test_a_request_that_waits_holds_up_the_requests_behind_it(peer: Peer) -> None:
    future: asyncio.Future[bytes] = peer.loop.create_future()
    peer.listener.answer = lambda body: (
        Pending(future, lambda answer: [answer]) if bytes(body) == b"slow" else [bytes(body)]
    )

    peer.send(frame(b"fast") + frame(b"slow") + frame(b"behind"))

    assert peer.transport.sent == [b"fast"]
    future.set_result(b"at last")
    peer.turn()
    assert peer.transport.sent == [b"fast", b"at last", b"behind"]


def test_bytes_that_arrive_meanwhile_do_not_overwrite_the_waiting_request(peer: Peer) -> None:
    future: asyncio.Future[bytes] = peer.loop.create_future()
    held: list[memoryview] = []

    def hold(body: memoryview) -> Answer | Pending:
        held.append(body)
        return Pending(future, lambda answer: [answer]) if len(held) == 1 else [bytes(body)]

    peer.listener.answer = hold
    peer.send(frame(b"x" * 8000))
    more = b"".join(frame(b"y" * 100) for _ in range(100))
    taken = peer.send(more)

    assert bytes(held[0]) == b"x" * 8000
    assert not peer.transport.is_reading
    future.set_result(b"done")
    peer.turn()
    assert peer.transport.is_reading
    while taken < len(more):
        taken += peer.send(more[taken:])
        peer.turn()
    assert peer.listener.frames == [b"x" * 8000] + [b"y" * 100] * 100


def test_a_request_that_keeps_nothing_gives_its_memory_back_while_it_waits(peer: Peer) -> None:
    future: asyncio.Future[bytes] = peer.loop.create_future()
    peer.listener.answer = lambda body: (
        Pending(future, lambda answer: [answer], keeps_nothing=True) if len(body) > 10 else [bytes(body)]
    )

    peer.send(frame(bytes(900_000)) + frame(b"behind"))

    assert peer.memory.used_bytes == receive_buffer.INITIAL_BUFFER_BYTES
    future.set_result(b"at last")
    peer.turn()
    assert peer.transport.sent == [b"at last", b"behind"]


def test_a_connection_that_waits_for_memory_reserves_it_once(loop: asyncio.AbstractEventLoop) -> None:
    class Memory(ReceiveMemory):
        """Memory that records the owners that have to wait."""

        def __init__(self, limit_bytes: int) -> None:
            super().__init__(limit_bytes)
            self.queued: list[object] = []

        def reserve(self, owner: object, size_bytes: int, granted: Callable[[], None]) -> bool:
            is_granted = super().reserve(owner, size_bytes, granted)
            if not is_granted:
                self.queued.append(owner)
            return is_granted

    memory = Memory(100_000)
    overdrawn, waiting = Peer(loop, memory), Peer(loop, memory)
    overdrawn.send(frame(bytes(120_000))[:80_000])
    waiting.send(frame(bytes(60_000))[:40_000])
    assert not waiting.transport.is_reading

    for _ in range(5):
        waiting.connection.pause_writing()
        waiting.connection.resume_writing()

    assert memory.queued == [waiting.connection]
    for peer in (overdrawn, waiting):
        peer.connection.connection_lost(None)
    assert memory.used_bytes == 0


def test_an_owner_that_overdrew_owes_nothing_when_its_frame_is_whole(loop: asyncio.AbstractEventLoop) -> None:
    memory = ReceiveMemory(100_000)
    peer, one = Peer(loop, memory), frame(bytes(16_000))
    memory.take(80_000)
    peer.send(one[:9000])
    assert memory.owner_in_debt is peer.connection
    memory.release(80_000)

    peer.send(one[9000:] + one[:100])

    assert memory.owner_in_debt is None


def test_requests_that_wait_do_not_lock_others_out(loop: asyncio.AbstractEventLoop) -> None:
    memory = ReceiveMemory(limit_bytes=1_000_000)
    for _ in range(10):
        joining = Peer(loop, memory)
        joining.listener.answer = lambda body: Pending(loop.create_future(), list, keeps_nothing=True)
        joining.send(frame(bytes(900_000)))
    other = Peer(loop, memory)

    other.send(frame(bytes(900_000)))

    assert other.transport.sent == [bytes(900_000)]


def test_a_peer_that_does_not_read_is_not_read_from(peer: Peer) -> None:
    peer.listener.answer = lambda body: [bytes(body), b"records"]
    peer.connection.pause_writing()

    peer.send(frame(b"one"))

    assert peer.listener.frames == []
    assert not peer.transport.is_reading
    peer.connection.resume_writing()
    assert peer.listener.frames == [b"one"]
    assert peer.transport.is_reading


def test_a_closed_connection_serves_nothing_more(peer: Peer) -> None:
    peer.connection.pause_writing()
    peer.send(frame(b"one"))
    peer.connection.close()

    peer.connection.resume_writing()

    assert peer.listener.frames == []
    assert peer.listener.unsent.used_bytes == 0


def test_many_small_requests_take_turns_with_others(peer: Peer) -> None:
    count = 3 * module.MAX_REQUESTS_PER_TURN

    peer.send(b"".join(frame(b"a") for _ in range(count)))

    assert len(peer.listener.frames) == module.MAX_REQUESTS_PER_TURN
    peer.turn()
    assert len(peer.listener.frames) == count


def test_a_request_that_is_refused_closes_after_the_answers_before_it(peer: Peer) -> None:
    def refuse(body: memoryview) -> Answer:
        if bytes(body) == b"bad":
            raise CloseConnection("it is bad")
        return [bytes(body)]

    peer.listener.answer = refuse

    peer.send(frame(b"good") + frame(b"bad") + frame(b"never"))

    assert peer.transport.sent == [b"good"]
    assert peer.transport.is_closed
    assert peer.listener.complaints == ["it is bad"]
    assert peer.listener.frames == [b"good", b"bad"]


def test_an_error_of_ours_is_answered_where_the_response_has_a_field_for_it(peer: Peer) -> None:
    def fail(body: memoryview) -> Answer:
        raise RuntimeError("a bug")

    peer.listener.answer = fail

    peer.send(frame(b"first") + frame(b"hopeless") + frame(b"never"))

    assert peer.transport.sent == [b"failed"]
    assert peer.transport.is_closed


def test_a_peer_that_goes_cancels_what_it_waited_for(peer: Peer) -> None:
    future: asyncio.Future[bytes] = peer.loop.create_future()
    peer.listener.answer = lambda body: Pending(future, lambda answer: [answer])
    peer.send(frame(b"slow"))

    peer.connection.connection_lost(None)
    peer.turn()

    assert future.cancelled()
    assert peer.memory.used_bytes == 0


def test_a_half_closed_peer_gets_its_answers_then_the_connection_closes(peer: Peer) -> None:
    async def work(body: bytes) -> bytes:
        await asyncio.sleep(0)
        return body

    peer.listener.answer = lambda body: Pending(work(bytes(body)), lambda answer: [answer])
    peer.send(frame(b"first") + frame(b"second"))

    assert peer.connection.eof_received()  # the transport stays open for the rest
    for _ in range(3):
        peer.turn()

    assert peer.transport.sent == [b"first", b"second"]
    assert peer.transport.is_closed


@pytest.mark.parametrize("how", ["gone", "half closed"])
def test_work_that_ends_with_its_client_is_cancelled_when_the_client_has_gone(peer: Peer, how: str) -> None:
    given_up: list[str] = []

    async def work() -> bytes:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            given_up.append("work")
            raise
        return b"never"

    peer.listener.answer = lambda body: Pending(work(), lambda answer: [answer], ends_with_client=True)
    peer.send(frame(b"long"))
    peer.turn()

    if how == "half closed":
        assert not peer.connection.eof_received()
    peer.connection.connection_lost(None)
    peer.turn()

    assert given_up == ["work"]
    assert peer.memory.used_bytes == 0


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_client_that_leaves_while_it_is_not_read_is_noticed(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    monkeypatch.setattr(module, "LOOK_FOR_END_SECONDS", 0)
    future: asyncio.Future[bytes] = peer.loop.create_future()
    peer.listener.answer = lambda body: Pending(future, lambda answer: [answer], ends_with_client=True)
    peer.send(frame(b"long"))

    for _ in range(3):
        peer.turn()
    assert not peer.transport.is_closed, "its end would be reported, as it is read from"
    peer.send(b"a read behind it is the last")
    assert not peer.transport.is_reading
    near, far = socket.socketpair()
    with near, far:
        peer.transport.socket = near
        if has_ended:
            far.close()
        for _ in range(3):
            peer.turn()

    assert peer.transport.is_closed is has_ended


def test_a_half_closed_peer_is_not_kept_for_a_long_poll(peer: Peer) -> None:
    future: asyncio.Future[bytes] = peer.loop.create_future()
    peer.listener.answer = lambda body: Pending(future, lambda answer: [answer])
    peer.send(frame(b"poll"))

    assert not peer.connection.eof_received()


def test_a_peer_that_ends_with_nothing_to_answer_is_not_kept(peer: Peer) -> None:
    peer.send(frame(b"quick") + b"\0\0")

    assert not peer.connection.eof_received()


def test_a_buffer_that_grew_shrinks_when_it_is_not_needed(peer: Peer) -> None:
    peer.send(frame(bytes(200_000)))
    peer.connection.shrink()
    peer.send(frame(b"small"))

    peer.connection.shrink()

    assert peer.memory.used_bytes == receive_buffer.INITIAL_BUFFER_BYTES
    peer.send(frame(b"still served"))
    assert peer.transport.sent[-1] == b"still served"


def test_a_request_without_an_answer_gets_no_bytes(peer: Peer) -> None:
    peer.listener.answer = lambda body: None if bytes(body) == b"acks=0" else [bytes(body)]

    peer.send(frame(b"acks=0") + frame(b"after"))

    assert peer.transport.sent == [b"after"]


def test_a_request_served_in_a_task_may_fail_without_harm(peer: Peer) -> None:
    async def fail() -> bytes:
        raise RuntimeError("a bug")

    peer.listener.answer = lambda body: Pending(fail(), lambda answer: [answer])

    peer.send(frame(b"slow"))
    peer.turn()

    assert peer.transport.sent == [b"failed"]
    assert [task.exception() for task in peer.listener.tasks] == [None]


def test_a_request_under_way_goes_on_when_its_client_goes(peer: Peer) -> None:
    done: list[str] = []

    async def work() -> bytes:
        await asyncio.sleep(0)
        done.append("done")
        return b""

    peer.listener.answer = lambda body: Pending(work(), lambda answer: [answer])
    peer.send(frame(b"slow"))

    peer.connection.connection_lost(None)
    peer.turn()

    assert done == ["done"]


@pytest.mark.filterwarnings("error")
def test_a_request_that_never_started_ends_without_a_warning_of_python(peer: Peer) -> None:
    async def work() -> bytes:
        return b""

    peer.listener.answer = lambda body: Pending(work(), lambda answer: [answer])
    peer.send(frame(b"slow"))

    peer.listener.tasks[0].cancel()  # as when the node stops in the same turn
    peer.turn()
    del peer.listener.answer, peer.listener.frames
    gc.collect()

    assert peer.listener.complaints == ["the node is stopping"]


# ---- requests that are carried out and wait for their acknowledgement ----------------------------------


class Acknowledged:
    """Answers Produce requests (key 0) when `acknowledge` is called, and other requests at once."""

    def __init__(self, peer: Peer) -> None:
        self.loop = peer.listener.loop
        self.waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self.served: list[bytes] = []
        peer.listener.answer = self.serve

    def serve(self, body: memoryview) -> Answer | Pending:
        name = bytes(body)
        self.served.append(name)
        if not name.startswith(b"\0\0wait"):
            return [name]
        future = self.waiting[name] = self.loop.create_future()
        return Pending(future, lambda answer: [answer], is_carried_out=True)

    def acknowledge(self, name: bytes) -> None:
        self.waiting[name].set_result(name)


def test_a_produce_that_waits_for_replicas_holds_up_no_other(peer: Peer) -> None:
    service = Acknowledged(peer)

    peer.send(frame(b"\0\0wait1") + frame(b"\0\0wait2") + frame(b"\0\0quick"))
    assert service.served == [b"\0\0wait1", b"\0\0wait2", b"\0\0quick"]
    service.acknowledge(b"\0\0wait2")
    peer.turn()
    assert peer.transport.sent == [], "answers leave in the order of the requests"
    service.acknowledge(b"\0\0wait1")
    peer.turn()

    assert b"".join(peer.transport.sent) == b"\0\0wait1\0\0wait2\0\0quick"


def test_another_request_waits_until_all_are_acknowledged(peer: Peer) -> None:
    service = Acknowledged(peer)

    peer.send(frame(b"\0\0wait1") + frame(b"\0\0wait2") + frame(b"\0\1fetch") + frame(b"\0\0quick"))
    assert service.served == [b"\0\0wait1", b"\0\0wait2"]
    service.acknowledge(b"\0\0wait1")
    peer.turn()
    assert service.served == [b"\0\0wait1", b"\0\0wait2"]
    service.acknowledge(b"\0\0wait2")
    peer.turn()

    assert b"".join(peer.transport.sent) == b"\0\0wait1\0\0wait2\0\1fetch\0\0quick"


def test_a_produce_that_waited_for_its_transaction_holds_up_no_other_once_it_is_carried_out(
    peer: Peer,
) -> None:
    service = Acknowledged(peer)
    verified: asyncio.Future[None] = peer.listener.loop.create_future()
    first = Pending(verified, lambda _: service.serve(memoryview(b"\0\0wait1")))
    peer.listener.answer = lambda body: first if body == b"\0\0asks" else service.serve(body)

    peer.send(frame(b"\0\0asks") + frame(b"\0\0wait2") + frame(b"\0\1fetch"))
    assert service.served == []
    verified.set_result(None)
    peer.turn()
    assert service.served == [b"\0\0wait1", b"\0\0wait2"]
    service.acknowledge(b"\0\0wait2")
    service.acknowledge(b"\0\0wait1")
    peer.turn()

    assert b"".join(peer.transport.sent) == b"\0\0wait1\0\0wait2\0\1fetch"


def test_a_produce_whose_client_has_gone_is_not_carried_out_when_its_transaction_is_known(peer: Peer) -> None:
    service = Acknowledged(peer)
    verified: asyncio.Future[None] = peer.listener.loop.create_future()
    waits = Pending(verified, lambda _: service.serve(memoryview(b"\0\0quick")))
    peer.listener.answer = lambda body: waits

    peer.send(frame(b"\0\0asks"))
    peer.connection.connection_lost(None)
    peer.turn()

    assert verified.cancelled()
    assert service.served == []


def test_the_number_of_awaited_acknowledgements_is_limited(peer: Peer) -> None:
    service = Acknowledged(peer)
    names = [b"\0\0wait%03d" % number for number in range(MAX_ORDERED + 2)]

    peer.send(b"".join(map(frame, names)))
    peer.turn()
    assert service.served == names[:MAX_ORDERED]
    for name in names[:MAX_ORDERED]:
        service.acknowledge(name)
    peer.turn()

    assert service.served == names
    for name in names[MAX_ORDERED:]:
        service.acknowledge(name)
    peer.turn()
    assert b"".join(peer.transport.sent) == b"".join(names)


def test_a_full_buffer_behind_a_held_request_is_not_read_into(peer: Peer) -> None:
    service = Acknowledged(peer)
    peer.send(frame(b"\0\0wait1") + frame(b"\0\1" + bytes(receive_buffer.INITIAL_BUFFER_BYTES - 4 - 2 - 11)))
    service.acknowledge(b"\0\0wait1")
    peer.turn()

    assert len(service.served) == 2


def test_a_half_closed_peer_gets_the_acknowledgements_it_waits_for(peer: Peer) -> None:
    service = Acknowledged(peer)
    peer.send(frame(b"\0\0wait1"))

    assert peer.connection.eof_received()
    service.acknowledge(b"\0\0wait1")
    peer.turn()

    assert peer.transport.sent == [b"\0\0wait1"]
    assert peer.transport.is_closed


def test_acknowledgements_of_one_turn_leave_in_one_write(peer: Peer) -> None:
    service = Acknowledged(peer)
    names = [b"\0\0wait%d" % number for number in range(5)]
    peer.send(b"".join(map(frame, names)))

    for name in names:
        service.acknowledge(name)
    peer.turn()

    assert peer.transport.sent == [b"".join(names)]


def test_a_connection_that_is_closed_sends_the_acknowledgements_that_are_there(peer: Peer) -> None:
    service = Acknowledged(peer)
    peer.send(frame(b"\0\0wait1") + frame(b"\0\0wait2"))

    service.acknowledge(b"\0\0wait1")
    peer.loop.run_until_complete(asyncio.sleep(0))
    peer.connection.close()

    assert peer.transport.sent == [b"\0\0wait1"]
    assert peer.transport.is_closed


def test_a_peer_that_goes_cancels_its_acknowledgements(peer: Peer) -> None:
    service = Acknowledged(peer)
    peer.send(frame(b"\0\0wait1") + frame(b"\0\0wait2"))

    peer.connection.connection_lost(None)

    assert [future.cancelled() for future in service.waiting.values()] == [True, True]


# ---- requests that wait for news -----------------------------------------------------------------------


class LongPolls:
    """Makes a peer's requests wait for news, except those that start with "now"."""

    def __init__(self, peer: Peer) -> None:
        self.waiting: list[asyncio.Future[bytes]] = []
        self.released = 0
        self._peer = peer
        peer.listener.answer = self._answer

    def _answer(self, body: memoryview) -> Answer | Pending:
        if bytes(body).startswith(b"now"):
            return [bytes(body)]
        future: asyncio.Future[bytes] = self._peer.loop.create_future()
        self.waiting.append(future)
        return Pending(future, lambda answer: [answer], release=self._release)

    def _release(self) -> None:
        self.released += 1
        if not self.waiting[-1].done():
            self.waiting[-1].set_result(b"nothing new ")


def test_a_request_that_waits_for_news_is_released_by_the_next_and_answered_before_it(peer: Peer) -> None:
    polls = LongPolls(peer)
    peer.send(frame(b"beat"))
    peer.turn()
    assert (polls.released, peer.transport.sent) == (0, [])

    peer.send(frame(b"now a commit"))
    peer.turn()

    assert (polls.released, b"".join(peer.transport.sent)) == (1, b"nothing new now a commit")
    assert peer.transport.is_reading


@pytest.mark.parametrize("behind", [frame(b"now"), frame(b"now")[:2]])
def test_a_request_with_another_behind_it_does_not_wait_for_news(peer: Peer, behind: bytes) -> None:
    polls = LongPolls(peer)

    peer.send(frame(b"beat") + behind)
    peer.turn()

    assert (polls.released, peer.transport.sent[0][:11]) == (1, b"nothing new")


def test_a_request_that_waited_and_was_answered_is_not_released(peer: Peer) -> None:
    polls = LongPolls(peer)
    peer.send(frame(b"beat"))

    polls.waiting[0].set_result(b"news ")
    peer.turn()
    peer.send(frame(b"now"))
    peer.turn()

    peer.connection.connection_lost(None)
    assert (polls.released, b"".join(peer.transport.sent)) == (0, b"news now")


def test_a_request_that_waits_for_news_is_released_when_its_client_is_gone(peer: Peer) -> None:
    polls = LongPolls(peer)
    peer.send(frame(b"beat"))

    assert not peer.connection.eof_received()
    peer.connection.connection_lost(None)
    peer.turn()

    assert (polls.released, peer.transport.sent) == (1, [])


def test_a_peer_that_sends_much_rests_while_the_disk_is_behind(peer: Peer) -> None:
    peer.listener.must_pause = lambda: True
    one = frame(bytes(400_000))
    waits: list[Callable[[], None]] = []
    peer.loop.call_later = lambda seconds, call: waits.append(call)  # type: ignore[method-assign, assignment, return-value]

    taken = peer.send(3 * one)
    peer.turn()
    assert taken < 3 * len(one) and not peer.transport.is_reading and len(waits) == 1
    waits.pop()()
    assert not peer.transport.is_reading and len(waits) == 1
    peer.listener.must_pause = lambda: False
    waits.pop()()

    assert peer.transport.is_reading and not waits
    peer.send((3 * one)[taken:])
    assert len(peer.transport.sent) == 3


def test_a_peer_that_sends_little_does_not_rest(peer: Peer) -> None:
    peer.listener.must_pause = lambda: True

    for number in range(100):
        assert peer.send(frame(b"%d" % number * 100)) and peer.transport.is_reading
        peer.turn()
    assert len(peer.transport.sent) == 100


def hold_next_produce(peer: Peer) -> "asyncio.Future[None]":
    """Make the peer's next Produce wait for replicas, until the future is done."""
    future: asyncio.Future[None] = peer.loop.create_future()
    peer.listener.answer = lambda _: Pending(future, lambda _: [b"acknowledged"], True)
    return future


def test_malformed_bytes_close_the_connection_after_the_answers_owed_before_them(peer: Peer) -> None:
    future = hold_next_produce(peer)

    peer.send(frame(b"\0\0one") + b"\xff" * 8)
    assert not peer.transport.is_closed and not peer.transport.is_reading
    future.set_result(None)
    peer.turn()

    assert peer.transport.sent == [b"acknowledged"] and peer.transport.is_closed
    assert len(peer.listener.complaints) == 1


def test_a_request_that_is_refused_behind_what_is_owed_closes_in_its_turn(peer: Peer) -> None:
    future = hold_next_produce(peer)
    peer.send(frame(b"\0\0one"))

    def refuse(_: memoryview) -> Answer:
        raise CloseConnection("it is hopeless")

    peer.listener.answer = refuse
    peer.send(frame(b"\0\0two"))
    assert not peer.transport.is_closed
    future.set_result(None)
    peer.turn()

    assert peer.transport.sent == [b"acknowledged"] and peer.transport.is_closed
    assert peer.listener.complaints == ["it is hopeless"]


def test_nothing_is_answered_behind_a_request_that_turned_out_to_be_hopeless(peer: Peer) -> None:
    first, second = hold_next_produce(peer), peer.loop.create_future()

    def fail(_: Any) -> Answer:
        raise CloseConnection("it is hopeless")

    peer.listener.answer = lambda request: Pending(
        *((second, lambda _: [b"two"]) if request[2:] == b"two" else (first, fail)), True
    )
    peer.send(frame(b"\0\0one") + frame(b"\0\0two"))
    second.set_result(None)
    peer.turn()
    first.set_result(None)
    peer.turn()

    assert not peer.transport.sent and peer.transport.is_closed


def test_a_slow_reader_is_left_its_answers_when_the_connection_closes(peer: Peer) -> None:
    future = hold_next_produce(peer)
    peer.send(frame(b"\0\0one"))
    peer.connection.pause_writing()
    future.set_result(None)
    peer.turn()
    assert not peer.transport.sent

    peer.connection.close()

    assert peer.transport.sent == [b"acknowledged"] and peer.transport.is_closed


def test_nothing_more_is_read_while_the_last_file_leaves(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    with sending_file(peer, monkeypatch) as sender:
        peer.connection.close()

        assert not peer.transport.is_closed and peer.send(b"more") == 0
        sender.has_sent()
        assert peer.transport.is_closed


def test_requests_behind_a_poll_are_answered_when_the_peer_has_closed_its_side(peer: Peer) -> None:
    poll: asyncio.Future[None] = peer.loop.create_future()
    peer.listener.answer = lambda request: (
        Pending(poll, lambda _: [b"nothing new"]) if request == b"poll" else [bytes(request)]
    )

    peer.send(frame(b"poll") + frame(b"next"))
    assert peer.connection.eof_received()
    poll.set_result(None)
    peer.turn()

    assert b"".join(peer.transport.sent) == b"nothing newnext" and peer.transport.is_closed


@pytest.mark.parametrize("behind", [b"", frame(b"torn")[:6]])
def test_a_poll_of_a_client_that_is_gone_is_given_up_when_its_turn_comes(peer: Peer, behind: bytes) -> None:
    work, poll = peer.loop.create_future(), peer.loop.create_future()

    async def answer() -> Answer:
        await work
        return [b"done"]

    peer.listener.answer = lambda request: (
        Pending(poll, lambda _: []) if request == b"poll" else Pending(answer(), lambda result: result)
    )
    peer.send(frame(b"work") + frame(b"poll") + behind)
    peer.turn()
    assert peer.connection.eof_received()
    work.set_result(None)
    peer.turn()

    assert peer.transport.sent == [b"done"] and peer.transport.is_closed


def test_a_client_that_sends_large_frames_gets_a_wide_window_once_and_leaves_it_to_others(peer: Peer) -> None:
    calls: list[object] = []

    class Windows(ReceiveWindows):
        def widen(self, sock: object) -> int:
            calls.append(sock)
            return 7

        def give_back(self, size_bytes: int) -> None:
            calls.append(size_bytes)

    peer.listener.receive_windows = Windows(0)
    peer.send(frame(bytes(WIDENING_FRAME_BYTES // 4)))
    peer.send(frame(bytes(WIDENING_FRAME_BYTES))[:1000])
    assert calls == []

    peer.send(bytes(WIDENING_FRAME_BYTES - 996))
    peer.send(frame(bytes(2 * WIDENING_FRAME_BYTES)))
    assert len(peer.listener.frames) == 3 and calls == [None]

    peer.connection.connection_lost(None)
    assert calls == [None, 7]
