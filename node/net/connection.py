"""One client's connection: receives requests, serves them one by one in order, sends responses in that order.

The promise: whatever the peer sends, the connection holds no more than its `ReceiveBuffer` may (and all
connections together no more than `ReceiveMemory` allows), answers in the order of the requests, and closes
with one line in the log if the bytes are not Kafka's. While the peer does not read its responses, the
connection does not read from it.

Its states and all moves between them are in `connection_states`. While a request waits for its answer,
memoryviews of its records may still point into the receive buffer, so nothing received is moved or
overwritten then.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from ottla.logstore.disk import FileRecords
from ottla.logstore.words.schema import Buffer
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.peer_certificate import names_in
from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.net.act_for import Caller
from ottla.node.net.answers import Answer, CloseConnection, Pending, Service
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.connection_host import ConnectionHost
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.connection_states import READING_MOVES, SERVING_MOVES, Reading, Serving
from ottla.node.net.file_answers import FileAnswers
from ottla.node.net.file_pipe import Piece
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.login import Login
from ottla.node.net.not_served import LOOK_FOR_END_SECONDS, Failure, no_frame, outcome_of, peer_has_ended
from ottla.node.net.ordered_answers import OrderedAnswer, OrderedAnswers
from ottla.node.net.read_turn import ReadTurn
from ottla.node.net.receive_buffer import INITIAL_BUFFER_BYTES, LARGE_FRAME_BYTES, SIZE_BYTES, ReceiveBuffer
from ottla.node.net.receive_windows import WIDENING_FRAME_BYTES
from ottla.node.net.throttle import Throttle

WRITE_HIGH_WATER_BYTES = 256 * 1024  # with more unsent, the peer's next request waits
# Responses of one turn are joined up to this size: with 20 small ones that saves 2 us each over a writev.
JOIN_LIMIT_BYTES = 16 * 1024
FRAME_HEAD_BYTES = 8  # api key, version, correlation id: all that an error response needs
# Of one connection before others get their turn: 32 x 20 us is 0.6 ms, and with TLS twice that. A flood comes
# over many connections, each of which has a turn in one iteration of the loop.
MAX_REQUESTS_PER_TURN = 32
# Enum members as names of the module: looking one up in its class takes as long as a small call.
_READY, _BLOCKED, _YIELDING, _WAITING, _HELD, _THROTTLED, _REFUSED, _CLOSED = Serving
_ON, _OFF, _RESTING, _STARVED = Reading

log = logging.getLogger(__name__)
_lines = ClientLines(log)


def _may_alter_cluster(access: Access) -> bool:
    """Return True if a principal is authenticated and may alter the cluster."""
    return access.principal != ANONYMOUS and access.is_granted_of_cluster(AclOperation.ALTER)


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket (asyncio demands the base class)."""

    __slots__ = (
        "_awaited",
        "_files",
        "_gathered",
        "_has_ended",
        "_listener",
        "_ordered",
        "_proven_service",
        "_release",
        "_service",
        "_throttle",
        "_transport",
        "_turn",
        "_unsent_bytes",
        "_waiting",
        "_window_bytes",
        "buffer",
        "file_number",
        "info",
        "is_write_blocked",
        "last_active_tick",
        "login",
        "peer_challenge",
        "reading",
        "state",
    )

    def __init__(self, listener: "ConnectionHost[Connection]") -> None:
        self._listener = listener
        self._service = listener.service
        self._proven_service = listener.service  # used once the other end is proven to be a node
        self._gathered: GatheredAnswers = listener.gathered
        self.buffer = ReceiveBuffer(listener.memory, listener.max_frame_bytes)
        self._ordered = OrderedAnswers()
        self.state: Serving = _READY
        self.reading: Reading = _ON
        self.is_write_blocked = False
        self._has_ended = False  # the peer sends no more, but its requests are still to be answered
        self._unsent_bytes = 0  # when the peer was found not to read fast enough
        self._throttle: Throttle | None = None  # set once the peer exceeds a quota
        self._turn: ReadTurn | None = None  # of large reads
        self._window_bytes = 0  # of the kernel's receive window, if it was widened
        self._files: FileAnswers | None = None  # from the first answer that has records in files
        self._waiting: asyncio.Future[Any] | None = None  # the future that a request waits for
        self._awaited: Pending | None = None  # the same answer, with the properties that its request gave it
        self._release: Callable[[], None] | None = None  # of a request that waits for new records
        self.last_active_tick = listener.tick
        self.file_number = -1  # of its socket
        self.peer_challenge: Any = None  # between the two steps of a proof that the other end is a node
        self.login: Login | None = None  # while the client logs in, or if its login may expire
        self.info: ConnectionInfo = cast(ConnectionInfo, None)  # set by connection_made, before anything else
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)

    # ---- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.buffer.open()
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.file_number = sock.fileno()
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.info = self._listener.describe(transport)
        if sock is not None:
            self._listener.pace(self, sock)
        refusal = self._listener.admit(self)
        if not self.info.client_host:
            # The client reset the connection before it was accepted. What it had sent can still be read, but
            # not judged: limits and ACLs are by address.
            self.expire()
        elif refusal:
            self.abort(refusal)
        elif (gate := self._listener.login_gate) is not None:
            gate.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        if self.login is not None:
            self.login.connection_ended()
        if self._files is not None:
            self._files.close()
        self._release_waiting()
        waiting, self._waiting = self._waiting, None
        # A request that only waits is given up; one that is under way continues without its client.
        if waiting is not None and not self._is_under_way(waiting):
            waiting.cancel()
        self._ordered.give_up()
        self.buffer.close(self)
        self.release_unsent()
        self._listener.receive_windows.give_back(self._window_bytes)
        self._listener.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self.buffer
        return buffer.view[buffer.end : buffer.limit]

    def buffer_updated(self, nbytes: int) -> None:
        self.buffer.end += nbytes
        self.last_active_tick = self._listener.tick
        if nbytes >= LARGE_FRAME_BYTES and self._turn is None:
            self._turn = ReadTurn(self, self._listener)
            self._gathered.send_all()  # Other responses do not wait for a read that may take long.
        if self.state is _READY:
            self._serve_frames()
            return
        # While a request waits, one more read is taken, but not a second.
        self._pause_reading()
        self._release_waiting()

    def eof_received(self) -> bool:
        """Keep a half-closed connection until its requests are answered, as Apache Kafka does.

        A request that only waits (a long poll) is given up: in most cases the client is gone.
        """
        self._gathered.send_all()  # The transport may close, and does not know of the gathered responses.
        if self.state is _CLOSED:
            return not self._may_write()
        if self.state is _THROTTLED and not self._ordered.in_order and not self.buffer.has_whole_frame:
            return False  # nothing is left to be answered
        if not self._only_waits():
            self._has_ended = self.state is not _READY or bool(self._ordered.in_order)
        return self._has_ended

    def pause_writing(self) -> None:
        self._block()
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._listener.unsent.hold(self, self._unsent_bytes)

    def resume_writing(self) -> None:
        self.is_write_blocked = False
        self.release_unsent()
        if self._ordered.in_order:
            self._send_ready()
        if self.state is _BLOCKED and not self.is_write_blocked:
            self._continue()

    def write(self, answer: Buffer) -> None:
        """Write a response to the transport (`GatheredAnswers`)."""
        self._transport.write(answer)

    # ---- called by the service ----------------------------------------------------------------------

    def recognize(self, peer_id: int) -> None:
        """Note that the other end is proven to be that node of the cluster, and serve it every API."""
        self._service = self._proven_service
        self._listener.recognize(self, peer_id)

    def act_for(self, caller: Caller) -> None:
        """Note that the REST API of a node acts for this caller from now on.

        If the node's own login had taken a place reserved for administrators, only an administrator keeps it.
        """
        access = self._listener.access_of(caller.principal, caller.host)
        self.info = replace(
            self.info, access=access, caller_host=caller.host, caller_is_local=caller.is_local
        )
        if self._listener.is_administrator(self) and not _may_alter_cluster(access):
            self.abort(
                "the limits of connections are reached, and the remaining places are for administrators"
            )

    def serve_by(self, service: "Service[Connection]", max_frame_bytes: int | None = None) -> None:
        """Serve all further frames by another service; by default with the usual limit of a frame's size."""
        self._service = service
        self.buffer.max_frame_bytes = max_frame_bytes or self._listener.max_frame_bytes

    def serve_after_login(self, service: "Service[Connection]") -> None:
        """Serve a client that has logged in.

        Beyond the limits of connections only administrators, and clients that prove to be nodes, are served.
        """
        self._proven_service = service
        is_beyond = self._listener.is_beyond_limits(self)
        self.serve_by(self._listener.opening_service if is_beyond else service)

    def certificate_names(self) -> frozenset[str]:
        """Return the names in the certificate that the other end has shown; empty without one."""
        return names_in(self._transport.get_extra_info("peercert"))

    def throttle(self, throttle_ms: int) -> None:
        """Serve no more requests for this time; responses are still sent, the present request's included."""
        if self._throttle is None:
            self._throttle = Throttle(self._listener.loop)
        self._throttle.extend(throttle_ms)
        if self.state is _READY:
            self._begin_throttle(self._throttle)

    # ---- called by a transport with TLS, or by a login -------------------------------------------------

    def identify(self, principal: str) -> None:
        """Note the authenticated principal of the other end, before anything is served.

        Beyond the limits of connections an administrator keeps its connection, if there is room for it.
        """
        access = self._listener.access_of(principal, self.info.client_host)
        self.info = replace(self.info, access=access)
        if self._listener.is_beyond_limits(self) and _may_alter_cluster(access):
            self._listener.admit_administrator(self)
            if self._service is self._listener.opening_service and not self._listener.is_beyond_limits(self):
                self._service = self._proven_service

    def refuse(self, reason: str) -> None:
        """Close and log the reason, once all earlier requests have their responses."""
        if self.state is not _CLOSED:
            self._refuse_in_turn(reason, [])

    # ---- called by the listener ------------------------------------------------------------------

    def serve_only_opening(self) -> None:
        """Serve only the handshake of peers, until the other end is recognized."""
        self._service = self._listener.opening_service

    def abort(self, reason: str) -> None:
        """Close at once, drop unsent responses, and log the reason."""
        if self.state is not _CLOSED:
            self._end()
            self._listener.log_rejected(self.info, reason)
        self._transport.abort()

    def release_unsent(self) -> None:
        """Stop counting unsent responses: they were sent, or never will be."""
        self._listener.unsent.release(self, self._unsent_bytes)
        self._unsent_bytes = 0

    def expire(self) -> None:
        """Close at once without a log line, as Kafka does with a connection that was idle for too long."""
        self._end()
        self._transport.abort()

    def close(self) -> None:
        """Close once the responses that are ready are sent; requests that still wait get none."""
        if self.state is _CLOSED:
            return
        if self._ordered.in_order:
            self._send_ready(is_last=True)
            if self.state is _CLOSED:
                return  # a refusal among the owed answers has closed it
        self._gathered.send_all()
        self._pause_reading()  # there may be no room for further bytes, and they are not served
        self._end()
        if self._may_write():
            self._transport.close()

    @property
    def is_throttled(self) -> bool:
        """Return True while a quota makes the peer wait; it does not count as idle then."""
        return self.state is _THROTTLED

    @property
    def is_inside_frame(self) -> bool:
        """Return True while a frame larger than the smallest buffer is partly received."""
        return self.buffer.frame_bytes > INITIAL_BUFFER_BYTES

    @property
    def waits_with_large_frame(self) -> bool:
        """Return True while a request waits for its answer and holds a buffer that others may need."""
        return self._waiting is not None and len(self.buffer.view) > INITIAL_BUFFER_BYTES

    def shrink(self) -> None:
        """Give back memory that was not needed since the last sweep."""
        self.buffer.shrink(self, is_in_use=self._waiting is not None)

    # ---- states ------------------------------------------------------------------------------------

    def _move(self, state: Serving) -> None:
        assert state in SERVING_MOVES[self.state], f"{self.state.name} -> {state.name}"
        self.state = state

    def _end(self) -> None:
        """Serve nothing more."""
        if self.state is not _CLOSED:
            self._move(_CLOSED)

    def _block(self) -> None:
        """Note that the peer does not read its responses."""
        self.is_write_blocked = True
        if self.state is _READY:
            self._move(_BLOCKED)

    def _continue(self) -> None:
        """Serve the next request, which no longer has to wait."""
        if self.state is _CLOSED:
            return
        if self.is_write_blocked:
            self._move(_BLOCKED)
            return
        if self._throttle is not None:
            if not self._throttle.is_over():
                self._begin_throttle(self._throttle)
                return
            self._throttle = None
        self._move(_READY)
        self._serve_frames()

    def _begin_throttle(self, throttle: Throttle) -> None:
        self._move(_THROTTLED)
        throttle.wait_out(self)

    def end_throttle(self) -> None:
        """Serve the next request (`Throttle`)."""
        self._continue()

    def end_if_peer_has_gone(self) -> bool:
        """Abort the connection if its peer is gone; return True if so.

        While reading is paused, the loop does not report the end of the stream.
        """
        if self.reading is _ON or not peer_has_ended(self._transport):
            return False
        self._transport.abort()
        return True

    # ---- serving ---------------------------------------------------------------------------------

    def _serve_frames(self) -> None:
        """Serve all whole frames of the buffer, then make room for the next read."""
        buffer, ordered = self.buffer, self._ordered.in_order
        view, position, end = buffer.view, buffer.start, buffer.end
        if end - position > buffer.peak_bytes:
            buffer.peak_bytes = end - position
        service = self._service
        serve, serve_run = service.serve, service.serve_run
        out: list[Piece] = []
        served = 0
        buffer.frame_bytes = 0
        while self.state is _READY and position != end and (stop := buffer.frame_end(position)):
            if stop < 0:
                reason = no_frame(
                    view[position : position + SIZE_BYTES],
                    is_login=buffer.max_frame_bytes < self._listener.max_frame_bytes,
                )
                self._refuse_in_turn(reason, out)
                return
            if served >= MAX_REQUESTS_PER_TURN:
                self._move(_YIELDING)
                self._listener.loop.call_soon(self._continue)
                break
            if ordered and not self._ordered.may_serve(view, position + SIZE_BYTES, stop):
                self._move(_HELD)
                break
            if stop - position > LARGE_FRAME_BYTES:
                self._gathered.send_all()
            if stop < end and (run := serve_run(self, view, position, end)) is not None:
                served += run.requests
                buffer.last_frame_bytes = (run.stop - position) // run.requests
                buffer.start = position = run.stop
                if type(run.answers) is Pending:
                    self._flush(out)
                    out = []
                    self._await_answer(run.answers, None)
                elif ordered:
                    self._ordered.add(cast(Answer, run.answers))
                else:
                    out += cast("list[Piece]", run.answers)
                continue
            served += 1
            frame = view[position + SIZE_BYTES : stop]
            buffer.last_frame_bytes = stop - position
            buffer.start = position = stop
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
            if self._service is not service:  # the client has logged in, or started to log in again
                service = self._service
                serve, serve_run = service.serve, service.serve_run
            if type(answer) is list:
                if ordered:
                    self._ordered.add(answer)
                    continue
                out += answer
                if len(answer) > 1:
                    # Records may fill the peer's window, which must be known before the next request.
                    self._flush(out)
                    out = []
            elif type(answer) is Pending:
                self._flush(out)
                out = []
                if answer.is_carried_out:
                    self._await_answer(answer, frame)
                    continue
                if answer.keeps_nothing:
                    self._wait_for(answer, memoryview(bytes(frame[:FRAME_HEAD_BYTES])))
                    buffer.give_back(self)
                else:
                    self._wait_for(answer, frame)
                break
        if out:
            self._flush(out)
        if self._has_ended and self.state is _READY and not ordered:
            self.close()
        else:
            self._make_room()

    def _flush(self, out: list[Piece], *, is_awaited: bool = False) -> None:
        """Send the responses of one turn together: in one write, and one packet if they fit."""
        if not out:
            return
        send_small = self._gathered.send_awaited if is_awaited else self._gathered.send
        if len(out) == 1:
            send_small(self, cast(Buffer, out[0]))
        elif FileRecords in map(type, out):  # They are larger than the join limit and follow a header.
            self._gathered.send_all()
            if self._files is None:
                self._files = FileAnswers(
                    self._transport,
                    self.file_number,
                    self._listener,
                    finished=self._files_sent,
                    failed=self._files_failed,
                )
            if not self._files.send(out):
                self._block()
        elif sum(map(len, out)) <= JOIN_LIMIT_BYTES:
            send_small(self, b"".join(cast("list[Buffer]", out)))
        else:
            self._gathered.send_all()
            self._transport.writelines(cast("list[Buffer]", out))

    def _files_sent(self) -> None:
        if self.state is _CLOSED:
            self._transport.close()
        else:
            self.resume_writing()

    def _files_failed(self, reason: str) -> None:
        log.debug("Closed connection %s: %s", self.info.connection_id, reason)
        self.expire()  # Half a response was its last.

    def _refuse_in_turn(self, reason: str, out: list[Piece]) -> None:
        """Close for bytes that are refused, once all earlier requests have their responses."""
        if self.state is _CLOSED:  # the earlier responses may exceed what the peer reads
            return
        if not self._ordered.in_order:
            self._refuse(reason, out)
            return
        assert not out, "an answer behind an owed one is owed, too"
        self._ordered.add_refusal(reason)
        self._move(_REFUSED)
        self._pause_reading()

    def _refuse(self, reason: str, out: list[Piece]) -> None:
        """Send the earlier responses, then close: Kafka has no other answer to malformed bytes."""
        self._flush(out)
        self._listener.log_rejected(self.info, reason)
        self.close()

    def _fail(self, frame: memoryview, error: BaseException) -> "Answer | CloseConnection":
        """Return the response to a request that failed by a bug of ours or a broken disk.

        Return the reason instead if the connection has to be closed.
        """
        try:
            return self._service.fail(self, frame, error)
        except CloseConnection as refusal:
            return refusal

    # ---- answers that are owed ---------------------------------------------------------------------

    def _await_answer(self, pending: Pending, frame: memoryview | None) -> None:
        """Owe an answer that comes later; later requests are answered after it. `frame` is None for a run."""
        future = cast("asyncio.Future[Any]", pending.awaitable)
        ordered = self._ordered.await_answer(future)
        # The buffer is reused before the answer comes.
        head = None if frame is None else bytes(frame[:FRAME_HEAD_BYTES])
        future.add_done_callback(lambda done: self._settle_answer(ordered, done, pending, head))

    def _settle_answer(
        self, ordered: OrderedAnswer, future: "asyncio.Future[Any]", pending: Pending, head: bytes | None
    ) -> None:
        if self.state is _CLOSED:
            return
        if future.cancelled():
            self.abort("the node is stopping")
            return
        answer: Answer = None
        refusal: str | None = None
        try:
            found = pending.encode(future.result())
            assert type(found) is not Pending, "a request that is carried out waits once"
            answer = cast(Answer, found)
        except CloseConnection as why:
            refusal = str(why)
        except Exception as error:
            if head is None:
                _lines.log(
                    logging.ERROR,
                    self.info.client_host,
                    "The responses to connection %s failed.",
                    self.info.connection_id,
                    error=error,
                )
                self.abort("its responses failed")
                return
            failed = self._fail(memoryview(head), error)
            if isinstance(failed, CloseConnection):
                refusal = str(failed)
            else:
                answer = failed
        if self._ordered.settle(ordered, answer, refusal):
            # An advance of the high watermark acknowledges several; their responses leave in one write.
            self._listener.loop.call_soon(self._send_ready)

    def _send_ready(self, *, is_last: bool = False) -> None:
        """Send the finished answers up to the first unfinished one, then serve a held request.

        With `is_last` the responses are written even if the peer reads slowly; the transport keeps them.
        """
        if self.state is _CLOSED or (self.is_write_blocked and not (is_last and self._may_write())):
            return
        out, refusal = self._ordered.take()
        if refusal is not None:
            self._refuse(refusal, out)
            return
        self._flush(out)
        if is_last or self._ordered.in_order:
            return
        if self.state is _HELD:
            self._continue()
        elif self._has_ended and self.state is _READY:
            self.close()

    def _may_write(self) -> bool:
        return self._files is None or not self._files.is_sending

    def _only_waits(self) -> bool:
        """Return True if the waiting request changes nothing, and no complete request follows it."""
        waiting = self._waiting
        return waiting is not None and not self._is_under_way(waiting) and not self.buffer.has_whole_frame

    def _is_under_way(self, waiting: "asyncio.Future[Any]") -> bool:
        """Return True if a waiting request may change something; it then continues without its client."""
        awaited = self._awaited
        return isinstance(waiting, asyncio.Task) and not (awaited is not None and awaited.ends_with_client)

    def _wait_for(self, pending: Pending, frame: memoryview) -> None:
        """Serve no more requests of this connection until the answer is there."""
        awaitable = pending.awaitable
        future: asyncio.Future[Any]
        if asyncio.isfuture(awaitable):
            future = awaitable
        else:
            future = self._listener.start_task(outcome_of(awaitable))
            if asyncio.iscoroutine(awaitable):
                # A node that stops in this turn never starts the coroutine, and Python would warn.
                future.add_done_callback(lambda _: awaitable.close())
        if self.state is not _CLOSED:  # otherwise `connection_lost` gives it up
            self._move(_WAITING)
        self._waiting, self._awaited = future, pending
        future.add_done_callback(lambda done: self._answered(done, pending, frame))
        self._release = pending.release
        if pending.ends_with_client:
            self._listener.loop.call_later(LOOK_FOR_END_SECONDS, self._look_for_end, future)
        if self._has_ended and self._only_waits():
            self.close()  # as `eof_received`
        elif self.buffer.start < self.buffer.end:
            self._release_waiting()

    def _look_for_end(self, waiting: "asyncio.Future[Any]") -> None:
        """Check if the client is gone: a frame that fills its buffer leaves no room to read further."""
        if self.state is _CLOSED or self._waiting is not waiting:
            return
        if not self.end_if_peer_has_gone():
            self._listener.loop.call_later(LOOK_FOR_END_SECONDS, self._look_for_end, waiting)

    def _release_waiting(self) -> None:
        """Complete a request that waits for new records, since another request is behind it."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def _answered(self, future: "asyncio.Future[Any]", pending: Pending, frame: memoryview) -> None:
        self._waiting = self._awaited = self._release = None
        if self.state is _CLOSED:
            if not future.cancelled():
                future.exception()  # mark the exception as retrieved: no client is left to answer
            return
        if future.cancelled():
            self.abort("the node is stopping")
            return
        answer: Answer | Pending | CloseConnection
        try:
            result = future.result()
            if type(result) is Failure:
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
                self._await_answer(answer, frame)
                self._continue()
            else:
                self._wait_for(answer, frame)
            return
        pieces = cast(Answer, answer)
        if pieces and self._ordered.in_order:
            self._ordered.add(pieces)
        elif pieces:
            self._flush(pieces, is_awaited=True)
        self._continue()

    # ---- reading -----------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Make room for the next read, or stop reading if there is none."""
        if self.reading is _STARVED:
            return
        if self.state is not _READY:
            if not self.buffer.keep():
                self._pause_reading()
            return
        size_bytes = self.buffer.make_room(self)
        if size_bytes:
            self._grow(size_bytes)
        elif self._turn is not None and self._turn.is_over():
            self._stop_reading(_RESTING)
        elif self.reading is not _ON:
            self._resume_reading()

    def end_turn(self) -> None:
        """Let the next large read start another turn (`ReadTurn`)."""
        self._turn = None
        if self.reading is _RESTING:
            self._resume_reading()

    def _grow(self, size_bytes: int) -> None:
        if self._listener.memory.reserve(self, size_bytes, lambda: self._granted(size_bytes)):
            self._granted(size_bytes)
        else:
            self._stop_reading(_STARVED)

    def _granted(self, size_bytes: int) -> None:
        if self.state is _CLOSED:
            self._listener.memory.release(size_bytes)
            return
        if size_bytes > WIDENING_FRAME_BYTES and not self._window_bytes:
            self._window_bytes = self._listener.receive_windows.widen(
                self._transport.get_extra_info("socket")
            )
        self.buffer.grow(size_bytes)
        self._resume_reading()

    def _pause_reading(self) -> None:
        if self.reading is _ON:
            self._stop_reading(_OFF)

    def _stop_reading(self, why: Reading) -> None:
        if self.state is _CLOSED or self.reading is why:
            return
        assert why in READING_MOVES[self.reading], f"{self.reading.name} -> {why.name}"
        if self.reading is _ON:
            self._transport.pause_reading()
        self.reading = why

    def _resume_reading(self) -> None:
        if self.reading is not _ON and self.state is not _CLOSED:
            assert _ON in READING_MOVES[self.reading], f"{self.reading.name} -> ON"
            self.reading = _ON
            self._transport.resume_reading()
