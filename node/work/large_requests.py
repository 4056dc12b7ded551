"""Limits the memory of requests with very many elements while they are served.

A partition of a fetch takes 30 bytes in its frame and some 700 as objects, including its response, so a few
such requests at a time fill a small machine. Each reserves memory before it is decoded, and waits in order if
there is too little. A request alone may exceed the limit, so that every request is served at last.
"""

import asyncio
from collections import deque
from typing import Final

DEFAULT_LIMIT_BYTES: Final = 1 << 30
# Size of a request and its response as objects, in frames; measured with fetches.
GROWTH: Final = 24


class LargeRequests:
    """Reserves memory for the large requests to one node. For the event loop only."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, frame_bytes: int) -> "Room":
        """Wait until there is memory for this frame as objects; the caller must `leave` the room."""
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
        """Release memory, and grant it to waiting requests."""
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
    """The memory reserved for one request."""

    __slots__ = ("_requests", "_size_bytes")

    def __init__(self, requests: LargeRequests, size_bytes: int) -> None:
        self._requests = requests
        self._size_bytes = size_bytes

    def leave(self) -> None:
        """Release the memory, once: the request is answered, or only waits for data."""
        size_bytes, self._size_bytes = self._size_bytes, 0
        if size_bytes:
            self._requests.give_back(size_bytes)
