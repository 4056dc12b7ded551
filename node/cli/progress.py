"""The progress of a long command, on a line of standard error that is overwritten; only at a terminal."""

import sys
import time
from typing import Final

INTERVAL_S: Final = 0.5  # often enough to show movement, rarely enough to be read
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """The progress line of one command. It is never written unless standard error is a terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._begun_s = self._shown_s = time.monotonic()
        self._has_line = False

    def show(self, size_bytes: int, records: int | None = None) -> None:
        """Show the amount done so far, and the rate; it may be called often, since it writes rarely."""
        if not self._is_shown:
            return
        now_s = time.monotonic()
        if now_s - self._shown_s < INTERVAL_S:
            return
        self._shown_s, self._has_line = now_s, True
        rate = size_bytes / (now_s - self._begun_s)
        counted = "" if records is None else f"{records:,} records, "
        line = f"{counted}{_megabytes(size_bytes)}, {_megabytes(rate)}/s"
        print(f"{_CLEAR}{line}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line, so that the next output begins at the left."""
        if self._has_line:
            self._has_line = False
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1_000_000:,.1f} MB"
