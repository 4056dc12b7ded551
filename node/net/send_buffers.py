"""How much the kernel may hold of what goes to one connection that reads records, and to all of them.

What it holds of a file is no copy, so buffers are larger than `socket.send.buffer.bytes`: an answer that fits
leaves at once, and the loop, whose code others have pushed out of the caches, is not woken for the rest. The
kernel doubles what it is told, and has a limit of its own, net.core.wmem_max.
"""

from typing import Final

# In times of `socket.send.buffer.bytes`. With the defaults the answer of one partition fits the first
# (`max.partition.fetch.bytes`, 1 MiB), of four of them the second.
USUAL: Final = 6
WIDE: Final = 24
# But no more than that by ourselves,
MAX_USUAL_BYTES: Final = 640 * 1024
MAX_WIDE_BYTES: Final = 2_500_000
# and not for thousands: a peer that reads slowly keeps its buffer full.
DEFAULT_LIMIT_BYTES: Final = 64 * 1024 * 1024


class SendBuffers:
    """Those of all connections of a node."""

    def __init__(self, asked_bytes: int, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """With `socket.send.buffer.bytes` below 1 the kernel lets each buffer grow to megabytes by itself.

        `limit_bytes`: of all wide buffers together.
        """
        self._usual_bytes = max(asked_bytes, min(USUAL * asked_bytes, MAX_USUAL_BYTES))
        self._wide_bytes = max(asked_bytes, min(WIDE * asked_bytes, MAX_WIDE_BYTES))
        self.used_bytes = 0  # of those that are wide
        self.limit_bytes = limit_bytes

    def take(self) -> int:
        """The size of one more buffer, 0 or less for the kernel's own; to be given back."""
        is_wider = self._wide_bytes > self._usual_bytes
        if not is_wider or self.used_bytes + self._wide_bytes > self.limit_bytes:
            return self._usual_bytes
        self.used_bytes += self._wide_bytes
        return self._wide_bytes

    def give_back(self, size_bytes: int) -> None:
        if size_bytes == self._wide_bytes > self._usual_bytes:
            self.used_bytes -= size_bytes
