"""How much memory the bodies of all requests under way have together.

Each body is bounded, but a thousand connections may each send one. So what is held of them is counted while
it comes, and who would hold more than there is room for is refused; the others go on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.node.rest_api.rest_error import RestError

# A body that is read takes several times its size.
ROOM_BYTES: Final = 64 * 1024 * 1024


class BodyRoom:
    """The room of one node; at least one body of the largest size finds place."""

    def __init__(self, largest_bytes: int, room_bytes: int = ROOM_BYTES) -> None:
        self.held_bytes = 0
        self.limit_bytes = max(room_bytes, largest_bytes)

    @contextmanager
    def part(self) -> Iterator["BodyPart"]:
        """What one request holds of it, until it is answered."""
        part = BodyPart(self)
        try:
            yield part
        finally:
            part.hold(0)

    def move(self, more_bytes: int) -> None:
        """Take so much more, or give it back; RestError 429 if there is no room for it."""
        if more_bytes > 0 and self.held_bytes + more_bytes > self.limit_bytes:
            raise RestError(429, 429, "Too many request bodies are being received; try again later.")
        self.held_bytes += more_bytes


class BodyPart:
    """What one request holds."""

    __slots__ = ("_held_bytes", "_room")

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self._held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """So much it holds now; RestError 429 if there is no room for it."""
        self._room.move(size_bytes - self._held_bytes)
        self._held_bytes = size_bytes
