"""Logs an error that may come again and again: as an error once a minute, otherwise at debug level."""

import logging
from typing import Final

PAUSE_MS: Final = 60_000


class RepeatedLine:
    """The line about one thing, such as one share-partition."""

    __slots__ = ("_logged_ms",)

    def __init__(self) -> None:
        self._logged_ms: int | None = None

    def was_logged(self, now_ms: int) -> bool:
        """Return True if it was logged as an error, or noted, within the last minute."""
        return self._logged_ms is not None and 0 <= now_ms - self._logged_ms < PAUSE_MS

    def log(self, log: logging.Logger, now_ms: int, message: str, *values: object) -> None:
        """Log an error, or a debug line if there was an error within the last minute."""
        log.log(logging.ERROR if self.note(now_ms) else logging.DEBUG, message, *values)

    def note(self, now_ms: int) -> bool:
        """Return True, and remember the time, if `was_logged` returns False."""
        is_due = not self.was_logged(now_ms)
        if is_due:
            self._logged_ms = now_ms
        return is_due
