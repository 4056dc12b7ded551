"""Sets of integers as ranges, compared with Python's own sets."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.source.integer_ranges import ALL, LEAST, MOST, IntegerRanges

NONE = IntegerRanges(ranges=())
SOME = range(-20, 20)
pairs = st.lists(st.tuples(st.integers(-20, 19), st.integers(-20, 19)), max_size=6)


def numbers(ranges: IntegerRanges) -> set[int]:
    return {number for number in SOME if number in ranges}


def check(ranges: IntegerRanges) -> None:
    """Assert that the ranges are not empty, in order, and disjoint."""
    assert all(LEAST <= start < end <= MOST + 1 for start, end in ranges.ranges)
    assert all(before[1] < after[0] for before, after in zip(ranges.ranges, ranges.ranges[1:], strict=False))


@given(pairs, pairs, st.integers(-20, 19), st.integers(-20, 19))
def test_ranges_are_sets(
    mine: list[tuple[int, int]], others: list[tuple[int, int]], start: int, end: int
) -> None:
    one, other = IntegerRanges.of(mine), IntegerRanges.of(others)

    both, not_one = one & other, one.complement()

    for ranges in (one, other, both, not_one):
        check(ranges)
    assert numbers(one) == {number for begin, until in mine for number in range(begin, until)}
    assert numbers(both) == numbers(one) & numbers(other)
    assert numbers(not_one) == set(SOME) - numbers(one)
    assert (one & not_one, not_one.complement()) == (NONE, one)
    assert {number for begin, until in one.within(start, end) for number in range(begin, until)} == (
        numbers(one) & set(range(start, end))
    )


def test_all_has_the_ends_of_64_bits() -> None:
    assert (ALL.is_all, LEAST in ALL, MOST in ALL, ALL.complement()) == (True, True, True, NONE)
    assert IntegerRanges.of([(-(2**70), 2**70)]) == ALL
    assert IntegerRanges.of([(MOST + 1, MOST + 5)]) == NONE
