"""One connection of a link: reads and writes frames, with limits.

A frame is its length (uint32) and that many bytes; an empty one is a heartbeat. Frames of the handshake are
small; a connection that sends a larger one, or is silent for too long, is closed.
"""

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from ottla.logstore.words.dial_errors import tls_problem
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.peer_certificate import names_in
from ottla.metadata_raft.raft_handshake import MAX_HANDSHAKE_BYTES
from ottla.metadata_raft.raft_messages import MAX_FRAME_BYTES

# With more bytes in its buffer, a link gets no further entries.
HIGH_WATER_BYTES: Final = 8 << 20
# With more bytes in the buffer, frames are dropped as if they were lost; Raft sends them again.
MAX_WAITING_BYTES: Final = MAX_FRAME_BYTES + HIGH_WATER_BYTES
CLOSED: Final = "The connection was closed."
_LENGTH: Final = struct.Struct(">I")


class LinkWire:
    """A protocol of asyncio; once `on_frame` is set, it is called with each frame."""

    def __init__(self, on_made: Callable[["LinkWire"], None] | None = None, received: bytes = b"") -> None:
        """`received` was read from the socket before."""
        self._on_made = on_made
        self._received = received
        self._is_held = False
        self._transport: asyncio.Transport | None = None
        self._content = bytearray()
        self._frames: deque[bytes] = deque()  # received before `on_frame` was set
        self._waiter: asyncio.Future[None] | None = None
        self.max_frame_bytes = MAX_HANDSHAKE_BYTES
        self.on_frame: Callable[[bytes], None] | None = None
        self.is_closed = False
        self.has_left = False  # whether the other end closed the connection, not this one
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard_at = 0.0
        self.peer_host = ""  # the address of the other end
        self._problem = ""  # the problem of TLS that ended the connection

    # ---- callbacks of asyncio --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.heard_at = asyncio.get_running_loop().time()
        name = transport.get_extra_info("peername")
        self.peer_host = str(name[0]) if name else ""
        if self._on_made is not None:
            self._on_made(self)
        if self._received and not self._is_held:
            self.data_received(self._received)

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        self._content += data
        position, content = 0, self._content
        while len(content) - position >= _LENGTH.size and not self.is_closed:
            (length,) = _LENGTH.unpack_from(content, position)
            if length > self.max_frame_bytes:
                self.abort()
                return
            end = position + _LENGTH.size + length
            if end > len(content):
                break
            frame = bytes(memoryview(content)[position + _LENGTH.size : end])
            position = end
            if length:
                self._take(frame)
        del self._content[:position]

    def _take(self, frame: bytes) -> None:
        if self.on_frame is not None:
            self.on_frame(frame)
            return
        if len(self._frames) >= 2:  # A handshake has two frames from each end.
            self.abort()
            return
        self._frames.append(frame)
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.has_left = not self.is_closed
        self.is_closed = True
        self._problem = self._problem or tls_problem(error)
        self._wake()
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        return

    def resume_writing(self) -> None:
        return

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ---- TLS -------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Read nothing until TLS begins; called when the connection is made."""
        assert self._transport is not None
        self._is_held = True
        self._transport.pause_reading()

    async def begin_tls(self, context: ssl.SSLContext, timeout_seconds: float) -> None:
        """Start TLS as the server; OSError or NETWORK_EXCEPTION if the handshake fails."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        if self._received:
            # In the next turn of the loop, TLS is the protocol of the transport, which has not read more yet.
            loop.call_soon(loop.call_soon, self._give_received)
        made: asyncio.Transport | None = await loop.start_tls(
            self._transport,
            cast(asyncio.Protocol, self),
            context,
            server_side=True,
            ssl_handshake_timeout=timeout_seconds,
        )
        if made is None or self.is_closed:
            self.has_left = self.has_left or not self.is_closed
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, CLOSED)
        self._transport = made

    def _give_received(self) -> None:
        """Pass the bytes that were received before TLS began to it."""
        if self._transport is None or not self._is_open:
            return
        protocol, rest = self._transport.get_protocol(), memoryview(self._received)
        assert isinstance(protocol, asyncio.BufferedProtocol)
        while rest:
            room = memoryview(protocol.get_buffer(len(rest)))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            protocol.buffer_updated(count)
            rest = rest[count:]

    # ---- use -------------------------------------------------------------------------------------------

    async def next_frame(self) -> bytes:
        """Return the next frame of the handshake; NETWORK_EXCEPTION if the connection is closed."""
        while not self._frames:
            if self.is_closed:
                said = f"The connection was closed: {self._problem}." if self._problem else CLOSED
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, said)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._frames.popleft()

    def open(self, on_frame: Callable[[bytes], None]) -> None:
        """End the handshake: from now on `on_frame` is called with each frame."""
        self.max_frame_bytes = MAX_FRAME_BYTES
        self.on_frame = on_frame
        while self._frames:
            on_frame(self._frames.popleft())

    @property
    def _is_open(self) -> bool:
        """True if written bytes may still reach the other end.

        A transport whose socket failed is closing at once, but calls the protocol in a later turn of the
        loop.
        """
        return not self.is_closed and self._transport is not None and not self._transport.is_closing()

    def send(self, frame: bytes) -> None:
        """Write a frame, or drop it if the connection is closed or its buffer full."""
        transport = self._transport
        if transport is None or not self._is_open or transport.get_write_buffer_size() > MAX_WAITING_BYTES:
            return
        transport.write(_LENGTH.pack(len(frame)) + frame)

    @property
    def has_room(self) -> bool:
        transport = self._transport
        return (
            transport is not None and self._is_open and transport.get_write_buffer_size() < HIGH_WATER_BYTES
        )

    def certificate_names(self) -> frozenset[str]:
        """Return the names in the other end's certificate; none without TLS."""
        return names_in(None if self._transport is None else self._transport.get_extra_info("peercert"))

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_closed = True
        self._wake()
        if self._transport is not None:
            self._transport.abort()
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self) -> None:
        """Close the connection after the buffer was written."""
        # asyncio's transport with TLS that is closed a second time cannot be aborted any more.
        if self._is_open:
            assert self._transport is not None
            self._transport.close()
