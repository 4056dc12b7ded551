"""The memory that answers may use together, from when they are built until the client has read them.

Each request may ask for megabytes, and a slow client keeps its answer in memory until it has read it. So the
bytes of long answers are counted. When there is no room for another one, the answer that has been leaving for
longest is cut off; if even that one has only just begun to leave, the new answer is refused. Short answers
are not counted: the transport bounds what a connection has not yet sent of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.node.rest_api.rest_error import RestError

# A page of 32 MiB of records is 43 MiB of base64, and twice that while it is built.
ROOM_BYTES: Final = 128 * 1024 * 1024
MIN_LEAVING_S: Final = 5.0  # time to read 32 MiB, over any network between a cluster and its clients


class AnswerRoom:
    """The room of one node. A single answer may exceed it, since a single record may."""

    def __init__(self, now_s: Callable[[], float], room_bytes: int = ROOM_BYTES) -> None:
        """Use `now_s` as a monotonic clock."""
        self.held_bytes = 0
        self.limit_bytes = room_bytes
        self._now_s = now_s
        self._leaving: dict[AnswerPart, float] = {}  # what may be cut off -> when it began to leave

    @contextmanager
    def part(self, cut_off: Callable[[], object]) -> Iterator["AnswerPart"]:
        """Yield the share of one request, which it holds until its answer was read; `cut_off` closes its
        connection.
        """
        part = AnswerPart(self, cut_off)
        try:
            yield part
        finally:
            self.give_back(part)

    def move(self, part: "AnswerPart", size_bytes: int) -> None:
        """Set the number of bytes that the part holds; RestError 429 if there is no room for them."""
        while self._is_beyond(size_bytes - part.held_bytes, others_bytes=self.held_bytes - part.held_bytes):
            oldest = next(iter(self._leaving), None)
            if oldest is None or self._now_s() - self._leaving[oldest] < MIN_LEAVING_S:
                raise RestError(429, 429, "Too many long responses are being sent; try again later.")
            # The memory is freed when its task is cancelled, within the next turns of the loop.
            self.give_back(oldest)
            oldest.cut_off()
        self.held_bytes += size_bytes - part.held_bytes
        part.held_bytes = size_bytes

    def _is_beyond(self, more_bytes: int, *, others_bytes: int) -> bool:
        return more_bytes > 0 and others_bytes > 0 and self.held_bytes + more_bytes > self.limit_bytes

    def leave(self, part: "AnswerPart") -> None:
        """Note that the answer is complete and that its client reads it from now on."""
        self._leaving[part] = self._now_s()

    def give_back(self, part: "AnswerPart") -> None:
        self._leaving.pop(part, None)
        self.held_bytes -= part.held_bytes
        part.held_bytes = 0


class AnswerPart:
    """The share of one request."""

    __slots__ = ("_room", "cut_off", "held_bytes")

    def __init__(self, room: AnswerRoom, cut_off: Callable[[], object]) -> None:
        self._room = room
        self.cut_off = cut_off
        self.held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """Set the number of bytes held; RestError 429 if there is no room for them."""
        self._room.move(self, size_bytes)

    def leave(self, size_bytes: int) -> None:
        """Hold the size of the complete answer, which leaves now; RestError 429 if there is no room."""
        self.hold(size_bytes)
        self._room.leave(self)
