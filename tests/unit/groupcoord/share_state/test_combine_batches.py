"""Batches of states are combined as Kafka's PersisterStateBatchCombiner combines them.

`KAFKAS` has answers of Kafka 4.3.1; tests/compat/java asks it for many more.
"""

from itertools import pairwise
from random import Random

import pytest

from ottla.groupcoord.share_state.combine_batches import combine_batches, is_in_order
from ottla.groupcoord.share_state.share_state_words import StateBatch
from tests.unit.groupcoord.share_state.share_state_world import batch


def parsed(text: str) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*map(int, one.split(":"))) for one in text.split(",") if one)


# The known batches, the written ones, the start offset; and Kafka's result.
KAFKAS = [
    ("", "", -1, ""),
    ("0:9:0:1", "", -1, "0:9:0:1"),
    ("0:9:0:1", "10:19:0:1", -1, "0:19:0:1"),
    ("0:9:0:1", "11:19:0:1", -1, "0:9:0:1,11:19:0:1"),
    ("0:9:0:1", "10:19:2:1", -1, "0:9:0:1,10:19:2:1"),
    ("0:9:0:1", "0:9:2:1", -1, "0:9:2:1"),
    ("0:9:2:1", "0:9:0:1", -1, "0:9:2:1"),
    ("0:9:2:1", "0:9:0:2", -1, "0:9:0:2"),
    ("0:9:0:1", "3:5:2:1", -1, "0:2:0:1,3:5:2:1,6:9:0:1"),
    ("0:9:4:2", "3:5:2:1", -1, "0:9:4:2"),
    ("0:9:0:1", "5:14:0:2", -1, "0:4:0:1,5:14:0:2"),
    ("0:9:0:2", "5:14:0:1", -1, "0:9:0:2,10:14:0:1"),
    ("5:9:0:1", "0:14:0:2", -1, "0:14:0:2"),
    ("5:9:0:2", "0:14:0:1", -1, "0:4:0:1,5:9:0:2,10:14:0:1"),
    ("0:9:0:1,10:19:2:1", "5:14:4:3", -1, "0:4:0:1,5:14:4:3,15:19:2:1"),
    ("0:9:0:1,20:29:2:1", "", 5, "5:9:0:1,20:29:2:1"),
    ("0:9:0:1,20:29:2:1", "8:25:0:2", 10, "10:25:0:2,26:29:2:1"),
    ("0:9:0:1", "0:3:2:1", 10, ""),
]


@pytest.mark.parametrize(("known", "written", "start_offset", "combined"), KAFKAS)
def test_batches_are_combined_as_kafka_does(
    known: str, written: str, start_offset: int, combined: str
) -> None:
    assert combine_batches(parsed(known), parsed(written), start_offset) == parsed(combined)


def test_combined_batches_have_the_highest_count_and_state_of_each_offset() -> None:
    random = Random(932)
    for _ in range(300):
        expected: dict[int, tuple[int, int]] = {}
        known: tuple[StateBatch, ...] = ()
        start_offset = 0
        for _ in range(random.randrange(1, 12)):
            written = [some_batch(random) for _ in range(random.randrange(4))]
            start_offset = max(start_offset, random.randrange(30) if random.random() < 0.2 else 0)
            known = combine_batches(known, written, start_offset)
            for one in written:
                for offset in range(one.first_offset, one.last_offset + 1):
                    expected[offset] = max(
                        expected.get(offset, (-1, -1)), (one.delivery_count, one.delivery_state)
                    )

            assert is_in_order(known)
            assert no_neighbours_are_alike(known)
            assert opened(known) == {
                offset: each for offset, each in expected.items() if offset >= start_offset
            }


def some_batch(random: Random) -> StateBatch:
    first = random.randrange(40)
    return batch(first, first + random.randrange(12), random.choice((0, 2, 4)), random.randrange(1, 4))


def opened(batches: tuple[StateBatch, ...]) -> dict[int, tuple[int, int]]:
    return {
        offset: (one.delivery_count, one.delivery_state)
        for one in batches
        for offset in range(one.first_offset, one.last_offset + 1)
    }


def no_neighbours_are_alike(batches: tuple[StateBatch, ...]) -> bool:
    return not any(
        one.last_offset + 1 == later.first_offset and one[2:] == later[2:] for one, later in pairwise(batches)
    )


def test_many_low_batches_over_many_high_ones_are_swept_once() -> None:
    """Kafka would merge as many pairs as the product of both."""
    high = tuple(batch(2 * at, 2 * at, 2, 3) for at in range(5_000))
    low = [batch(at, 20_000 + at, 0, 1) for at in range(5_000)]

    combined = combine_batches(high, low, -1)

    assert len(combined) == 10_000 and is_in_order(combined)
