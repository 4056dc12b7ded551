"""Encoded answers of Metadata and ApiVersions, kept while the metadata stay as they are.

Every client asks for the same topics every few minutes, and all of them at once when a broker falls; an
answer with 1,000 partitions takes a millisecond to write.
"""

from ottla.logstore.words.schema import Buffer

# Versions and sets of topics that are asked for again and again are few.
MAX_ANSWERS = 64
DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024


class EncodedAnswers:
    """Bodies by whatever they depend on beside the metadata. Its owner calls `clear` with each new image."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._bodies: dict[tuple[object, ...], list[Buffer]] = {}
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def get(self, key: tuple[object, ...]) -> list[Buffer] | None:
        """The body kept under that key."""
        return self._bodies.get(key)

    def put(self, key: tuple[object, ...], body: list[Buffer]) -> None:
        """Keep a body if there is room; what is there stays, for it was asked for first."""
        size_bytes = sum(map(len, body))
        if len(self._bodies) < MAX_ANSWERS and self.used_bytes + size_bytes <= self.limit_bytes:
            self._bodies[key] = [bytes(part) for part in body]
            self.used_bytes += size_bytes

    def clear(self) -> None:
        """Forget all: the metadata have changed."""
        self._bodies.clear()
        self.used_bytes = 0
