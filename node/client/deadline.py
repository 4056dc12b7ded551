"""Until when a request or a command may take: one value, made where it begins and handed down to each call.

So no wait within it has a time of its own: what is asked last has what the others have left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

# A wait of no time at all could not even take an answer that is there already.
LEAST_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time by a clock that never goes back, and how much time was given until it."""

    at_s: float
    given_s: float
    now_s: Callable[[], float] = monotonic

    @classmethod
    def after(cls, seconds: float, now_s: Callable[[], float] = monotonic) -> "Deadline":
        """Return the deadline of what begins now and was given so many seconds."""
        return cls(now_s() + seconds, seconds, now_s)

    @property
    def remaining_s(self) -> float:
        """How long a call may still wait; never less than LEAST_S, so that it is a timeout as any other."""
        return max(self.at_s - self.now_s(), LEAST_S)

    @property
    def is_over(self) -> bool:
        return self.now_s() >= self.at_s

    def allows(self, pause_s: float) -> bool:
        """Return whether there is time left after a pause of this length."""
        return self.now_s() + pause_s < self.at_s

    def within(self, seconds: float) -> "Deadline":
        """Return the deadline of a part: so many seconds from now, or this one if it is earlier."""
        return Deadline(min(self.at_s, self.now_s() + seconds), self.given_s, self.now_s)

    def share(self, parts: int) -> "Deadline":
        """Return the deadline of the next of so many parts that are done one after the other."""
        return self.within(self.remaining_s / max(parts, 1))
