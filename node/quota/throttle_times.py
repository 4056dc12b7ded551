"""Averages the throttle times of the last half minute to minute, as Apache Kafka's `throttle-time` does."""

from typing import Final

WINDOW_MS: Final = 30_000


class ThrottleTimes:
    """The throttle times of one client; zeros do not count."""

    __slots__ = ("_before", "_count", "_start_ms", "_sum_ms")

    def __init__(self) -> None:
        self._start_ms = 0
        self._sum_ms = self._count = 0
        self._before = (0, 0)  # sum and count of the previous window

    def record(self, throttle_ms: int, now_ms: int) -> None:
        """Add a throttle time."""
        self._move_on(now_ms)
        self._sum_ms += throttle_ms
        self._count += 1

    def average_ms(self, now_ms: int) -> float:
        """Return the average, 0 without any."""
        self._move_on(now_ms)
        sum_ms, count = self._before
        count += self._count
        return (sum_ms + self._sum_ms) / count if count else 0.0

    def _move_on(self, now_ms: int) -> None:
        elapsed_ms = now_ms - self._start_ms
        if elapsed_ms < WINDOW_MS:
            return
        self._before = (self._sum_ms, self._count) if elapsed_ms < 2 * WINDOW_MS else (0, 0)
        self._sum_ms = self._count = 0
        self._start_ms = now_ms
