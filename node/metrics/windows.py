"""Differences between two readings, for rates per second and for latencies of the last minutes.

A number that only grows does not show the last minutes by itself. So a few earlier readings are kept, and the
present one is compared with the oldest in the window.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

WINDOW_S: Final = 300.0  # about as long as Kafka's histograms cover
MIN_AGE_S: Final = 1.0  # readings closer to each other give no useful rate
MAX_READINGS: Final = 64

T = TypeVar("T")
K = TypeVar("K")


class Window(Generic[T]):
    """Readings of the last `seconds`, at most one for each 64th part of that time."""

    def __init__(self, seconds: float = WINDOW_S) -> None:
        self._seconds = seconds
        self._readings: deque[tuple[float, T]] = deque()

    def oldest(self, now_s: float) -> tuple[float, T] | None:
        """Return the oldest reading in the window, and its age in seconds; None if there is none."""
        while len(self._readings) > 1 and now_s - self._readings[0][0] > self._seconds:
            self._readings.popleft()
        if not self._readings or now_s - self._readings[0][0] < MIN_AGE_S:
            return None
        at_s, reading = self._readings[0]
        return now_s - at_s, reading

    def add(self, now_s: float, reading: T) -> None:
        """Add a reading, unless the last one was added a moment ago."""
        if not self._readings or now_s - self._readings[-1][0] >= self._seconds / MAX_READINGS:
            self._readings.append((now_s, reading))


def counts_since(
    now: Mapping[K, Sequence[int]], before: Mapping[K, Sequence[int]] | None
) -> dict[K, list[int]]:
    """Return the increase of each bucket since `before`; all its counts if nothing was known before."""
    found: dict[K, list[int]] = {}
    for key, counts in now.items():
        earlier = None if before is None else before.get(key)
        found[key] = (
            list(counts) if earlier is None else [a - b for a, b in zip(counts, earlier, strict=True)]
        )
    return found
