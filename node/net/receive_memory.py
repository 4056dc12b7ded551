"""The budget of memory that all receive buffers of a node share.

A connection asks before its buffer grows, and its buffer grows only when the bytes that it has are full: a
frame that announces 100 MB and sends 1 KB holds 8 KB here. When the budget is spent, connections that need
more stop reading and queue up; memory goes to them in the order of asking. So that half-received frames can
not lock each other out for ever, the first in the queue may overdraw the budget: the node holds at most
`limit_bytes` plus one frame of `socket.request.max.bytes`, and one frame at a time always makes progress.
"""

from collections import deque
from collections.abc import Callable

# Kafka leaves `queued.max.request.bytes` unlimited (-1) and dies of it. Two largest frames and some: enough
# for thousands of producers with ordinary batches, a bounded part of a small machine.
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
        """Take `size_bytes` now and return True, or return False and call `granted` once they were taken.

        The owner that overdraws may go on doing so until it calls `settle`, for its frame is half received.
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
        """Take what a new connection starts with; their number has a limit of its own."""
        self.used_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Give bytes back; whoever waits for them is served."""
        self.used_bytes -= size_bytes
        self._serve_queue()

    def settle(self, owner: object) -> None:
        """The owner's frame is whole, or the owner is gone: it waits no more and owes nothing."""
        if owner is self.owner_in_debt:
            self.owner_in_debt = None
        elif self._queue:
            self._queue = deque(entry for entry in self._queue if entry[0] is not owner)
        self._serve_queue()

    @property
    def is_scarce(self) -> bool:
        """Whether buffers that are larger than they need to be should shrink at once."""
        return self.used_bytes * 2 > self.limit_bytes

    @property
    def is_plentiful(self) -> bool:
        """Whether buffers may be larger than they need to be, for the sake of speed."""
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
