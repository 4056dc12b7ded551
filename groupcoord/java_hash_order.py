"""The order in which Java's HashMap and HashSet iterate over their keys.

Apache Kafka's assignors iterate over such collections, and the order decides which of several equal members
is chosen. A table has 2^n buckets, which are visited in order. Within a bucket keys come in the order in
which `put` added them, or in the opposite order if `computeIfAbsent` added them. Java turns buckets of very
many keys into trees; this is left out here.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

SMALLEST_TABLE: Final = 16
_LOAD_FACTOR: Final = 0.75
_INT_MASK: Final = 0xFFFF_FFFF

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def hash_of_int(number: int) -> int:
    """Return the hash of an Integer, as 32 bits without a sign."""
    return number & _INT_MASK


def hash_of_string(text: str) -> int:
    """Return the hash of a String, which is that of its UTF-16 units, as 32 bits without a sign."""
    total = 0
    encoded = text.encode("utf-16-be", errors="surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        total = (31 * total + (high << 8 | low)) & _INT_MASK
    return total


def hash_of_uuid(content: bytes) -> int:
    """Return the hash of Kafka's Uuid of these 16 bytes, as 32 bits without a sign."""
    mixed = int.from_bytes(content[:8]) ^ int.from_bytes(content[8:])
    return (mixed >> 32) ^ (mixed & _INT_MASK)


def hash_of_partition(topic_id: bytes, partition: int) -> int:
    """Return the hash of Kafka's TopicIdPartition, which is a Java record of a Uuid and an int."""
    return (31 * hash_of_uuid(topic_id) + partition) & _INT_MASK


def table_for_mappings(count: int) -> int:
    """Return the number of buckets that Kafka's assignors make for `count` keys."""
    return _table(int((count + 1) / _LOAD_FACTOR + 1))


def table_for_copy(count: int) -> int:
    """Return the number of buckets of a set that is made as a copy of `count` keys."""
    return _table(max(int(count / _LOAD_FACTOR) + 1, SMALLEST_TABLE))


def _table(capacity: int) -> int:
    return 1 << max(capacity - 1, 0).bit_length()


class JavaHashMap(Generic[K, V]):
    """A map with Java's order of keys. It grows as Java's does, and never shrinks.

    It is filled either by `map[key] = value`, as Java's by `put`, or by `compute_if_absent`; not by both.
    """

    __slots__ = ("_buckets", "_content", "_hash_of", "_is_computed")

    def __init__(self, hash_of: Callable[[K], int], buckets: int = SMALLEST_TABLE) -> None:
        self._hash_of = hash_of
        self._buckets = buckets
        self._is_computed = False
        self._content: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._content)

    def __contains__(self, key: object) -> bool:
        return key in self._content

    def __getitem__(self, key: K) -> V:
        return self._content[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._content[key] = value
        self._grow_if_full()

    def compute_if_absent(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of the key; make it first if the map has none."""
        self._is_computed = True
        self._grow_if_full()  # before the key is added, and also if it was there already
        if key not in self._content:
            self._content[key] = make()
        return self._content[key]

    def get(self, key: K) -> V | None:
        return self._content.get(key)

    def remove(self, key: K) -> None:
        """Remove a key, which must be there."""
        del self._content[key]

    def ordered(self) -> list[K]:
        """Return the present keys in Java's order; the map may change meanwhile."""
        mask, hash_of = self._buckets - 1, self._hash_of

        def bucket(key: K) -> int:
            number = hash_of(key)
            return (number ^ number >> 16) & mask

        inserted = reversed(self._content) if self._is_computed else iter(self._content)
        return sorted(inserted, key=bucket)  # a stable sort: it keeps the order within a bucket

    def _grow_if_full(self) -> None:
        if len(self._content) > self._buckets * _LOAD_FACTOR:
            self._buckets *= 2
