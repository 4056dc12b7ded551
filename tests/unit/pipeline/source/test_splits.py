"""Ranges for tasks, divided as the connector divides them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.source.splits import MAX_PARTS, divide
from ottla.pipeline.words import OptionError


def ranges(*sizes: int) -> list[OffsetRange]:
    """Return one range of each size, beginning at 1, 2, 3 and so on."""
    return [
        OffsetRange(partition=TopicPartition("t", number), start=number + 1, end=number + 1 + size)
        for number, size in enumerate(sizes)
    ]


def sizes(pieces: list[OffsetRange]) -> list[tuple[int, int]]:
    """Return (partition, size) of each piece."""
    return [(piece.partition.partition, piece.end - piece.start) for piece in pieces]


# The expected numbers follow the rules of the connector's KafkaOffsetRangeCalculatorSuite, counted by hand.
@pytest.mark.parametrize(
    ("given", "least", "most", "expected"),
    [
        ((5, 0, 7), None, None, [(0, 5), (2, 7)]),
        ((5, 7), 2, None, [(0, 5), (1, 7)]),
        ((5, 7), 1, None, [(0, 5), (1, 7)]),
        ((5,), 3, None, [(0, 1), (0, 2), (0, 2)]),
        ((4, 1), 3, None, [(0, 2), (0, 2), (1, 1)]),
        ((1, 1), 10, None, [(0, 1), (1, 1)]),
        ((10,), None, 4, [(0, 3), (0, 3), (0, 4)]),
        ((8, 3), None, 4, [(0, 4), (0, 4), (1, 3)]),
        ((8, 3), 6, 4, [(0, 2), (0, 2), (0, 2), (0, 2), (1, 1), (1, 2)]),
        ((10_000, 10, 10), 10, None, [(0, 1_250)] * 8 + [(1, 10), (2, 10)]),
    ],
)
def test_ranges_are_divided_as_by_the_connector(
    given: tuple[int, ...], least: int | None, most: int | None, expected: list[tuple[int, int]]
) -> None:
    pieces = divide(ranges(*given), min_partitions=least, max_records_per_partition=most)

    assert sizes(pieces) == expected


@given(
    st.lists(st.integers(-3, 500), max_size=8),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 100),
)
def test_pieces_are_the_ranges_in_their_order(
    lengths: list[int], least: int | None, most: int | None
) -> None:
    whole = ranges(*lengths)

    pieces = divide(whole, min_partitions=least, max_records_per_partition=most)

    for one in whole:
        own = [piece for piece in pieces if piece.partition == one.partition]
        offsets = [offset for piece in own for offset in range(piece.start, piece.end)]
        assert offsets == list(range(one.start, one.end))
        assert all(piece.start < piece.end for piece in own)
        assert most is None or all(piece.end - piece.start <= most for piece in own)


def test_too_many_tasks_are_refused_by_name() -> None:
    with pytest.raises(OptionError, match="maxRecordsPerPartition: would split t-0 into"):
        divide(ranges(MAX_PARTS + 1), min_partitions=None, max_records_per_partition=1)
