"""Limits the memory of recompressed batches until they are appended.

A batch of a few kB may grow to max.message.bytes, and a request may contain thousands. A batch beyond the
limit is rejected with REQUEST_TIMED_OUT, which producers retry; a batch alone may exceed it.
"""

from ottla.logstore.words.errors import ErrorCode, KafkaError


class OpenedBatches:
    """Counts the recompressed batches of one node. For the event loop only."""

    def __init__(self, limit_bytes: int = 1 << 30) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def hold(self, size_bytes: int) -> "HeldBatch":
        """Count a batch until the returned object is freed; REQUEST_TIMED_OUT beyond the limit."""
        if self.used_bytes and self.used_bytes + size_bytes > self.limit_bytes:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "Recompressed batches use all the memory that the broker reserves for them, "
                f"{self.limit_bytes} bytes: try again, or raise its ottla.memory.max.bytes.",
            )
        return HeldBatch(self, size_bytes)


class HeldBatch:
    """A counted batch; freed with its request, however that ends."""

    __slots__ = ("_batches", "_size_bytes")

    def __init__(self, batches: OpenedBatches, size_bytes: int) -> None:
        batches.used_bytes += size_bytes
        self._batches, self._size_bytes = batches, size_bytes

    def __del__(self) -> None:
        self._batches.used_bytes -= self._size_bytes
