"""A line of the log that may come again and again, since what it tells of does: it is told once a minute."""

import logging
from typing import Final

PAUSE_MS: Final = 60_000


class RepeatedLine:
    """What is told of one thing, as of one share-partition."""

    __slots__ = ("_told_ms",)

    def __init__(self) -> None:
        self._told_ms: int | None = None

    def was_told(self, now_ms: int) -> bool:
        """Return whether it was told in the minute before."""
        return self._told_ms is not None and 0 <= now_ms - self._told_ms < PAUSE_MS

    def tell(self, log: logging.Logger, now_ms: int, message: str, *values: object) -> None:
        """Write an error to the log, or for who looks closely if there was one just now."""
        log.log(logging.ERROR if self.note(now_ms) else logging.DEBUG, message, *values)

    def note(self, now_ms: int) -> bool:
        """Take note that it is told, if it was not in the minute before; return whether that is so."""
        is_due = not self.was_told(now_ms)
        if is_due:
            self._told_ms = now_ms
        return is_due
