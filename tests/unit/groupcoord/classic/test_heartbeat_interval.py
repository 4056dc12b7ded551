"""A member's heartbeat interval, learned from clients that count it in different ways."""

from collections.abc import Callable

import pytest

from ottla.groupcoord.classic.heartbeat_interval import HeartbeatInterval

INTERVAL_MS, LIMIT_MS = 1_000, 10_000


def from_the_last_one_sent(sent_ms: int, answered_ms: int) -> int:
    """Return the time of the next heartbeat of Java's client and of kafka-python."""
    return max(sent_ms + INTERVAL_MS, answered_ms)


def by_a_fixed_beat(sent_ms: int, answered_ms: int) -> int:
    """Return the time of the next heartbeat of librdkafka and sarama: they skip beats before the answer."""
    return max(sent_ms + INTERVAL_MS, -(-answered_ms // INTERVAL_MS) * INTERVAL_MS)


def from_the_answer(sent_ms: int, answered_ms: int) -> int:
    return answered_ms + INTERVAL_MS


CLIENTS = [from_the_last_one_sent, by_a_fixed_beat, from_the_answer]


def play(next_ms: Callable[[int, int], int], interval: HeartbeatInterval, beats: int) -> list[int]:
    """Return for how long each heartbeat was held."""
    now_ms, held = 10_000, []
    for _ in range(beats):
        interval.arrived(now_ms)
        held.append(interval.hold_ms(LIMIT_MS))
        answered_ms = now_ms + held[-1]
        if held[-1]:
            interval.answered(answered_ms)
        now_ms = next_ms(now_ms, answered_ms)
    return held


@pytest.mark.parametrize("client", CLIENTS)
def test_the_interval_is_known_from_the_second_heartbeat_on_and_is_not_changed_by_waiting(
    client: Callable[[int, int], int],
) -> None:
    held = play(client, HeartbeatInterval(), 50)

    assert held[0] == 0
    assert set(held[1:]) == {900}


@pytest.mark.parametrize("client", [from_the_last_one_sent, by_a_fixed_beat])
def test_an_interval_that_was_taken_for_too_quick_is_corrected(client: Callable[[int, int], int]) -> None:
    interval = HeartbeatInterval()
    interval.arrived(9_100)
    interval.arrived(10_000 - 1)

    held = play(client, interval, 20)

    assert held[-1] == 900


def test_an_interval_that_was_taken_for_too_slow_is_corrected() -> None:
    interval = HeartbeatInterval()
    interval.arrived(5_000)

    held = play(from_the_last_one_sent, interval, 60)

    assert held[0] == 4_500
    assert 850 <= held[-1] <= 1_000


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("taken_for_ms", [1_150, 1_400])
def test_a_first_gap_that_was_too_long_is_forgotten(
    client: Callable[[int, int], int], taken_for_ms: int
) -> None:
    interval = HeartbeatInterval()
    interval.arrived(10_000 - taken_for_ms)

    held = play(client, interval, 60)

    assert held[0] == taken_for_ms * 9 // 10
    assert 850 <= held[-1] <= 1_000


@pytest.mark.parametrize("released_ms", [1, 200, 500, 899])
def test_a_client_that_sends_more_before_its_time_is_over_keeps_its_interval(released_ms: int) -> None:
    interval = HeartbeatInterval()
    interval.arrived(0)
    for beat in range(1, 30):
        interval.arrived(beat * INTERVAL_MS)
        assert interval.hold_ms(LIMIT_MS) == 900
        interval.answered(beat * INTERVAL_MS + released_ms)


def test_what_happens_during_a_rebalance_says_nothing_about_the_interval() -> None:
    interval = HeartbeatInterval()
    interval.arrived(1_000)
    interval.arrived(2_000)

    interval.skip_next()
    interval.arrived(9_000)

    assert interval.interval_ms == 1_000


@pytest.mark.parametrize(("interval_ms", "hold_ms"), [(50, 0), (200, 180), (3_000, 2_700), (60_000, 10_000)])
def test_it_waits_for_most_of_the_interval_and_not_for_longer_than_the_limit(
    interval_ms: int, hold_ms: int
) -> None:
    interval = HeartbeatInterval()
    interval.arrived(0)
    interval.arrived(interval_ms)

    assert interval.hold_ms(LIMIT_MS) == hold_ms


def test_a_clock_that_was_set_back_gives_no_interval() -> None:
    interval = HeartbeatInterval()
    interval.arrived(5_000)
    interval.arrived(4_000)

    assert interval.hold_ms(LIMIT_MS) == 0
