"""The offsets that a micro-batch takes: fair shares, and a minimum to wait for."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.admission import MinimumWait, rate_limit

A, B, C = (TopicPartition("t", number) for number in range(3))
OFFSETS = st.tuples(st.integers(0, 10**12), st.integers(0, 10**6))


def test_each_partition_gives_in_proportion_to_what_it_has() -> None:
    assert rate_limit({A: 0, B: 100}, {A: 300, B: 200}, 100) == {A: 75, B: 125}


def test_a_small_partition_is_not_starved() -> None:
    assert rate_limit({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_a_partition_without_new_records_keeps_its_end() -> None:
    assert rate_limit({A: 5, B: 0}, {A: 5, B: 10}, 4) == {A: 5, B: 4}


def test_a_log_that_ends_before_the_read_offset_keeps_its_end() -> None:
    assert rate_limit({A: 50, B: 0}, {A: 20, B: 10}, 4) == {A: 20, B: 4}


def test_without_new_offsets_the_ends_stay() -> None:
    assert rate_limit({A: 5}, {A: 5}, 4) == {A: 5}
    assert rate_limit({}, {}, 4) == {}


@given(st.lists(OFFSETS, min_size=1, max_size=20), st.integers(1, 10**7))
def test_every_batch_takes_something_and_little_more_than_the_limit(
    logs: list[tuple[int, int]], limit: int
) -> None:
    start = {TopicPartition("t", number): first for number, (first, _) in enumerate(logs)}
    end = {TopicPartition("t", number): first + size for number, (first, size) in enumerate(logs)}

    limited = rate_limit(start, end, limit)

    taken = {partition: limited[partition] - start[partition] for partition in start}
    assert all(0 <= taken[one] <= end[one] - start[one] for one in taken)
    assert all(taken[one] > 0 for one in taken if end[one] > start[one])
    assert sum(taken.values()) <= limit + len(logs)


def test_a_batch_waits_for_enough() -> None:
    wait = MinimumWait(10, 1_000)
    assert not wait.goes_on({A: 0}, {A: 1}, 0)  # the first one of a query

    assert wait.goes_on({A: 1}, {A: 10}, 500)
    assert not wait.goes_on({A: 1}, {A: 11}, 600)
    assert wait.goes_on({A: 11}, {A: 12}, 1_599)


def test_a_batch_waits_no_longer_than_it_may() -> None:
    wait = MinimumWait(10, 1_000)
    assert not wait.goes_on({A: 0}, {A: 0}, 0)

    assert wait.goes_on({A: 0}, {A: 1}, 999)
    assert not wait.goes_on({A: 0}, {A: 1}, 1_000)
    assert wait.goes_on({A: 1}, {A: 2}, 1_999)
