"""Frames in a stream of bytes: four bytes of length, then so many of content.

What a length announces costs nothing: bytes are kept as they arrive. A length that is negative or beyond the
limit (`socket.request.max.bytes`) is KafkaError(INVALID_REQUEST), and the stream is of no use from there on.
"""

import struct

from logstore.errors import ErrorCode, KafkaError
from logstore.schema import Buffer

LENGTH_BYTES = 4
_LENGTH = struct.Struct(">i")


def frame_at(buffer: Buffer, position: int, end: int, max_bytes: int) -> tuple[int, int] | None:
    """Start and stop of the content of the frame at `position`, or None if it is not whole before `end`."""
    if end - position < LENGTH_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(buffer, position)
    if not 0 <= length <= max_bytes:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a frame of {length} bytes; {max_bytes} is the most")
    start = position + LENGTH_BYTES
    return (start, start + length) if start + length <= end else None


class FrameSplitter:
    """Cuts what a peer sends, in pieces of any size, into the contents of frames."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []  # of the unfinished frame; joined once, when its last byte is there
        self._pieces_bytes = 0
        self._wanted_bytes = LENGTH_BYTES  # fewer than this, and there is no need to look

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that these bytes complete, in order."""
        self._pieces.append(data)
        self._pieces_bytes += len(data)
        if self._pieces_bytes < self._wanted_bytes:
            return []
        view = memoryview(self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces))
        frames = []
        position = 0
        while (found := frame_at(view, position, len(view), self._max_bytes)) is not None:
            start, position = found
            frames.append(view[start:position])
        rest = bytes(view[position:])
        self._pieces = [rest] if rest else []
        self._pieces_bytes = len(rest)
        self._wanted_bytes = LENGTH_BYTES
        if len(rest) >= LENGTH_BYTES:
            self._wanted_bytes += _LENGTH.unpack_from(rest)[0]
        return frames
