"""Logs an error that may come again and again, as an error once a minute."""

import logging
from typing import Final

PAUSE_MS: Final = 60_000


class RepeatedLine:
    """The line about one thing, such as one share-partition."""

    __slots__ = ("_told_ms",)

    def __init__(self) -> None:
        self._told_ms: int | None = None

    def was_told(self, now_ms: int) -> bool:
        """Return True if it was logged within the last minute."""
        return self._told_ms is not None and 0 <= now_ms - self._told_ms < PAUSE_MS

    def tell(self, log: logging.Logger, now_ms: int, message: str, *values: object) -> None:
        """Log an error, or a debug line if there was an error within the last minute."""
        log.log(logging.ERROR if self.note(now_ms) else logging.DEBUG, message, *values)

    def note(self, now_ms: int) -> bool:
        """Return True, and remember the time, if the line was not logged within the last minute."""
        is_due = not self.was_told(now_ms)
        if is_due:
            self._told_ms = now_ms
        return is_due
