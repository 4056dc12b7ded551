"""The kernel's send buffers of connections that read records, limited for each connection and in all.

File pages in a send buffer are no copies, so buffers are larger than `socket.send.buffer.bytes`: a response
that fits is sent at once, and the loop, whose code other work has pushed out of the CPU caches, is not woken
for the rest. The kernel doubles the size that is set, and has a limit of its own, net.core.wmem_max.
"""

from typing import Final

# Multiples of `socket.send.buffer.bytes`. With the defaults the response of one partition fits the first
# (`max.partition.fetch.bytes`, 1 MiB), that of four partitions the second.
USUAL: Final = 6
WIDE: Final = 24
# These limit the multiples, but not a larger setting.
MAX_USUAL_BYTES: Final = 640 * 1024
MAX_WIDE_BYTES: Final = 2_500_000
# The limit of all wide buffers: a peer that reads slowly keeps its buffer full.
DEFAULT_LIMIT_BYTES: Final = 64 * 1024 * 1024


class SendBuffers:
    """The send buffers of all connections of a node."""

    def __init__(self, asked_bytes: int, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """`asked_bytes` is `socket.send.buffer.bytes`; below 1 the kernel sizes each buffer by itself.

        `limit_bytes` is the limit of all wide buffers together.
        """
        self._usual_bytes = max(asked_bytes, min(USUAL * asked_bytes, MAX_USUAL_BYTES))
        self._wide_bytes = max(asked_bytes, min(WIDE * asked_bytes, MAX_WIDE_BYTES))
        self.used_bytes = 0  # of wide buffers
        self.limit_bytes = limit_bytes

    def take(self) -> int:
        """Return the size of a new buffer, 0 or less for the kernel's own; it is to be given back."""
        is_wider = self._wide_bytes > self._usual_bytes
        if not is_wider or self.used_bytes + self._wide_bytes > self.limit_bytes:
            return self._usual_bytes
        self.used_bytes += self._wide_bytes
        return self._wide_bytes

    def give_back(self, size_bytes: int) -> None:
        if size_bytes == self._wide_bytes > self._usual_bytes:
            self.used_bytes -= size_bytes
