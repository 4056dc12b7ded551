"""TLS of the REST API: the handshake of a connection before it speaks HTTP.

Each connection takes the keys that are valid when it arrives. At most `MAX_HANDSHAKES` are under way, each
for at most `HANDSHAKE_TIMEOUT_S`: when all places are taken, the address with most handshakes loses its
oldest one, so a client that opens connections and sends nothing does not keep others out. A client that
speaks HTTP without TLS gets an answer that says to use https, since a browser would otherwise show an empty
page.

The steps of handshakes are computed in two threads, fairly by address. While a thread computes, the socket is
not read, so no other code uses the TLS object. Failed and abandoned handshakes count against the address, as
those of Kafka listeners do.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from collections.abc import Callable
from typing import Final, cast

from ottla.logstore.words.errors import kept
from ottla.node.net.connection_info import network_of
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.login import FailureLimits, LoginCounts, NoFailureLimits
from ottla.node.net.server_tls import ServerTls
from ottla.node.rest_api.connections import HttpConnection

HANDSHAKE_TIMEOUT_S: Final = 10
SHUTDOWN_TIMEOUT_S: Final = 2  # for the peer's close_notify
MAX_HANDSHAKES: Final = 256  # each an open file and some 60 KiB
_METHODS: Final = (
    b"GET ",
    b"HEAD",
    b"POST",
    b"PUT ",
    b"PATC",
    b"DELE",
    b"OPTI",
)  # no TLS record begins like these
_SENTENCE: Final = b"This port speaks TLS: the address begins with https://\n"
HTTPS_REQUIRED_RESPONSE: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)


class TlsDoor:
    """The handshakes of one node's REST API, on one loop."""

    def __init__(
        self,
        current: Callable[[], ServerTls],
        connection: Callable[[], HttpConnection],
        *,
        limits: FailureLimits | None = None,
        counts: LoginCounts | None = None,
    ) -> None:
        """Take the current keys from `current`, and the protocol after the handshake from `connection`.

        A failed handshake counts as a failed login in `counts` and in `limits`.
        """
        self.limits = NoFailureLimits() if limits is None else limits
        self.counts = LoginCounts() if counts is None else counts
        self.executor = HandshakeExecutor(name="rest-handshake")
        self._current = current
        self._connection = connection
        self._handshakes: dict[str, dict[_Handshake, None]] = {}  # by address, oldest first
        self._count = 0

    def accept(self) -> asyncio.BaseProtocol:
        """Return the protocol for a socket that was just accepted."""
        tls, connection = self._current(), self._connection()
        handshake = _Handshake(self, tls, connection)
        connection.note_tls(tls, lambda: self.leave(handshake))
        return handshake

    def enter(self, handshake: "_Handshake") -> None:
        """Register a handshake; if all places are taken, cut off another one."""
        if self._count >= MAX_HANDSHAKES:
            largest = max(self._handshakes, key=lambda address: len(self._handshakes[address]))
            oldest = next(iter(self._handshakes[largest]))
            self.leave(oldest)
            oldest.cut_off()
        self._handshakes.setdefault(handshake.address, {})[handshake] = None
        self._count += 1

    def close(self) -> None:
        """End all handshakes, and stop the threads."""
        for one in [each for places in self._handshakes.values() for each in places]:
            one.cut_off()
        self.executor.close()

    def leave(self, handshake: "_Handshake") -> None:
        """Remove a handshake that is complete or lost its connection; may be called twice."""
        of_address = self._handshakes.get(handshake.address, {})
        if handshake in of_address:
            del of_address[handshake]
            self._count -= 1
            if not of_address:
                del self._handshakes[handshake.address]


class _Handshake(SSLProtocol):
    """A connection during its handshake, and the encryption after it (asyncio demands the base class)."""

    max_size = 32 * 1024  # of its buffer, which a connection keeps while it is idle
    # Attributes of asyncio's class.
    _sslobj: ssl.SSLObject
    _state: SSLProtocolState
    _process_outgoing: Callable[[], None]

    def __init__(self, door: TlsDoor, tls: ServerTls, connection: HttpConnection) -> None:
        self.address = ""
        self._door = door
        self._accepted: asyncio.Transport | None = None
        self._buffer: memoryview | None = None  # of the first bytes, until they have arrived
        self._has_begun = False
        self._counts_no_failure = False  # a failure was counted already, or the address is rejected anyway
        super().__init__(
            asyncio.get_running_loop(),
            connection,
            tls.context,
            cast("asyncio.Future[None]", None),  # no code awaits it
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport has the methods but not the type.
        self._accepted = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = network_of(str(peer[0]) if peer else "")
        self._door.enter(self)
        super().connection_made(self._accepted)

    def get_buffer(self, n: int) -> memoryview:
        given = super().get_buffer(n)
        if not self._has_begun:
            self._buffer = given
        return given

    def buffer_updated(self, nbytes: int) -> None:
        if not self._has_begun:
            self._has_begun = True
            assert self._buffer is not None and self._accepted is not None, "they are given first"
            first, self._buffer = bytes(self._buffer[: min(nbytes, 4)]), None
            if first in _METHODS:
                self._accepted.write(HTTPS_REQUIRED_RESPONSE)
                self._accepted.close()
                return
            if self._door.limits.is_refused(self.address, self._loop.time()):
                self._counts_no_failure = True
                self._accepted.abort()
                return
        super().buffer_updated(nbytes)

    def _do_handshake(self) -> None:
        """Have a thread compute the next step; there is none until the client has sent something."""
        if not self._has_begun or self._accepted is None:
            return
        self._accepted.pause_reading()
        self._door.executor.submit(self.address, self._step, self._step_taken, self.cut_off)

    def _step(self) -> Exception | None:
        """Continue the handshake, in a thread; return the exception that it raised."""
        try:
            self._sslobj.do_handshake()
        except (OSError, ValueError) as error:  # TLS errors are OSErrors; the loop examines them
            return kept(error)
        return None

    def _step_taken(self, outcome: object) -> None:
        if self._state is not SSLProtocolState.DO_HANDSHAKE or self._accepted is None:
            return  # the connection has ended in the meantime
        if outcome is None:
            self._accepted.resume_reading()
            self._on_handshake_complete(None)
        elif isinstance(outcome, ssl.SSLWantReadError):
            self._accepted.resume_reading()
            self._process_outgoing()
        else:
            self._counts_no_failure = True
            self._door.counts.failed += 1
            self._door.limits.note(self.address, self._loop.time())
            self._process_outgoing()  # sends the client the alert about its failure
            self._accepted.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        is_abandoned = self._has_begun and self._state is SSLProtocolState.DO_HANDSHAKE
        if is_abandoned and not self._counts_no_failure:
            self._door.limits.note(self.address, self._loop.time())
        self._door.leave(self)
        super().connection_lost(exc)

    def cut_off(self) -> None:
        """Close the connection at once."""
        if self._accepted is not None:
            self._accepted.abort()
