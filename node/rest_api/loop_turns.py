"""Turns on the loop of the REST API, for work on very many records: filtering and showing them.

Pages and tails take turns among each other, too: however many there are, one of them works between two looks
of the loop at everybody else. So /healthz waits for some turns, not for all that is read.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.005


class LoopTurns:
    """Gives out turns on one loop, to whoever waits for longest."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = asyncio.Lock()

    def worker(self) -> "Worker":
        """Return the turns of one page or tail; its first one begins at its first pause."""
        return Worker(self._lock, self._clock_s)


class Worker:
    """Gives way to others after some milliseconds of work, whatever that is."""

    def __init__(self, lock: asyncio.Lock, clock_s: Callable[[], float]) -> None:
        self._lock = lock
        self._clock_s = clock_s
        self._ends_s = -1.0  # of the turn
        self.is_new = False  # the last `pause` gave way

    async def pause(self) -> None:
        """Go on in this turn, or wait for the next one if it is over."""
        self.is_new = self._clock_s() > self._ends_s
        if self.is_new:
            async with self._lock:
                await asyncio.sleep(0)  # with the lock: the next one begins after everybody else had the loop
            self._ends_s = self._clock_s() + TURN_S
