"""The connections of the REST API: their limit, their deadlines, and the choice of one to close.

When all places are taken, a new connection gets the place of one that waits for its client: for a request,
for a body, or for an answer to be read. It is the one that has been idle for longest among those of the
address with most connections. So no client can keep others out with idle connections, and a proxy may have as
many as it needs.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.web_protocol import RequestHandler

from ottla.node.net.connection_info import network_of
from ottla.node.net.server_tls import ServerTls
from ottla.node.rest_api.http_answer import error_answer
from ottla.node.rest_api.request_turns import RequestTurns
from ottla.node.rest_api.rest_error import RestError
from ottla.node.work.pause import until_next

MAX_CONNECTIONS: Final = 1024  # each costs an open file, which logs and Kafka clients need too
FIRST_REQUEST_TIMEOUT_S: Final = 30.0  # for a connection that sends no request
STALLED_TIMEOUT_S: Final = 30.0  # for a client that reads nothing of its answer
KEEPALIVE_TIMEOUT_S: Final = 75.0
SWEEP_S: Final = 0.5
MAX_WORDS: Final = 200  # characters of aiohttp's text about a malformed request


class HttpConnections:
    """The places of one node, on one loop; `run` closes the connections past their deadline."""

    def __init__(self) -> None:
        # By address; the connection that has been idle for longest is the first.
        self._places: dict[str, dict[HttpConnection, None]] = {}
        self._count = 0

    async def run(self) -> None:
        """Close connections that are past their deadline, forever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(until_next(SWEEP_S))
            now_s = loop.time()
            for one in [each for places in self._places.values() for each in places]:
                if one.deadline_s < now_s:
                    one.cut_off()

    def enter(self, connection: "HttpConnection") -> bool:
        """Give a connection a place, if need be by closing another; return False if there is none."""
        if self._count >= MAX_CONNECTIONS:
            stillest = self._stillest()
            if stillest is None:
                return False
            # Not left to `connection_lost`: others may come before it, and each would close another
            # connection.
            self.leave(stillest)
            stillest.cut_off()
        self._places.setdefault(connection.address, {})[connection] = None
        self._count += 1
        return True

    def _stillest(self) -> "HttpConnection | None":
        for places in sorted(self._places.values(), key=len, reverse=True):
            for one in places:
                if not one.is_at_work:
                    return one
        return None

    def moved(self, connection: "HttpConnection") -> None:
        """Note that bytes came from the client or went to it."""
        places = self._places.get(connection.address, {})
        if connection in places:
            del places[connection]
            places[connection] = None

    def leave(self, connection: "HttpConnection") -> None:
        places = self._places.get(connection.address, {})
        if connection in places:
            del places[connection]
            self._count -= 1
            if not places:
                del self._places[connection.address]


class HttpConnection(RequestHandler):
    """A connection that has a place. The answer to malformed HTTP, or too long a line, is in JSON too."""

    __slots__ = (
        "_body",
        "_has_turn",
        "_held",
        "_on_handshake_complete",
        "_places",
        "_socket",
        "_turns",
        "_work",
        "address",
        "deadline_s",
        "is_at_work",
        "local",
        "logged_in",
        "peer",
        "principal",
        "proven_user",
        "tls",
    )

    def __init__(
        self, places: HttpConnections, turns: RequestTurns, server: web.Server, **settings: Any
    ) -> None:
        super().__init__(server, keepalive_timeout=KEEPALIVE_TIMEOUT_S, **settings)
        self._places = places
        self._turns = turns
        self._held = b""  # bytes received that wait for their turn
        self._has_turn = False  # bytes were handled in a turn, and no request has used it yet
        self._socket: asyncio.Transport | None = None
        self._body: StreamReader | None = None  # of the last request received
        self._work: asyncio.Task[Any] | None = None  # work to cancel if the client disconnects
        self._on_handshake_complete: Callable[[], object] = lambda: None
        self.tls: ServerTls | None = None  # None: the connection is not encrypted
        self.principal: str | None = None  # of its certificate, once that was examined
        self.logged_in: str | None = None  # the principal of the last login over it, which is counted once
        self.proven_user = ""  # the user whose correct password was last sent over it
        self.peer = self.local = ""  # the addresses of both ends, which a closed transport does not have
        self.address = ""  # `network_of` the client
        self.deadline_s = math.inf  # of the loop's clock: it is cut off then unless bytes move
        self.is_at_work = False  # it waits for the node, not for its client

    def note_tls(self, tls: ServerTls, on_handshake_complete: Callable[[], object]) -> None:
        """Note that the connection is encrypted; `on_handshake_complete` is called after its handshake."""
        self.tls, self._on_handshake_complete = tls, on_handshake_complete

    def certificate(self) -> bytes | None:
        """Return the client's certificate (DER), or None if it sent none."""
        tls = None if self._socket is None else self._socket.get_extra_info("ssl_object")
        return None if tls is None else cast("bytes | None", tls.getpeercert(binary_form=True))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._on_handshake_complete()
        self._socket = cast(asyncio.Transport, transport)  # uvloop's transport has the methods, not the type
        self.peer, self.local = (
            str((transport.get_extra_info(name) or ("",))[0]) for name in ("peername", "sockname")
        )
        self.address = network_of(self.peer)
        # Without an address the client has reset the connection. What it had sent could still be read, but
        # not judged by limits and ACLs.
        if self.peer and self._places.enter(self):
            super().connection_made(transport)
            self._expires_in(FIRST_REQUEST_TIMEOUT_S)
        else:
            self._socket.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._places.leave(self)
        work, self._work = self._work, None
        super().connection_lost(exc)
        if work is not None:
            work.cancel()

    def data_received(self, data: bytes) -> None:
        if self._held:  # over TLS, more bytes may arrive although reading is paused
            self._held += data
        elif self._turns.take_turn(self, self.address, data):
            self._handle(data)
        else:
            assert self._socket is not None
            self._held = data
            self._socket.pause_reading()

    def handle_held(self) -> None:
        """Handle the bytes that were held, in the connection's turn."""
        held, self._held = self._held, b""
        if held and self._socket is not None and not self._socket.is_closing():
            self._socket.resume_reading()
            self._handle(held)

    def _handle(self, data: bytes) -> None:
        self._has_turn = True
        super().data_received(data)
        if self._messages:
            self._body = self._messages[-1][1]

    def eof_received(self) -> bool:  # type: ignore[override]  # theirs always lets it close
        """Return True to keep the connection open for an answer, since an incomplete body is answered with an
        error.
        """
        self.handle_held()
        if self.tls is not None or self._body is None or self._body.is_eof():
            return False  # nothing can be sent over TLS after its end
        self._body.set_exception(web.RequestPayloadError("The request body is incomplete."))
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expires_in(STALLED_TIMEOUT_S)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._goes_on()

    def moved(self) -> None:
        """Note that bytes came from the client or went to it."""
        self._places.moved(self)

    async def wait_for_turn(self, line: str) -> None:
        """Wait for the turn of a request that begins with this line, except the first one of a read.

        That one uses the turn in which the bytes were handled. Without further turns, all requests that
        arrive together would be served in one turn of the loop, up to megabytes of answers.
        """
        has_turn, self._has_turn = self._has_turn, False
        if not has_turn:
            waiting = _WaitingRequest()
            if not self._turns.take_turn(waiting, self.address, line.encode(errors="replace")):
                await waiting.turn.wait()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Mark the time in which a request is served; after it, aiohttp closes the connection if no other
        follows.
        """
        self._goes_on()
        try:
            yield
        finally:
            self.moved()
            # Later than aiohttp's time-out: after that an answer may still wait to be read.
            self._expires_in(KEEPALIVE_TIMEOUT_S + STALLED_TIMEOUT_S)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Mark the time in which the connection waits for the node; no other connection gets its place."""
        self.is_at_work = True
        try:
            yield
        finally:
            self.is_at_work = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Mark work that only answers the client: a disconnect of the client cancels the current task."""
        self._work = asyncio.current_task()
        try:
            yield
        finally:
            self._work = None

    def cut_off(self) -> None:
        """Close the connection at once; bytes not yet sent are lost."""
        self.force_close()
        if self._socket is not None:
            self._socket.abort()

    def _goes_on(self) -> None:
        self.moved()
        if not self.writing_paused:
            self.deadline_s = math.inf

    def _expires_in(self, seconds: float) -> None:
        self.deadline_s = self._loop.time() + seconds

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer that has begun cannot become another one")
        # The colon is followed by the bytes that came.
        words = (message or f"HTTP {status}").partition(":")[0][:MAX_WORDS]
        answer = error_answer(RestError(status, status, f"{words}."))
        answer.force_close()
        return answer


class _WaitingRequest:
    """A request that waits for a turn, behind others that its connection has received at once."""

    def __init__(self) -> None:
        self.turn = asyncio.Event()

    def handle_held(self) -> None:
        self.turn.set()
