"""How far a long command has got, on a line of standard error that is overwritten; only at a terminal."""

import sys
import time
from typing import Final

INTERVAL_S: Final = 0.5  # fast enough to be seen moving, slow enough to be read
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """The line of one command. Without a terminal on standard error it is never written."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._begun_s = self._told_s = time.monotonic()
        self._has_line = False

    def show(self, size_bytes: int, records: int | None = None) -> None:
        """Tell how much was done since the command began, and how fast; called often, written seldom."""
        if not self._is_shown:
            return
        now_s = time.monotonic()
        if now_s - self._told_s < INTERVAL_S:
            return
        self._told_s, self._has_line = now_s, True
        rate = size_bytes / (now_s - self._begun_s)
        counted = "" if records is None else f"{records:,} records, "
        line = f"{counted}{_megabytes(size_bytes)}, {_megabytes(rate)}/s"
        print(f"{_CLEAR}{line}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away, so that what follows begins at the left."""
        if self._has_line:
            self._has_line = False
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1_000_000:,.1f} MB"
