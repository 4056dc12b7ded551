"""The budget of memory that all receive buffers of a node share.

A connection reserves memory before its buffer grows, and its buffer grows only when it is full: a frame that
announces 100 MB and sends 1 KB takes 8 KB here. When the budget is spent, connections that need more stop
reading and queue up; they are granted memory in the order of their requests. To keep half-received frames
from blocking each other forever, the first in the queue may overdraw the budget: the node holds at most
`limit_bytes` plus one frame of `socket.request.max.bytes`, beside the small first buffers of connections, and
one frame at a time always makes progress.
"""

from collections import deque
from collections.abc import Callable

# Kafka leaves `queued.max.request.bytes` unlimited (-1) and can run out of memory. This is twice the largest
# frame and some: enough for thousands of producers with ordinary batches, and a bounded part of a small
# machine.
DEFAULT_LIMIT_BYTES = 256 * 1024 * 1024


class ReceiveMemory:
    """Counts the bytes of all receive buffers against one limit."""

    __slots__ = ("_queue", "limit_bytes", "owner_in_debt", "used_bytes")

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._queue: deque[tuple[object, int, Callable[[], None]]] = deque()
        self.owner_in_debt: object = None

    def reserve(self, owner: object, size_bytes: int, granted: Callable[[], None]) -> bool:
        """Take `size_bytes` now and return True, or return False and call `granted` once they are taken.

        An owner that overdraws may continue to do so until it calls `settle`, since its frame is half
        received.
        """
        if owner is not self.owner_in_debt:
            if self._queue or (not self._fits(size_bytes) and self.owner_in_debt is not None):
                self._queue.append((owner, size_bytes, granted))
                return False
            if not self._fits(size_bytes):
                self.owner_in_debt = owner
        self.used_bytes += size_bytes
        return True

    def take(self, size_bytes: int) -> None:
        """Take bytes without regard to the limit: for a new connection, or to replace a buffer.

        Connections have a limit of their own. A buffer is replaced by a smaller one, or by a larger one while
        memory is plentiful.
        """
        self.used_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Give bytes back, and grant them to waiting owners."""
        self.used_bytes -= size_bytes
        self._serve_queue()

    def settle(self, owner: object) -> None:
        """End an owner's wait or debt: its frame is served, or the owner is gone."""
        if owner is self.owner_in_debt:
            self.owner_in_debt = None
        elif self._queue:
            self._queue = deque(entry for entry in self._queue if entry[0] is not owner)
        self._serve_queue()

    @property
    def is_scarce(self) -> bool:
        """Return True if buffers that are larger than needed should shrink at once."""
        return self.used_bytes * 2 > self.limit_bytes

    @property
    def is_plentiful(self) -> bool:
        """Return True if buffers may be larger than needed, for speed."""
        return self.used_bytes * 8 < self.limit_bytes

    def _fits(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self.limit_bytes

    def _serve_queue(self) -> None:
        while self._queue:
            owner, size_bytes, granted = self._queue[0]
            if not self._fits(size_bytes):
                if self.owner_in_debt is not None:
                    return
                self.owner_in_debt = owner
            self._queue.popleft()
            self.used_bytes += size_bytes
            granted()
