"""Links among voters and Kafka's protocol on one port of a controller, which brokers and tools use too.

The first bytes of a connection tell which it is. A link starts with a frame whose first byte is its purpose;
a Kafka request starts with the high byte of its API key, which differs. With TLS both are encrypted, so the
dialling end of a link names its protocol in its ClientHello (ALPN), which no Kafka client does. Nothing is
answered before the protocol is known. A link continues in the voter's thread, with the bytes received so far.

A connection that has sent too little to be recognized is closed after `OPENING_SECONDS`, or earlier if too
many wait; those of one address push each other out.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final, Protocol, cast

from ottla.metadata_raft.raft_handshake import LINK, LINK_PROTOCOL, QUESTION
from ottla.metadata_raft.raft_pending_links import PendingLinks
from ottla.node.net.connection_info import plain_address
from ottla.node.net.tls_transport import HANDSHAKE_RECORD

OPENING_SECONDS: Final = 5.0
_RECORD_HEADER_BYTES: Final = 5  # kind, version, length
MAX_OPENING_BYTES: Final = _RECORD_HEADER_BYTES + 16 * 1024  # the longest record of TLS
_PURPOSE_AT: Final = 4  # behind the length of a frame, where a Kafka request has its API key
_NAMED_PROTOCOL: Final = bytes([len(LINK_PROTOCOL)]) + LINK_PROTOCOL.encode()

# Takes over the socket of a link, and the bytes received from it.
TakeLink = Callable[[socket.socket, bytes], None]


def begins_link(received: memoryview, *, has_tls: bool) -> bool | None:
    """Return True if a connection that starts with these bytes is a link; None while there are too few."""
    if not has_tls:
        return received[_PURPOSE_AT] in (LINK, QUESTION) if len(received) > _PURPOSE_AT else None
    if len(received) and received[0] != HANDSHAKE_RECORD:
        return False  # the listener rejects it and logs the reason
    if len(received) < _RECORD_HEADER_BYTES:
        return None
    end = _RECORD_HEADER_BYTES + int.from_bytes(received[3:_RECORD_HEADER_BYTES])
    if len(received) < min(end, MAX_OPENING_BYTES):
        return None
    return _NAMED_PROTOCOL in bytes(received[:end])


def detach(transport: asyncio.Transport) -> socket.socket:
    """Close a transport, and return the socket of its connection, which stays."""
    sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
    sock.setblocking(False)
    transport.abort()
    return sock


class ListenerPart(Protocol):
    """The part of the listener that the door needs."""

    loop: asyncio.AbstractEventLoop

    def take_over(self, transport: asyncio.Transport, early: memoryview) -> None: ...


class LinkDoor:
    """The connections of one listener whose protocol is not known yet."""

    def __init__(self, listener: ListenerPart, take_link: TakeLink, *, has_tls: bool) -> None:
        self._listener = listener
        self._take_link = take_link
        self._has_tls = has_tls
        self._pending_links = PendingLinks()
        self._openings: set[Opening] = set()

    def __len__(self) -> int:
        return len(self._openings)

    def new(self) -> "Opening":
        """Return the protocol object of a newly accepted socket."""
        return Opening(self)

    def entered(self, opening: "Opening") -> None:
        """Wait for the first bytes of a connection."""
        opening.timer = self._listener.loop.call_later(OPENING_SECONDS, opening.abort)
        self._openings.add(opening)
        pushed_out = self._pending_links.enter(opening)
        if pushed_out is not None:
            pushed_out.abort()

    def left(self, opening: "Opening") -> None:
        """Forget a connection that has ended or is recognized."""
        opening.timer.cancel()
        self._openings.discard(opening)
        self._pending_links.leave(opening)

    def close(self) -> None:
        """Abort the connections that are not recognized yet."""
        for opening in list(self._openings):
            opening.abort()

    def bytes_received(self, opening: "Opening") -> None:
        """Hand a connection on if its bytes show which protocol it speaks."""
        is_link = begins_link(opening.received, has_tls=self._has_tls)
        if is_link is None:
            return
        self.left(opening)
        transport = opening.transport
        if not is_link:
            self._listener.take_over(transport, opening.received)
            return
        transport.pause_reading()
        self._take_link(detach(transport), bytes(opening.received))


class Opening(asyncio.BufferedProtocol):
    """The protocol of a connection whose first bytes are awaited (asyncio demands the base class)."""

    __slots__ = ("_buffer", "_door", "_length", "peer_host", "timer", "transport")

    def __init__(self, door: LinkDoor) -> None:
        self._door = door
        self._buffer = bytearray()
        self._length = 0
        self.peer_host = ""
        self.timer: asyncio.TimerHandle = cast(asyncio.TimerHandle, None)  # set when made, as the next
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)

    @property
    def received(self) -> memoryview:
        """Return the bytes received so far."""
        return memoryview(self._buffer)[: self._length]

    def abort(self) -> None:
        """Abort the connection without a log line."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peer_host = plain_address((transport.get_extra_info("peername") or ("", 0))[0])
        self._door.entered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.left(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._buffer:
            self._buffer = bytearray(MAX_OPENING_BYTES)
        return memoryview(self._buffer)[self._length :]

    def buffer_updated(self, nbytes: int) -> None:
        self._length += nbytes
        self._door.bytes_received(self)

    def eof_received(self) -> bool:
        return False
