"""The partition of a key, which Java's hash of the key picks."""

import random

import pytest

from ottla.node.coordinators.key_partition import partition_for

PARTITIONS = 2**31 - 1  # so that nearly every hash has a partition of its own


def java_partition(key: str) -> int:
    """Return `Utils.abs(key.hashCode()) % count`, computed character by character."""
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2], "big")) & 0xFFFFFFFF
    value = 0x100000000 - value if value >= 0x80000000 else value
    return (0 if value == 0x80000000 else value) % PARTITIONS


@pytest.mark.parametrize(
    "size", [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 63, 64, 65, 255, 1_023, 1_024, 5_000]
)
def test_keys_of_any_length_and_characters_have_the_partition_that_java_computes(size: int) -> None:
    chance = random.Random(size)
    for letters in (0x80, 0x800, 0x10000, 0x110000):
        key = "".join(chr(chance.randrange(letters)) for _ in range(size))

        assert partition_for(key, PARTITIONS) == java_partition(key), (size, letters)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("", 0), ("a", 97), ("group", 98_629_247), ("polygenelubricants", 0), ("\uffff" * 2, 2_097_120)],
)
def test_known_hashes_of_java(key: str, expected: int) -> None:
    assert partition_for(key, PARTITIONS) == expected
