"""Differences between two readings: what happened a second, and how long things took lately.

A number that only grows says nothing of the last minutes; a few earlier readings do. The oldest within the
window is what is compared with.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

WINDOW_S: Final = 300.0  # as long as Kafka's histograms remember, about
MIN_AGE_S: Final = 1.0  # two readings of the same moment tell no rate
MAX_READINGS: Final = 64

T = TypeVar("T")
K = TypeVar("K")


class Window(Generic[T]):
    """Readings of the last `seconds`, at most one for every 64th part of them."""

    def __init__(self, seconds: float = WINDOW_S) -> None:
        self._seconds = seconds
        self._readings: deque[tuple[float, T]] = deque()

    def oldest(self, now_s: float) -> tuple[float, T] | None:
        """The oldest reading that is in the window, and how long ago (s) it was; None for none."""
        while len(self._readings) > 1 and now_s - self._readings[0][0] > self._seconds:
            self._readings.popleft()
        if not self._readings or now_s - self._readings[0][0] < MIN_AGE_S:
            return None
        at_s, reading = self._readings[0]
        return now_s - at_s, reading

    def add(self, now_s: float, reading: T) -> None:
        """Remember a reading; soon after another one it is not needed."""
        if not self._readings or now_s - self._readings[-1][0] >= self._seconds / MAX_READINGS:
            self._readings.append((now_s, reading))


def counts_since(
    now: Mapping[K, Sequence[int]], before: Mapping[K, Sequence[int]] | None
) -> dict[K, list[int]]:
    """What was counted in each bucket since; all of it where nothing was known before."""
    found: dict[K, list[int]] = {}
    for key, counts in now.items():
        earlier = None if before is None else before.get(key)
        found[key] = (
            list(counts) if earlier is None else [a - b for a, b in zip(counts, earlier, strict=True)]
        )
    return found
