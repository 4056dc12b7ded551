"""A member's heartbeat interval, learned from clients that measure it in different ways."""

from collections.abc import Callable

import pytest

from ottla.groupcoord.classic.heartbeat_interval import HeartbeatInterval

INTERVAL_MS, LIMIT_MS = 1_000, 10_000


def from_the_last_one_sent(sent_ms: int, answered_ms: int) -> int:
    """Return the time of the next heartbeat of Java's client and of kafka-python."""
    return max(sent_ms + INTERVAL_MS, answered_ms)


def at_a_fixed_interval(sent_ms: int, answered_ms: int) -> int:
    """Return the time of the next heartbeat of librdkafka and sarama: they send none before the answer."""
    return max(sent_ms + INTERVAL_MS, -(-answered_ms // INTERVAL_MS) * INTERVAL_MS)


def from_the_answer(sent_ms: int, answered_ms: int) -> int:
    return answered_ms + INTERVAL_MS


CLIENTS = [from_the_last_one_sent, at_a_fixed_interval, from_the_answer]


def play(next_ms: Callable[[int, int], int], interval: HeartbeatInterval, count: int) -> list[int]:
    """Return for how long each heartbeat was held."""
    now_ms, held = 10_000, []
    for _ in range(count):
        interval.note_arrival(now_ms)
        held.append(interval.hold_ms(LIMIT_MS))
        answered_ms = now_ms + held[-1]
        if held[-1]:
            interval.note_answer(answered_ms)
        now_ms = next_ms(now_ms, answered_ms)
    return held


@pytest.mark.parametrize("client", CLIENTS)
def test_the_interval_is_known_from_the_second_heartbeat_on_and_is_not_changed_by_waiting(
    client: Callable[[int, int], int],
) -> None:
    held = play(client, HeartbeatInterval(), 50)

    assert held[0] == 0
    assert set(held[1:]) == {900}


@pytest.mark.parametrize("client", [from_the_last_one_sent, at_a_fixed_interval])
def test_an_interval_that_was_learned_too_short_is_corrected(client: Callable[[int, int], int]) -> None:
    interval = HeartbeatInterval()
    interval.note_arrival(9_100)
    interval.note_arrival(10_000 - 1)

    held = play(client, interval, 20)

    assert held[-1] == 900


def test_an_interval_that_was_learned_too_long_is_corrected() -> None:
    interval = HeartbeatInterval()
    interval.note_arrival(5_000)

    held = play(from_the_last_one_sent, interval, 60)

    assert held[0] == 4_500
    assert 850 <= held[-1] <= 1_000


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("learned_ms", [1_150, 1_400])
def test_a_first_gap_that_was_too_long_is_forgotten(
    client: Callable[[int, int], int], learned_ms: int
) -> None:
    interval = HeartbeatInterval()
    interval.note_arrival(10_000 - learned_ms)

    held = play(client, interval, 60)

    assert held[0] == learned_ms * 9 // 10
    assert 850 <= held[-1] <= 1_000


@pytest.mark.parametrize("released_ms", [1, 200, 500, 899])
def test_a_heartbeat_that_is_answered_early_does_not_change_the_interval(released_ms: int) -> None:
    interval = HeartbeatInterval()
    interval.note_arrival(0)
    for number in range(1, 30):
        interval.note_arrival(number * INTERVAL_MS)
        assert interval.hold_ms(LIMIT_MS) == 900
        interval.note_answer(number * INTERVAL_MS + released_ms)


def test_the_gap_of_a_rebalance_does_not_change_the_interval() -> None:
    interval = HeartbeatInterval()
    interval.note_arrival(1_000)
    interval.note_arrival(2_000)

    interval.skip_next()
    interval.note_arrival(9_000)

    assert interval.interval_ms == 1_000


@pytest.mark.parametrize(("interval_ms", "hold_ms"), [(50, 0), (200, 180), (3_000, 2_700), (60_000, 10_000)])
def test_a_heartbeat_is_held_for_most_of_the_interval_and_at_most_for_the_limit(
    interval_ms: int, hold_ms: int
) -> None:
    interval = HeartbeatInterval()
    interval.note_arrival(0)
    interval.note_arrival(interval_ms)

    assert interval.hold_ms(LIMIT_MS) == hold_ms


def test_a_clock_that_was_set_back_gives_no_interval() -> None:
    interval = HeartbeatInterval()
    interval.note_arrival(5_000)
    interval.note_arrival(4_000)

    assert interval.hold_ms(LIMIT_MS) == 0
