"""Schedules the retries of a file or a setting that was rejected, with growing pauses up to a limit. Pure.

Retries are needed even if the file has not changed: the reason may have been a failed disk or a wrong clock.
"""

from dataclasses import dataclass
from typing import Final

LOOK_SECONDS: Final = 5.0  # Kubernetes takes a minute to bring a renewed secret into a pod
# Between retries of a rejected file: five minutes, as an attempt may start the PKCS12 reader.
MAX_LOOKS_BETWEEN: Final = 60
MAX_MINUTES_BETWEEN: Final = MAX_LOOKS_BETWEEN * LOOK_SECONDS / 60


@dataclass(slots=True)
class RetrySchedule:
    """The attempts to apply one file or setting; time is counted in looks, one each `LOOK_SECONDS`."""

    refused: str = ""  # the reason why the last attempt failed, or ""
    _looks_left: int = 0  # until the next attempt
    _looks_between: int = 1  # doubled with each failure

    def is_due(self, *, has_changed: bool) -> bool:
        """Count a look; return True if it should make an attempt."""
        if has_changed:
            self._looks_between = 1
            return True
        if not self.refused:
            return False
        self._looks_left -= 1
        return self._looks_left <= 0

    def failed(self, reason: str) -> bool:
        """Record a failed attempt; return True if the reason differs from the last one."""
        is_new = reason != self.refused
        self.refused = reason
        self._looks_left = self._looks_between
        self._looks_between = min(2 * self._looks_between, MAX_LOOKS_BETWEEN)
        return is_new

    def succeeded(self) -> None:
        """Record a successful attempt."""
        self.refused, self._looks_between = "", 1
