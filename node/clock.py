"""The wall clock of the process; no other module of `node` reads it.

All modules below take the time as an argument, so that a test or a simulation can pass its own.
"""

import time
from time import monotonic as monotonic_s
from time import thread_time as thread_cpu_s  # of the calling thread
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock", "monotonic_s", "thread_cpu_s"]


class Clock(Protocol):
    """A source of the time in milliseconds since 1970 (UTC), the unit of records and metadata."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock for tests, which moves only by `advance`."""

    __slots__ = ("_now_ms",)

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds
