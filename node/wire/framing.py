"""Splits a stream of bytes into frames: four bytes of length, then the content.

A length that is announced costs 16 MiB at most; beyond that, twice the bytes that have arrived. A negative
length, or one beyond the limit (`socket.request.max.bytes`), raises KafkaError(INVALID_REQUEST); the rest of
the stream is then useless.
"""

import struct

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer

LENGTH_BYTES = 4
NOT_KAFKA = "not the Kafka protocol"
SMALL_BUFFER_BYTES = 64 * 1024
TRUSTED_BYTES = 16 * 1024 * 1024  # the largest response to a fetch
SMALL_FRAMES_BEFORE_FORGETTING = 100
_HTTP = frozenset((b"HTTP", b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "))
_TLS = (b"\x15\x03", b"\x16\x03")  # records: alert, handshake
_LENGTH = struct.Struct(">i")


def foreign_protocol(head: Buffer) -> str | None:
    """Return the other protocol, HTTP or TLS, that starts with these bytes; None for neither."""
    first = bytes(head[:LENGTH_BYTES])
    if first in _HTTP:
        return "HTTP"
    return "TLS" if first[:2] in _TLS else None


def frame_at(buffer: Buffer, position: int, end: int, max_bytes: int) -> tuple[int, int] | None:
    """Return start and stop of the content of the frame at `position`, None if it exceeds `end`.

    KafkaError(INVALID_REQUEST) for an invalid length.
    """
    if end - position < LENGTH_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(buffer, position)
    if not 0 <= length <= max_bytes:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _refusal(buffer, position, length, max_bytes))
    start = position + LENGTH_BYTES
    return (start, start + length) if start + length <= end else None


def _refusal(buffer: Buffer, position: int, length: int, max_bytes: int) -> str:
    """Return the reason why no frame starts there."""
    foreign = foreign_protocol(memoryview(buffer)[position : position + LENGTH_BYTES])
    if foreign is not None:
        return f"its bytes are {foreign}, {NOT_KAFKA}"
    if length < 0:
        return f"a frame of {length} bytes is impossible"
    return f"a frame of {length} bytes is longer than the limit of {max_bytes} bytes"


class FrameSplitter:
    """Receives bytes in pieces of any size, and splits them into the contents of frames.

    Small frames are copied out of one buffer. A large frame is received directly into a buffer of its own,
    which is reused for the next large frame once no view of it is left.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._small = bytearray(SMALL_BUFFER_BYTES)
        self._buffer = self._small
        self._start = self._end = 0  # of the frame that is not received completely yet
        self._frame_bytes = 0  # of the large frame being received, with its length
        self._spare: bytearray | None = None
        self._small_since = 0  # frames since the spare buffer was last used

    def room(self) -> memoryview:
        """Return the room for the next bytes; never empty."""
        stop = self._frame_bytes or len(self._buffer)
        return memoryview(self._buffer)[self._end : min(stop, len(self._buffer))]

    @property
    def head(self) -> memoryview:
        """Return the length field, as far as received, of the frame that is not received completely yet."""
        return memoryview(self._buffer)[self._start : min(self._end, self._start + LENGTH_BYTES)]

    def received(self, count: int) -> list[memoryview]:
        """Return the frames that are whole after `count` more bytes, in order.

        KafkaError(INVALID_REQUEST) for an invalid length.
        """
        self._end += count
        if self._frame_bytes:
            return self._large_frame()
        frames = []
        view = memoryview(self._small)
        while (found := frame_at(view, self._start, self._end, self._max_bytes)) is not None:
            start, self._start = found
            frames.append(memoryview(bytes(view[start : self._start])))
        self._make_room()
        if frames:
            self._forget_spare(len(frames))
        return frames

    def _large_frame(self) -> list[memoryview]:
        buffer, total = self._buffer, self._frame_bytes
        if self._end < total:
            if self._end == len(buffer):
                # More than an announced length alone may take: as much again as has arrived.
                self._buffer = bytearray(min(total, 2 * self._end))
                self._buffer[: self._end] = buffer
            return []
        self._spare = buffer if len(buffer) <= TRUSTED_BYTES else None
        self._small_since = 0
        self._buffer, self._frame_bytes, self._start, self._end = self._small, 0, 0, 0
        return [memoryview(buffer)[LENGTH_BYTES:total]]

    def _make_room(self) -> None:
        """Move the unfinished frame to the front, or into a buffer that is large enough."""
        rest_bytes = self._end - self._start
        frame_bytes = 0
        if rest_bytes >= LENGTH_BYTES:
            frame_bytes = LENGTH_BYTES + _LENGTH.unpack_from(self._small, self._start)[0]
        rest = self._small[self._start : self._end]
        if frame_bytes > len(self._small):
            self._buffer = self._large_buffer(frame_bytes)
            self._frame_bytes = frame_bytes
        self._buffer[:rest_bytes] = rest
        self._start, self._end = 0, rest_bytes

    def _large_buffer(self, frame_bytes: int) -> bytearray:
        spare, self._spare = self._spare, None
        if spare is not None and len(spare) >= min(frame_bytes, TRUSTED_BYTES):
            try:
                del spare[-1:]  # raises BufferError while a view of it exists
                spare.append(0)
                return spare
            except BufferError:
                pass
        return bytearray(min(frame_bytes, TRUSTED_BYTES))

    def _forget_spare(self, frames: int) -> None:
        self._small_since += frames
        if self._small_since > SMALL_FRAMES_BEFORE_FORGETTING:
            self._spare = None
