"""The memory that the bodies of all requests under way may use together.

Each body is bounded, but each of a thousand connections may send one. So the bytes are counted as they
arrive, and the request that would exceed the limit is refused; the others continue.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.node.rest_api.rest_error import RestError

# A body takes several times its size while it is parsed.
ROOM_BYTES: Final = 64 * 1024 * 1024


class BodyRoom:
    """The room of one node; at least one body of the largest size fits."""

    def __init__(self, largest_bytes: int, room_bytes: int = ROOM_BYTES) -> None:
        self.held_bytes = 0
        self.limit_bytes = max(room_bytes, largest_bytes)

    @contextmanager
    def part(self) -> Iterator["BodyPart"]:
        """Yield the share of one request, which it holds until it is answered."""
        part = BodyPart(self)
        try:
            yield part
        finally:
            part.hold(0)

    def move(self, more_bytes: int) -> None:
        """Take more bytes, or give back a negative number; RestError 429 if there is no room for them."""
        if more_bytes > 0 and self.held_bytes + more_bytes > self.limit_bytes:
            raise RestError(429, 429, "Too many request bodies are being received; try again later.")
        self.held_bytes += more_bytes


class BodyPart:
    """The share of one request."""

    __slots__ = ("_held_bytes", "_room")

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self._held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """Set the number of bytes held; RestError 429 if there is no room for them."""
        self._room.move(size_bytes - self._held_bytes)
        self._held_bytes = size_bytes
