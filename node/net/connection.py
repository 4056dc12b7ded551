"""One client's connection: bytes in, requests served one at a time in order, bytes out in that order.

The promise: whatever the peer sends, the connection holds no more than about twice the bytes that really
arrived, or five times its last frame while memory is plentiful (and all connections together no more than
`ReceiveMemory` allows), answers in the order of the requests, and ends with one line in the log if the bytes
are not Kafka's. The peer that does not read its answers is not read from.

The receive buffer is one bytearray, parsed in place. While a request waits for its answer, memoryviews of its
records may still point into the buffer; so nothing received is then moved or overwritten.
"""

import asyncio
import logging
import mmap
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Protocol, cast

from ottla.logstore.disk import FileRecords
from ottla.logstore.schema import Buffer
from ottla.node.net.answers import Answer, CloseConnection, Pending, Service
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.file_pipe import FilePipe, Piece
from ottla.node.net.file_sender import FileSender
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.receive_windows import WIDENING_FRAME_BYTES, ReceiveWindows
from ottla.node.net.send_buffers import SendBuffers
from ottla.node.net.unsent_answers import UnsentAnswers
from ottla.node.wire.framing import foreign_protocol

INITIAL_BUFFER_BYTES = 8 * 1024  # A few small requests; 5,000 idle clients cost 40 MB.
# From here on a read stops at the end of a frame, so that the next one starts at the start of the buffer.
LARGE_FRAME_BYTES = 32 * 1024
# Where a peer sends faster than it is read, one read takes what clients have in flight by default
# (max.in.flight.requests.per.connection): so many frames like the last one, up to so many bytes.
READ_AHEAD_FRAMES = 5
READ_AHEAD_BYTES = 512 * 1024
WRITE_HIGH_WATER_BYTES = 256 * 1024  # More unsent than this, and the peer's next request waits.
# Answers of one turn are joined up to this size: with 20 small ones that saves 2 us each over a writev.
JOIN_LIMIT_BYTES = 16 * 1024
# Produce requests of a connection whose acknowledgements are waited for. Clients have 5 in flight; each is a
# future and some small objects.
MAX_OWED = 64
# A frame of more bytes gets addresses for the whole of it at once, and memory page by page as it arrives: to
# fill a buffer with zeros, and to copy it again and again as it grows, took 200 ms of the loop for 100 MB.
MAPPED_BYTES = 4 << 20
PRODUCE_KEY = b"\0\0"
FRAME_HEAD_BYTES = 8  # api key, version, correlation id: what an answer to a failure needs
# Of large reads of one connection, before others get their turn: the loop reads on as long as a read fills
# its room. These are 3 to 5 MB; with less, batches of 1 MB push each other out of the processor's caches.
MAX_TURN_SECONDS = 0.0015
LOOK_FOR_END_SECONDS = 0.5  # how often it is seen whether the client of a long question is still there
# While the disk is behind, those who had a turn are asked to rest so long, again and again.
REST_SECONDS = 0.01
MAX_REQUESTS_PER_TURN = 64  # Of one connection, before others get their turn: 64 x 20 us is 1.3 ms.
_SIZE = struct.Struct(">i")

log = logging.getLogger(__name__)


class _Failure(NamedTuple):
    """What a request ended with that was served in a task: the task must not fail, for the node would."""

    error: Exception


def _has_ended(transport: asyncio.BaseTransport) -> bool:
    """Tell whether the peer of a socket has ended its side, with nothing left before that to be read."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return False
    # uvloop's own object for it cannot read.
    with socket.fromfd(sock.fileno(), sock.family, sock.type) as same:
        try:
            return not same.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


async def _outcome_of(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except Exception as error:
        return _Failure(error)


class _Owed:
    """An answer that is to leave after those before it; `future` while it is not there. With a `refusal` the
    connection is closed for that reason instead.
    """

    __slots__ = ("answer", "future", "refusal")

    def __init__(
        self, future: "asyncio.Future[Any] | None", answer: Answer, refusal: str | None = None
    ) -> None:
        self.future = future
        self.answer = answer
        self.refusal = refusal


class ConnectionHost(Protocol):
    """The listener of a connection, as far as the connection needs it."""

    service: "Service[Connection]"
    opening_service: "Service[Connection]"  # for a connection beyond the limits, until it has proven itself
    gathered: GatheredAnswers
    memory: ReceiveMemory
    receive_windows: ReceiveWindows
    send_buffers: SendBuffers
    unsent: UnsentAnswers
    loop: asyncio.AbstractEventLoop
    must_rest: Callable[[], bool]  # whether those who send much had better wait for the disk
    start_task: Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]
    max_frame_bytes: int
    file_limit: int  # numbers of files from here on are left to the logs
    tick: int  # how often it has looked for idle connections

    def describe(self, transport: asyncio.BaseTransport) -> ConnectionInfo: ...
    def pace(self, connection: "Connection", sock: socket.socket) -> None: ...
    def admit(self, connection: "Connection") -> str: ...
    def forget(self, connection: "Connection") -> None: ...
    def recognize(self, connection: "Connection", peer_id: int) -> None: ...
    def complain(self, info: ConnectionInfo, reason: str) -> None: ...
    def open_pipe(self) -> FilePipe: ...


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket (asyncio demands the base class)."""

    __slots__ = (
        "_awaits_memory",
        "_ends_with_client",
        "_file_sender",
        "_frame_bytes",
        "_gathered",
        "_is_busy",
        "_is_ended",
        "_is_held",
        "_is_reading",
        "_is_resting",
        "_is_write_blocked",
        "_last_frame_bytes",
        "_listener",
        "_map",
        "_owed",
        "_peak_bytes",
        "_read_limit",
        "_read_position",
        "_release",
        "_service",
        "_transport",
        "_turn_ends",
        "_unsent_bytes",
        "_view",
        "_waiting",
        "_window_bytes",
        "_write_position",
        "file_number",
        "info",
        "is_closed",
        "last_active_tick",
        "peer_challenge",
    )

    def __init__(self, listener: ConnectionHost) -> None:
        self._listener = listener
        self._service = listener.service
        self._gathered: GatheredAnswers = listener.gathered
        self._view = memoryview(bytearray(INITIAL_BUFFER_BYTES))
        self._map: mmap.mmap | None = None  # the memory of a large frame, whose beginning is the view
        self._read_position = 0
        self._write_position = 0
        self._read_limit = INITIAL_BUFFER_BYTES
        self._frame_bytes = 0  # of the frame that is half received, with its length prefix; 0: not known
        self._last_frame_bytes = 0  # of the one that was served last, with its length prefix
        self._peak_bytes = 0  # the most that lay in the buffer since the last sweep
        self._is_busy = False  # a request waits for its answer, or the rest of the buffer for its turn
        self._is_held = False  # the next request waits until no answer is owed
        self._is_ended = False  # the peer sends nothing more, but what it sent is still to be answered
        self._is_write_blocked = False
        self._unsent_bytes = 0  # as the peer was found not to read fast enough
        self._is_reading = True
        self._awaits_memory = False  # to grow, and is not read from until it is there
        self._is_resting = False  # from reading, until others had their turn
        self._turn_ends = 0.0  # of what comes in large reads; 0: it did not begin
        self._window_bytes = 0  # of the kernel's receive window, where it was widened
        self._file_sender: FileSender | None = None
        self._waiting: asyncio.Future[Any] | None = None
        self._ends_with_client = False
        self._release: Callable[[], None] | None = None  # of what waits for news
        self._owed: deque[_Owed] = deque()  # to Produce requests that wait for replicas, and those behind
        self.is_closed = False
        self.last_active_tick = listener.tick
        self.file_number = -1  # of its socket
        self.peer_challenge: Any = None  # between the two steps by which a peer proves itself
        self.info: ConnectionInfo = cast(ConnectionInfo, None)  # set by connection_made, before anything else
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)

    # ---- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._listener.memory.take(len(self._view))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.file_number = sock.fileno()
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.info = self._listener.describe(transport)
        if sock is not None:
            self._listener.pace(self, sock)
        refusal = self._listener.admit(self)
        if refusal:
            self.abort(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._file_sender is not None:
            self._file_sender.close()
        self._release_waiting()
        waiting, self._waiting = self._waiting, None
        # A request that only waits is given up; one that is under way goes on, whoever is told.
        if waiting is not None and (self._ends_with_client or not isinstance(waiting, asyncio.Task)):
            waiting.cancel()
        owed, self._owed = self._owed, deque()
        for one in owed:
            if one.future is not None:
                one.future.cancel()
        memory = self._listener.memory
        memory.release(len(self._view))
        memory.settle(self)
        self.release_unsent()
        self._listener.receive_windows.give_back(self._window_bytes)
        self._listener.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._write_position : self._read_limit]

    def buffer_updated(self, nbytes: int) -> None:
        self._write_position += nbytes
        self.last_active_tick = self._listener.tick
        if nbytes >= LARGE_FRAME_BYTES and not self._turn_ends:
            turn_s = 0.0 if self._listener.must_rest() else MAX_TURN_SECONDS
            self._turn_ends = time.perf_counter() + turn_s
            self._listener.loop.call_soon(self._end_turn)
            self._gathered.send_all()  # Others do not wait for what may take so long.
        if self._is_busy or self._is_held or self._is_write_blocked:
            # One more read is taken while a request waits, not a second.
            self._pause_reading()
            self._release_waiting()
            return
        self._serve_frames()

    def eof_received(self) -> bool:
        """Keep a half-closed connection until what was asked is answered, as Apache Kafka does.

        A request that only waits (a long poll) is given up: mostly nobody is there any more to be told.
        """
        self._gathered.send_all()  # The transport may close, and does not know of them.
        if not self._only_waits():
            self._is_ended = self._is_busy or self._is_write_blocked or bool(self._owed)
        return self._is_ended

    def pause_writing(self) -> None:
        self._is_write_blocked = True
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._listener.unsent.hold(self, self._unsent_bytes)

    def resume_writing(self) -> None:
        self._is_write_blocked = False
        self.release_unsent()
        if self._owed:
            self._pay()
        if not self._is_busy and not self._is_held and not self._is_write_blocked and not self.is_closed:
            self._serve_frames()

    def write(self, answer: Buffer) -> None:
        """Hand an answer to the transport (`GatheredAnswers`)."""
        self._transport.write(answer)

    # ---- called by the service ----------------------------------------------------------------------

    def recognize(self, peer_id: int) -> None:
        """Note that the other end has proven to be that node of the cluster."""
        self._service = self._listener.service
        self._listener.recognize(self, peer_id)

    # ---- called by the listener ------------------------------------------------------------------

    def serve_only_opening(self) -> None:
        """Serve nothing but the handshake of peers, until the other end is recognized."""
        self._service = self._listener.opening_service

    def abort(self, reason: str) -> None:
        """Close at once, unsent answers and all, and say why in the log."""
        if not self.is_closed:
            self.is_closed = True
            self._listener.complain(self.info, reason)
        self._transport.abort()

    def release_unsent(self) -> None:
        """Answers are sent, or never will be: they count no more."""
        self._listener.unsent.release(self, self._unsent_bytes)
        self._unsent_bytes = 0

    def expire(self) -> None:
        """Close a connection that was idle for too long; Kafka does so without a word, and so do clients."""
        self.is_closed = True
        self._transport.abort()

    def close(self) -> None:
        """Close when all answers are sent."""
        if self._owed:
            self._pay(is_last=True)
            if self.is_closed:
                return  # for a reason that was owed
        self._gathered.send_all()
        self._pause_reading()  # For what comes now there may be no room, and it is not served.
        self.is_closed = True
        if self._may_write():
            self._transport.close()

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame is half received that is larger than the smallest buffer."""
        return self._frame_bytes > INITIAL_BUFFER_BYTES

    @property
    def waits_with_large_frame(self) -> bool:
        """Whether a request waits for its answer and holds a buffer that others may need."""
        return self._waiting is not None and len(self._view) > INITIAL_BUFFER_BYTES

    def shrink(self) -> None:
        """Give memory back that was not needed since the last sweep."""
        peak_bytes, self._peak_bytes = self._peak_bytes, 0
        target_bytes = max(INITIAL_BUFFER_BYTES, peak_bytes)
        is_empty = self._read_position == self._write_position and not self._is_busy
        if is_empty and target_bytes * 4 <= len(self._view):
            self._replace_buffer(target_bytes)

    # ---- serving ---------------------------------------------------------------------------------

    def _serve_frames(self) -> None:
        """Serve what lies whole in the buffer, then make room for what is to come."""
        position, end = self._read_position, self._write_position
        if end - position > self._peak_bytes:
            self._peak_bytes = end - position
        view = self._view
        serve, serve_run, max_frame_bytes = (
            self._service.serve,
            self._service.serve_run,
            self._listener.max_frame_bytes,
        )
        out: list[Piece] = []
        served = 0
        self._frame_bytes = 0
        while end - position >= 4 and not self._is_write_blocked:
            frame_bytes = _SIZE.unpack_from(view, position)[0]
            if not 0 <= frame_bytes <= max_frame_bytes:
                self._refuse_in_turn(_no_frame(view[position : position + 4], frame_bytes), out)
                return
            next_position = position + 4 + frame_bytes
            if next_position > end:
                self._frame_bytes = 4 + frame_bytes
                break
            if served >= MAX_REQUESTS_PER_TURN:
                self._is_busy = True
                self._listener.loop.call_soon(self._continue)
                break
            if self._owed and not self._may_pass(view, position + 4, next_position):
                self._is_held = True
                break
            if frame_bytes >= LARGE_FRAME_BYTES:
                self._gathered.send_all()
            if next_position < end and (run := serve_run(self, view, position, end)) is not None:
                served += run.requests
                self._last_frame_bytes = (run.stop - position) // run.requests
                self._read_position = position = run.stop
                if type(run.answers) is Pending:
                    self._flush(out)
                    out = []
                    self._owe(run.answers, None)
                elif self._owed:
                    self._owed.append(_Owed(None, cast(Answer, run.answers)))
                else:
                    out += cast(list[Piece], run.answers)
                continue
            served += 1
            frame = view[position + 4 : next_position]
            self._last_frame_bytes = next_position - position
            self._read_position = position = next_position
            try:
                answer = serve(self, frame)
            except CloseConnection as refusal:
                self._refuse_in_turn(str(refusal), out)
                return
            except Exception as error:
                failed = self._fail(frame, error)
                if isinstance(failed, CloseConnection):
                    self._refuse_in_turn(str(failed), out)
                    return
                answer = failed
            if type(answer) is list:
                if self._owed:
                    self._owed.append(_Owed(None, answer))
                    continue
                out += answer
                if len(answer) > 1:
                    # Records: they may fill the peer's window, which must be known before the next request.
                    self._flush(out)
                    out = []
            elif type(answer) is Pending:
                self._flush(out)
                out = []
                if answer.is_carried_out:
                    self._owe(answer, frame)
                    continue
                if answer.keeps_nothing:
                    self._wait_for(answer, memoryview(bytes(frame[:FRAME_HEAD_BYTES])))
                    self._give_buffer_back()
                else:
                    self._wait_for(answer, frame)
                break
        self._flush(out)
        if self._is_ended and not self._is_busy and not self._is_write_blocked and not self._owed:
            self.close()
        else:
            self._make_room()

    def _flush(self, out: list[Piece], *, is_awaited: bool = False) -> None:
        """Send the answers of one turn together: one write, one packet where they fit."""
        if not out:
            return
        send_small = self._gathered.send_awaited if is_awaited else self._gathered.send
        if len(out) == 1:
            send_small(self, cast(Buffer, out[0]))
        elif FileRecords in map(type, out):  # They are larger than what is joined, and follow a header.
            self._gathered.send_all()
            self._send_files(out)
        elif sum(map(len, out)) <= JOIN_LIMIT_BYTES:
            send_small(self, b"".join(cast(list[Buffer], out)))
        else:
            self._gathered.send_all()
            self._transport.writelines(cast(list[Buffer], out))

    def _send_files(self, out: list[Piece]) -> None:
        """Send records from their files; through the transport where it is encrypted or not yet done."""
        sender = self._file_sender
        if sender is None:
            sender = self._file_sender = self._open_file_sender()
        try:
            if sender is None or self._transport.get_write_buffer_size():
                read = [piece.read() if isinstance(piece, FileRecords) else piece for piece in out]
                self._transport.writelines(read)
            elif not sender.send(out):
                self._is_write_blocked = True
        except OSError as error:
            self._files_failed(f"an answer could not be sent: {error}")

    def _open_file_sender(self) -> FileSender | None:
        if self.file_number < 0 or self._transport.get_extra_info("sslcontext") is not None:
            return None
        try:
            pipe, descriptor = self._listener.open_pipe(), os.dup(self.file_number)
        except OSError:
            return None
        if descriptor >= self._listener.file_limit:  # The rest is for the logs.
            os.close(descriptor)
            return None
        return FileSender(
            descriptor,
            pipe=pipe,
            buffers=self._listener.send_buffers,
            loop=self._listener.loop,
            start_task=self._listener.start_task,
            finished=self._files_sent,
            failed=self._files_failed,
        )

    def _files_sent(self) -> None:
        if self.is_closed:
            self._transport.close()
        else:
            self.resume_writing()

    def _files_failed(self, reason: str) -> None:
        log.debug("Closed connection %s: %s", self.info.connection_id, reason)
        self._is_write_blocked = True  # Nothing more is served: half an answer was its last.
        self.expire()

    def _refuse_in_turn(self, reason: str, out: list[Piece]) -> None:
        """Refuse what was received, once those who sent something before it have their answers."""
        if not self._owed:
            self._refuse(reason, out)
            return
        assert not out, "what is answered behind what is owed is owed, too"
        self._owed.append(_Owed(None, None, reason))
        self._is_held = True
        self._pause_reading()

    def _refuse(self, reason: str, out: list[Piece]) -> None:
        """Send what was answered before, then close: Kafka has no other answer to senseless bytes."""
        self._flush(out)
        self._listener.complain(self.info, reason)
        self.close()

    def _fail(self, frame: memoryview, error: BaseException) -> "Answer | CloseConnection":
        """The answer to a request that a bug of ours (or a broken disk) keeps from being served, or why the
        connection is closed instead.
        """
        try:
            return self._service.fail(self, frame, error)
        except CloseConnection as refusal:
            return refusal

    # ---- answers that are owed ---------------------------------------------------------------------

    def _may_pass(self, view: memoryview, start: int, stop: int) -> bool:
        """Whether the next request may be served although earlier ones wait for their answers."""
        # Only such as those that wait: their answers are small, and none of them waits in another way.
        return len(self._owed) < MAX_OWED and stop - start >= 2 and view[start : start + 2] == PRODUCE_KEY

    def _owe(self, pending: Pending, frame: memoryview | None) -> None:
        """Let the answer come when it can; those to later requests leave after it. None for a run."""
        future = cast("asyncio.Future[Any]", pending.awaitable)
        owed = _Owed(future, None)
        self._owed.append(owed)
        # The buffer goes on to be used.
        head = None if frame is None else memoryview(bytes(frame[:FRAME_HEAD_BYTES]))
        future.add_done_callback(lambda done: self._owed_is_there(owed, done, pending, head))

    def _owed_is_there(
        self, owed: _Owed, future: "asyncio.Future[Any]", pending: Pending, head: memoryview | None
    ) -> None:
        if self.is_closed:
            return
        if future.cancelled():
            self.abort("the node stops")
            return
        answer: Answer | Pending | CloseConnection
        try:
            answer = pending.encode(future.result())
            assert not isinstance(answer, Pending), "what is carried out waits once"
        except CloseConnection as refusal:
            answer = refusal
        except Exception as error:
            if head is None:
                log.error("The answers of %s failed.", self.info.connection_id, exc_info=error)
                self.abort("its answers failed")
                return
            answer = self._fail(head, error)
        owed.future = None
        if isinstance(answer, CloseConnection):
            owed.refusal = str(answer)
        else:
            owed.answer = answer
        if owed is self._owed[0]:
            # One high watermark acknowledges several: their answers leave in one write.
            self._listener.loop.call_soon(self._pay)

    def _pay(self, *, is_last: bool = False) -> None:
        """Send the answers that are there, up to the first that is not; then serve who waits for that.

        When it `is_last` a peer that reads slowly is left to the transport.
        """
        if self.is_closed or (self._is_write_blocked and not (is_last and self._may_write())):
            return
        out: list[Piece] = []
        while self._owed and self._owed[0].future is None:
            owed = self._owed.popleft()
            if owed.refusal is not None:
                self._owed.clear()
                self._refuse(owed.refusal, out)
                return
            if owed.answer:
                out += owed.answer
        self._flush(out)
        if is_last:
            return
        if not self._owed and (self._is_held or self._is_ended):
            self._is_held = False
            if not self._is_busy:
                self._continue()  # to the next request, or to the end

    def _may_write(self) -> bool:
        return self._file_sender is None or not self._file_sender.is_sending

    def _only_waits(self) -> bool:
        """Whether nothing is under way, and nothing was asked behind what waits."""
        if self._waiting is None:
            return False
        if isinstance(self._waiting, asyncio.Task) and not self._ends_with_client:
            return False
        received = self._write_position - self._read_position
        if received < 4:
            return True
        return received < 4 + int(_SIZE.unpack_from(self._view, self._read_position)[0])

    def _wait_for(self, pending: Pending, frame: memoryview) -> None:
        """Serve nothing more of this connection until the answer is there."""
        awaitable = pending.awaitable
        future: asyncio.Future[Any]
        if asyncio.isfuture(awaitable):
            future = awaitable
        else:
            future = self._listener.start_task(_outcome_of(awaitable))
            if asyncio.iscoroutine(awaitable):
                # A node that ends in this very turn never begins it; Python would warn of that.
                future.add_done_callback(lambda _: awaitable.close())
        self._is_busy = True
        self._waiting, self._ends_with_client = future, pending.ends_with_client
        future.add_done_callback(lambda done: self._answered(done, pending, frame))
        self._release = pending.release
        if pending.ends_with_client:
            self._listener.loop.call_later(LOOK_FOR_END_SECONDS, self._look_for_end, future)
        if self._is_ended and self._only_waits():
            self.close()  # as `eof_received`
        elif self._read_position < self._write_position:
            self._release_waiting()

    def _look_for_end(self, waiting: "asyncio.Future[Any]") -> None:
        """See whether the client has gone while nothing is read: a frame that fills its buffer leaves no room
        for more, and the end of the stream is not told then.
        """
        if self.is_closed or self._waiting is not waiting:
            return
        if not self._is_reading and _has_ended(self._transport):
            self._transport.abort()
            return
        self._listener.loop.call_later(LOOK_FOR_END_SECONDS, self._look_for_end, waiting)

    def _release_waiting(self) -> None:
        """What waits for news must not keep others waiting."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def _answered(self, future: "asyncio.Future[Any]", pending: Pending, frame: memoryview) -> None:
        self._waiting = self._release = None
        if self.is_closed:
            if not future.cancelled():
                future.exception()  # Nobody is left to be told.
            return
        if future.cancelled():
            self.abort("the node stops")
            return
        answer: Answer | Pending | CloseConnection
        try:
            result = future.result()
            if type(result) is _Failure:
                raise result.error
            answer = pending.encode(result)
        except CloseConnection as refusal:
            answer = refusal
        except Exception as error:
            answer = self._fail(frame, error)
        if isinstance(answer, CloseConnection):
            self._refuse_in_turn(str(answer), [])
            return
        if type(answer) is Pending:
            if answer.is_carried_out:
                self._owe(answer, frame)
                self._continue()
            else:
                self._wait_for(answer, frame)
            return
        pieces = cast(Answer, answer)
        if pieces and self._owed:
            self._owed.append(_Owed(None, pieces))
        elif pieces:
            self._flush(pieces, is_awaited=True)
        self._continue()

    def _continue(self) -> None:
        self._is_busy = False
        if not self.is_closed and not self._is_held and not self._is_write_blocked:
            self._serve_frames()

    # ---- the receive buffer ----------------------------------------------------------------------

    def _make_room(self) -> None:
        """See to it that the next read has room, and the half-received frame a place to end."""
        if self._awaits_memory:
            return
        capacity = len(self._view)
        if self._is_busy or self._is_held or self._is_write_blocked:
            self._read_limit = capacity
            if self._write_position == capacity:
                self._pause_reading()
            return
        memory = self._listener.memory
        received = self._write_position - self._read_position
        if capacity > INITIAL_BUFFER_BYTES and memory.is_scarce and self._read_position:
            # A frame was served: what it took goes to others, and the next one asks for its own.
            self._replace_buffer(max(INITIAL_BUFFER_BYTES, received))
        elif not received and self._write_position == self._read_limit:
            self._read_ahead()
        if memory.owner_in_debt is self and self._read_position:
            memory.settle(self)  # Its frame was served, and there is enough by now.
        capacity = len(self._view)
        if not received:
            self._read_position = self._write_position = 0
        elif self._read_position and self._read_position + max(self._frame_bytes, 4) > capacity:
            # The frame would end beyond the buffer: to the front with what there is of it.
            self._view[:received] = self._view[self._read_position : self._write_position]
            self._read_position, self._write_position = 0, received
        if self._write_position == capacity:
            self._grow(received)
            return
        self._set_read_limit()
        if self._turn_ends and time.perf_counter() >= self._turn_ends:
            self._is_resting = True
            self._pause_reading()
        else:
            self._resume_reading()

    def _end_turn(self) -> None:
        if self._is_resting and not self.is_closed and self._listener.must_rest():
            self._listener.loop.call_later(REST_SECONDS, self._end_turn)
            return
        self._turn_ends = 0.0
        if self._is_resting:
            self._is_resting = False
            if not self._awaits_memory:
                self._resume_reading()

    def _give_buffer_back(self) -> None:
        """A large frame was served, and what it asked for is waited for without it."""
        needed_bytes = max(INITIAL_BUFFER_BYTES, self._write_position - self._read_position)
        if needed_bytes < len(self._view):
            self._replace_buffer(needed_bytes)

    def _set_read_limit(self) -> None:
        room = len(self._view) - self._read_position
        if LARGE_FRAME_BYTES <= self._frame_bytes < room:
            room -= room % self._frame_bytes
        self._read_limit = self._read_position + room

    def _read_ahead(self) -> None:
        """The last read took all it had room for: let the next one take what a client has in flight."""
        frames = min(READ_AHEAD_FRAMES, READ_AHEAD_BYTES // self._last_frame_bytes)
        size_bytes = frames * self._last_frame_bytes
        if size_bytes > len(self._view) and self._listener.memory.is_plentiful:
            self._replace_buffer(size_bytes)

    def _grow(self, received: int) -> None:
        """At most twice the buffer, for it is full: what is announced but not sent is not paid for."""
        size_bytes = min(2 * received, self._frame_bytes)
        if self._listener.memory.reserve(self, size_bytes, lambda: self._granted(size_bytes)):
            self._granted(size_bytes)
        else:
            self._awaits_memory = True
            self._pause_reading()

    def _granted(self, size_bytes: int) -> None:
        if self.is_closed:
            self._listener.memory.release(size_bytes)
            return
        self._awaits_memory = False
        # Both buffers exist while bytes are copied, and the old one for as long as a waiting request uses it.
        self._listener.memory.release(len(self._view))
        self._exchange_buffer(size_bytes)
        self._set_read_limit()
        self._resume_reading()

    def _replace_buffer(self, size_bytes: int) -> None:
        memory = self._listener.memory
        memory.take(size_bytes)
        memory.release(len(self._view))
        memory.settle(self)
        self._exchange_buffer(size_bytes)
        self._set_read_limit()

    def _exchange_buffer(self, size_bytes: int) -> None:
        if size_bytes > WIDENING_FRAME_BYTES and not self._window_bytes:
            self._window_bytes = self._listener.receive_windows.widen(
                self._transport.get_extra_info("socket")
            )
        if (
            self._map is not None
            and self._read_position == 0
            and len(self._view) < size_bytes <= len(self._map)
        ):
            self._view = memoryview(self._map)[:size_bytes]
            return
        received = self._write_position - self._read_position
        self._map = _memory_for(self._frame_bytes) if size_bytes > MAPPED_BYTES else None
        if self._map is not None and size_bytes <= len(self._map):
            view = memoryview(self._map)[:size_bytes]
        else:
            self._map, view = None, memoryview(bytearray(size_bytes))
        view[:received] = self._view[self._read_position : self._write_position]
        self._view = view
        self._read_position, self._write_position = 0, received

    def _pause_reading(self) -> None:
        if self._is_reading and not self.is_closed:
            self._is_reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._is_reading and not self.is_closed:
            self._is_reading = True
            self._transport.resume_reading()


def _memory_for(frame_bytes: int) -> mmap.mmap | None:
    """Memory that costs nothing before it is used; None if there is no frame."""
    if not frame_bytes:
        return None
    return mmap.mmap(-1, frame_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _no_frame(head: Buffer, frame_bytes: int) -> str:
    """Say why no request begins with these bytes."""
    foreign = foreign_protocol(head)
    if foreign == "HTTP":
        return "it speaks HTTP to a listener of the Kafka protocol; the REST API has a port of its own"
    if foreign == "TLS":
        return "it speaks TLS to a listener of the Kafka protocol that has none (PLAINTEXT)"
    return f"a frame of {frame_bytes} bytes is beyond socket.request.max.bytes"
