"""The waiting time of a record, computed from the ends of its log that were seen earlier."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.source.lag_time import MAX_KNOWN_ENDS, KnownEnd, KnownEnds, waited_ms, with_end


def known(*ends: tuple[int, int], read: int = 0) -> KnownEnds:
    """Return the ends of a log as (moment, end), reported in order while a query is at `read`."""
    found: KnownEnds = ()
    for at_ms, end in ends:
        found = with_end(found, KnownEnd(at_ms=at_ms, end=end), read)
    return found


def test_a_query_at_the_end_of_the_log_has_no_lag() -> None:
    assert waited_ms(known((1_000, 50), read=50), 50, 9_000) == 0
    assert waited_ms((), 0, 9_000) == 0


def test_records_between_two_moments_are_assumed_to_come_at_a_constant_rate() -> None:
    ends = known((1_000, 0), (2_000, 100))

    assert waited_ms(ends, 0, 5_000) == 4_000
    assert waited_ms(ends, 25, 5_000) == 3_750
    assert waited_ms(ends, 99, 5_000) == 3_010


def test_records_after_an_idle_time_came_after_it() -> None:
    ends = known((1_000, 10), (5_000, 10), (60_000, 10), (61_000, 20), read=10)

    assert waited_ms(ends, 10, 62_000) == 2_000
    assert len(ends) == 2


def test_records_that_were_there_at_first_have_waited_at_least_since_then() -> None:
    assert waited_ms(known((1_000, 500)), 0, 4_000) == 3_000


def test_a_log_that_was_created_again_is_seen_for_the_first_time() -> None:
    assert known((1_000, 500), (2_000, 3)) == (KnownEnd(at_ms=2_000, end=3),)


def test_lag_grows_while_the_query_reports_no_progress() -> None:
    ends = known((1_000, 0), (2_000, 100))

    assert waited_ms(ends, 50, 100_000) - waited_ms(ends, 50, 10_000) == 90_000


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 100)), max_size=1_000), st.integers(0, 2_000))
def test_memory_is_bounded_and_a_wait_never_begins_before_the_log_was_seen(
    steps: list[tuple[int, int]], read: int
) -> None:
    ends: KnownEnds = ()
    at_ms = end = 0
    for later, more in steps:
        at_ms, end = at_ms + later, end + more
        ends = with_end(ends, KnownEnd(at_ms=at_ms, end=end), read)
        assert len(ends) <= MAX_KNOWN_ENDS
    waits = waited_ms(ends, read, at_ms)

    assert 0 <= waits <= at_ms
    assert (waits == 0) or read < end
