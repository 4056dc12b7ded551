"""How much memory answers have together, from when they are put together until they are read.

Each request may ask for megabytes, and whoever reads slowly keeps what it was answered. So the bytes of long
answers are counted. When there is no room for another one, the answer that has been leaving for longest is
cut off; if that began just now, the new one is refused. Short answers are not counted: what a connection has
not sent of them is bounded by its transport.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.node.rest_api.rest_error import RestError

# A page of 32 MiB of records is 43 MiB of base64, and twice that while it is put together.
ROOM_BYTES: Final = 128 * 1024 * 1024
MIN_LEAVING_S: Final = 5.0  # who reads has 32 MiB by then, over any network that a cluster is asked through


class AnswerRoom:
    """The room of one node. One answer alone may be larger: a single record may be."""

    def __init__(self, now_s: Callable[[], float], room_bytes: int = ROOM_BYTES) -> None:
        """`now_s` is a clock that never goes back."""
        self.held_bytes = 0
        self.limit_bytes = room_bytes
        self._now_s = now_s
        self._leaving: dict[AnswerPart, float] = {}  # those that may be cut off, and since when, oldest first

    @contextmanager
    def part(self, cut_off: Callable[[], object]) -> Iterator["AnswerPart"]:
        """What one request holds of it, until its answer was read; `cut_off` ends its connection."""
        part = AnswerPart(self, cut_off)
        try:
            yield part
        finally:
            self.give_back(part)

    def move(self, part: "AnswerPart", size_bytes: int) -> None:
        """So much the part holds now; RestError 429 if there is no room for it."""
        while self._is_beyond(size_bytes - part.held_bytes, others_bytes=self.held_bytes - part.held_bytes):
            oldest = next(iter(self._leaving), None)
            if oldest is None or self._now_s() - self._leaving[oldest] < MIN_LEAVING_S:
                raise RestError(429, 429, "Too many long responses are being sent; try again later.")
            # Its bytes are let go when its task hears of it, in the next turns of the loop.
            self.give_back(oldest)
            oldest.cut_off()
        self.held_bytes += size_bytes - part.held_bytes
        part.held_bytes = size_bytes

    def _is_beyond(self, more_bytes: int, *, others_bytes: int) -> bool:
        return more_bytes > 0 and others_bytes > 0 and self.held_bytes + more_bytes > self.limit_bytes

    def leave(self, part: "AnswerPart") -> None:
        """The answer is whole, and its client reads it from now on."""
        self._leaving[part] = self._now_s()

    def give_back(self, part: "AnswerPart") -> None:
        self._leaving.pop(part, None)
        self.held_bytes -= part.held_bytes
        part.held_bytes = 0


class AnswerPart:
    """What one request holds."""

    __slots__ = ("_room", "cut_off", "held_bytes")

    def __init__(self, room: AnswerRoom, cut_off: Callable[[], object]) -> None:
        self._room = room
        self.cut_off = cut_off
        self.held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """So much it holds now; RestError 429 if there is no room for it."""
        self._room.move(self, size_bytes)

    def leave(self, size_bytes: int) -> None:
        """The answer has this size and leaves; RestError 429."""
        self.hold(size_bytes)
        self._room.leave(self)
