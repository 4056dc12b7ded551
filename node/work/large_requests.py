"""How much memory requests with very many elements have together while they are served.

A partition of a fetch is 30 bytes in its frame and some 700 as objects, with its answer, so a few such
requests at a time fill a small machine. Each asks for room before it is decoded, and those that find none
wait in the order of asking. One alone may be larger than the room, so that every request is served at last.
"""

import asyncio
from collections import deque
from typing import Final

DEFAULT_LIMIT_BYTES: Final = 1 << 30
# Times the size of its frame: what a request and its answer become, as measured with fetches.
GROWTH: Final = 24


class LargeRequests:
    """Grants room to the large requests of one node's clients; lives on the event loop."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, frame_bytes: int) -> "Room":
        """Wait until there is room for what this frame becomes; to be left."""
        size_bytes = frame_bytes * GROWTH
        if self._waiting or not self._fits(size_bytes):
            granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            entry = (size_bytes, granted)
            self._waiting.append(entry)
            try:
                await granted
            except asyncio.CancelledError:
                if granted.done() and not granted.cancelled():
                    self.give_back(size_bytes)
                else:
                    self._waiting.remove(entry)
                    self._serve()
                raise
        else:
            self.used_bytes += size_bytes
        return Room(self, size_bytes)

    def give_back(self, size_bytes: int) -> None:
        """Take room back, and grant it to those who wait."""
        self.used_bytes -= size_bytes
        self._serve()

    def _fits(self, size_bytes: int) -> bool:
        return not self.used_bytes or self.used_bytes + size_bytes <= self.limit_bytes

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size_bytes, granted = self._waiting.popleft()
            if not granted.cancelled():
                self.used_bytes += size_bytes
                granted.set_result(None)


class Room:
    """The room that one request was granted."""

    __slots__ = ("_requests", "_size_bytes")

    def __init__(self, requests: LargeRequests, size_bytes: int) -> None:
        self._requests = requests
        self._size_bytes = size_bytes

    def leave(self) -> None:
        """Give the room back, once: the request is answered, or only waits for news."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        if size_bytes:
            self._requests.give_back(size_bytes)
