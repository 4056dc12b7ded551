"""Turns on the loop of the REST API, for work on very many records: filtering, formatting and parsing them.

Requests also take turns among each other: however many there are, only one of them works in an iteration of
the loop, between all other tasks. So /healthz waits for a few turns, not for all records.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

TURN_S: Final = 0.005
ITEMS_PER_LOOK: Final = 16  # at some 20 to 50 us each; a request of fewer waits for no turn


class LoopTurns:
    """Gives turns on one loop, in the order of requests."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = asyncio.Lock()

    def worker(self) -> "Worker":
        """Return a worker for one request; its first turn starts at its first pause."""
        return Worker(self._lock, self._clock_s)


class Worker:
    """Gives way to other tasks after some milliseconds of work of any kind."""

    def __init__(self, lock: asyncio.Lock, clock_s: Callable[[], float]) -> None:
        self._lock = lock
        self._clock_s = clock_s
        self._ends_s = -1.0  # end of the turn
        self.is_new = False  # True if the last `pause` gave way

    async def pause(self) -> None:
        """Continue in this turn, or wait for the next one if it is over."""
        self.is_new = self._clock_s() > self._ends_s
        if self.is_new:
            async with self._lock:
                await asyncio.sleep(0)  # with the lock: the next turn starts after all other tasks
            self._ends_s = self._clock_s() + TURN_S

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield the items, and pause after every few of them."""
        for number, item in enumerate(items, 1):
            yield item
            if number % ITEMS_PER_LOOK == 0:
                await self.pause()
