"""Throttle times by themselves, with a loop whose time the test sets."""

import pytest

from ottla.node.net.connection_states import Serving
from ottla.node.net.not_served import LOOK_FOR_END_SECONDS
from ottla.node.net.throttle import Throttle


class Loop:
    """A loop that keeps the delayed calls."""

    def __init__(self) -> None:
        self.now = 100.0
        self.delays: list[float] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: object, *arguments: object) -> None:
        self.delays.append(delay)


class Waiting:
    """A connection that is throttled."""

    def __init__(self) -> None:
        self.state = Serving.THROTTLED
        self.has_gone = False
        self.ends = 0

    def end_if_peer_has_gone(self) -> bool:
        return self.has_gone

    def end_throttle(self) -> None:
        self.ends += 1


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_a_throttle_time_becomes_longer_and_never_shorter(loop: Loop) -> None:
    throttle = Throttle(loop)  # type: ignore[arg-type]

    throttle.extend(2_000)
    throttle.extend(500)
    loop.now += 1.9
    assert not throttle.is_over()

    loop.now += 0.1
    assert throttle.is_over()


@pytest.mark.parametrize(("throttle_ms", "looks_after_s"), [(200, 0.2), (30_000, LOOK_FOR_END_SECONDS)])
def test_a_peer_that_waits_long_is_looked_at_meanwhile(
    loop: Loop, throttle_ms: int, looks_after_s: float
) -> None:
    throttle, connection = Throttle(loop), Waiting()  # type: ignore[arg-type]
    throttle.extend(throttle_ms)

    throttle.wait_out(connection)

    assert loop.delays == [pytest.approx(looks_after_s)] and not connection.ends
    loop.now += throttle_ms / 1_000
    throttle.wait_out(connection)
    assert connection.ends == 1


def test_a_throttle_does_not_wait_for_a_peer_that_is_gone_or_a_closed_connection(loop: Loop) -> None:
    throttle, gone, closed = Throttle(loop), Waiting(), Waiting()  # type: ignore[arg-type]
    throttle.extend(1_000)
    gone.has_gone, closed.state = True, Serving.CLOSED

    throttle.wait_out(gone)
    throttle.wait_out(closed)
    loop.now += 1
    throttle.wait_out(closed)

    assert not loop.delays and not gone.ends + closed.ends
