"""A cache of encoded responses of Metadata and ApiVersions, which is cleared when the metadata change.

Every client asks for the same topics every few minutes, and all clients ask at once when a broker fails.
Encoding a response with 1,000 partitions takes a millisecond.
"""

from ottla.logstore.words.schema import Buffer

# Few combinations of version and topics are requested repeatedly.
MAX_ANSWERS = 64
DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024


class EncodedAnswers:
    """Encoded bodies, by all that they depend on except the metadata; a new image must `clear` them."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._bodies: dict[tuple[object, ...], list[Buffer]] = {}
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def get(self, key: tuple[object, ...]) -> list[Buffer] | None:
        """Return the body with that key, or None."""
        return self._bodies.get(key)

    def put(self, key: tuple[object, ...], body: list[Buffer]) -> None:
        """Keep a body under a new key if there is room; older bodies are not evicted for it."""
        size_bytes = sum(map(len, body))
        if (
            key not in self._bodies
            and len(self._bodies) < MAX_ANSWERS
            and self.used_bytes + size_bytes <= self.limit_bytes
        ):
            self._bodies[key] = [bytes(part) for part in body]
            self.used_bytes += size_bytes

    def clear(self) -> None:
        """Remove all bodies, because the metadata have changed."""
        self._bodies.clear()
        self.used_bytes = 0
