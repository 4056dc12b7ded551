"""The deadline of a request or a command: one value, made where the work begins and passed to each call.

No wait within the work has a timeout of its own: the last request gets the time that the others left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

# With a timeout of zero even a response that has already arrived could not be read.
LEAST_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time of a monotonic clock, and the time that was given until it."""

    at_s: float
    given_s: float
    now_s: Callable[[], float] = monotonic

    @classmethod
    def after(cls, seconds: float, now_s: Callable[[], float] = monotonic) -> "Deadline":
        """Return the deadline of work that begins now and may take `seconds`."""
        return cls(now_s() + seconds, seconds, now_s)

    @property
    def remaining_s(self) -> float:
        """Return how long a call may still wait; never less than LEAST_S, so that it is a valid timeout."""
        return max(self.at_s - self.now_s(), LEAST_S)

    @property
    def is_over(self) -> bool:
        return self.now_s() >= self.at_s

    def allows(self, pause_s: float) -> bool:
        """Return True if there is time left after a pause of this length."""
        return self.now_s() + pause_s < self.at_s

    def within(self, seconds: float) -> "Deadline":
        """Return the deadline of a part of the work: `seconds` from now, or this one if it is earlier."""
        return Deadline(min(self.at_s, self.now_s() + seconds), self.given_s, self.now_s)

    def share(self, parts: int) -> "Deadline":
        """Return the deadline of the next of `parts` steps, so that each gets an equal share of the time."""
        return self.within(self.remaining_s / max(parts, 1))
