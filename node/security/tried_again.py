"""When what was refused is tried again though nothing has changed: later and later, up to a limit. Pure.

A disk that failed, or a clock that was wrong, leaves no trace in a file.
"""

from dataclasses import dataclass
from typing import Final

LOOK_SECONDS: Final = 5.0  # Kubernetes itself takes a minute until a renewed secret is in a pod
# Between two attempts to read what was refused: five minutes, as an attempt may start a reader of PKCS12.
MAX_LOOKS_BETWEEN: Final = 60
MAX_MINUTES_BETWEEN: Final = MAX_LOOKS_BETWEEN * LOOK_SECONDS / 60


@dataclass(slots=True)
class TriedAgain:
    """The attempts to take over one thing, counted in looks at it."""

    refused: str = ""  # why the last attempt failed; empty if it did not
    _looks_left: int = 0  # until the next attempt
    _looks_between: int = 1  # doubled with each that fails

    def is_due(self, *, has_changed: bool) -> bool:
        """Return whether an attempt is to be made in this look."""
        if has_changed:
            self._looks_between = 1
            return True
        if not self.refused:
            return False
        self._looks_left -= 1
        return self._looks_left <= 0

    def failed(self, reason: str) -> bool:
        """Note that an attempt has failed; return whether the reason is another one than before."""
        is_new = reason != self.refused
        self.refused = reason
        self._looks_left = self._looks_between
        self._looks_between = min(2 * self._looks_between, MAX_LOOKS_BETWEEN)
        return is_new

    def succeeded(self) -> None:
        """Note that an attempt has succeeded."""
        self.refused, self._looks_between = "", 1
