"""Log lines that clients cause, limited in each ten seconds in all and per address; the rest is counted.

Every line that a client can cause with each of its requests goes through here. Otherwise a stranger could
fill the disk and bury the lines that an operator has to read. An address gets a line only while it has had
less than half as many as are still free, so a flood from a few addresses leaves room for others.
`tests/tidy/test_client_lines.py` checks that these lines are used.
"""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final
from weakref import WeakSet

from ottla.node.net.connection_info import network_of

WINDOW_S: Final = 10.0
MAX_OF_ADDRESS: Final = 20
MAX_IN_ALL: Final = 100
MAX_COUNTED_ADDRESSES: Final = 20  # counted one by one; the lines of any others are counted together
SEVERAL: Final = "several addresses"

_all: "WeakSet[ClientLines]" = WeakSet()


class ClientLines:
    """The lines of one logger that clients cause. Safe for any thread."""

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._lock = threading.Lock()
        self._ends_s = 0.0
        self._lines_of: dict[str, int] = {}
        self._left_out: dict[str, int] = {}
        _all.add(self)

    def log(
        self,
        level: int,
        address: str,
        message: str,
        *values: object,
        error: BaseException | None = None,
    ) -> None:
        """Log a line that a client at an address has caused, or count it; an `error` is logged in full."""
        if not self._log.isEnabledFor(level):
            return
        with self._lock:
            counts = self._ended_counts()
            is_logged = self._take(network_of(address))
        self._log_counts(counts)
        if is_logged:
            self._log.log(level, message, *values, exc_info=_exc_info(error), stacklevel=2)

    def log_left_out(self) -> None:
        """Log how many lines were left out, if the window in which they were counted is over."""
        with self._lock:
            counts = self._ended_counts()
        self._log_counts(counts)

    def _take(self, address: str) -> bool:
        lines = self._lines_of.get(address, 0)
        free = MAX_IN_ALL - sum(self._lines_of.values())
        if lines < MAX_OF_ADDRESS and 2 * lines < free:
            self._lines_of[address] = lines + 1
            return True
        left_out = self._left_out
        if address not in left_out and len(left_out) >= MAX_COUNTED_ADDRESSES:
            address = SEVERAL
        left_out[address] = left_out.get(address, 0) + 1
        return False

    def _ended_counts(self) -> dict[str, int]:
        """Start a new window if the present one is over; return the lines that were left out, by address."""
        now_s = self._now_s()
        if now_s < self._ends_s:
            return {}
        counts, self._left_out = self._left_out, {}
        self._lines_of = {}
        self._ends_s = now_s + WINDOW_S
        return counts

    def _log_counts(self, counts: dict[str, int]) -> None:
        for address, count in counts.items():
            self._log.warning(
                "%d more lines like those above, caused by %s, were left out.",
                count,
                address or "clients",
            )


def log_all_left_out() -> None:
    """Log how many lines of all loggers were left out; called every few seconds."""
    for lines in list(_all):
        lines.log_left_out()


_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def _exc_info(error: BaseException | None) -> _ExcInfo | None:
    return None if error is None else (type(error), error, error.__traceback__)
