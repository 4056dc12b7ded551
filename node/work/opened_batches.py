"""How much memory batches have that were compressed anew, until they are appended.

A batch of some kB may become one of max.message.bytes, and a request may bring thousands. Beyond the limit a
batch is refused with REQUEST_TIMED_OUT, after which producers send it again; one alone may be larger.
"""

from ottla.logstore.words.errors import ErrorCode, KafkaError


class OpenedBatches:
    """Counts those of one node; lives on the event loop."""

    def __init__(self, limit_bytes: int = 1 << 30) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def hold(self, size_bytes: int) -> "HeldBatch":
        """Count a batch for as long as what is returned is kept; REQUEST_TIMED_OUT if there is no room."""
        if self.used_bytes and self.used_bytes + size_bytes > self.limit_bytes:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "Recompressed batches use all the memory that the broker reserves for them, "
                f"{self.limit_bytes} bytes: try again, or raise its ottla.memory.max.bytes.",
            )
        return HeldBatch(self, size_bytes)


class HeldBatch:
    """The place of one batch, given up with the request, however that ends."""

    __slots__ = ("_batches", "_size_bytes")

    def __init__(self, batches: OpenedBatches, size_bytes: int) -> None:
        batches.used_bytes += size_bytes
        self._batches, self._size_bytes = batches, size_bytes

    def __del__(self) -> None:
        self._batches.used_bytes -= self._size_bytes
