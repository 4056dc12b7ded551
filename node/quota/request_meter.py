"""Measures the CPU time of one request, on the loop and in threads that work for it.

A request whose time counts has a meter, which is the running meter while the loop works on that request.
Code that hands work to a thread wraps it in `metered`, so that its CPU time counts for the running meter.
Without a meter, a piece of work in a thread costs one check of a variable.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar

from ottla.node.clock import thread_cpu_s

T = TypeVar("T")
Step: TypeAlias = Any  # the types that a coroutine is sent and yields, which only the loop uses


# Entries for work in threads, of which a request waits for few at a time. A background task that a request
# started keeps its meter, which is never read again.
MAX_PIECES: Final = 1_000


class RequestMeter:
    """The CPU time of one request, in seconds."""

    __slots__ = ("_in_threads", "_resumed_s", "_spent_s")

    def __init__(self) -> None:
        self._spent_s = 0.0
        self._resumed_s = 0.0  # 0: the loop works on something else
        self._in_threads: list[float] = []  # threads append, which needs no lock

    def add(self, seconds: float) -> None:
        """Add time spent by a thread, or by the loop before the meter existed.

        Beyond `MAX_PIECES` additions between two calls of `take`, the time does not count.
        """
        if len(self._in_threads) < MAX_PIECES:
            self._in_threads.append(seconds)

    def run(self, work: Callable[[], T]) -> T:
        """Run a part of the request on the loop, and measure it."""
        if self._resumed_s:
            return work()  # nested in a measured part
        self._resumed_s = thread_cpu_s()
        token = RUNNING.set(self)
        try:
            return work()
        finally:
            RUNNING.reset(token)
            self._spent_s += thread_cpu_s() - self._resumed_s
            self._resumed_s = 0.0

    def take(self) -> float:
        """Return the CPU time that the request has taken since the last call."""
        spent_s, self._spent_s = self._spent_s, 0.0
        while self._in_threads:
            spent_s += self._in_threads.pop()
        if self._resumed_s:
            now_s = thread_cpu_s()
            spent_s += now_s - self._resumed_s
            self._resumed_s = now_s
        return spent_s


RUNNING: Final[ContextVar[RequestMeter | None]] = ContextVar("RUNNING", default=None)


def metered(work: Callable[[], T]) -> Callable[[], T]:
    """Return `work` wrapped so that its CPU time, in any thread, counts for the running request."""
    meter = RUNNING.get()
    if meter is None:
        return work
    counted = meter

    def run() -> T:
        began_s = thread_cpu_s()
        try:
            return work()
        finally:
            counted.add(thread_cpu_s() - began_s)

    return run


class MeteredSteps:
    """A coroutine whose steps count for a request; the time that it waits does not."""

    __slots__ = ("_meter", "_steps")

    def __init__(self, work: Awaitable[Step], meter: RequestMeter) -> None:
        self._meter = meter
        self._steps: Step = work if isinstance(work, Coroutine) else work.__await__()

    def __await__(self) -> Iterator[Step]:
        return self

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        return self.send(None)

    def send(self, value: Step) -> Step:
        """Resume the coroutine up to its next wait."""
        return self._meter.run(lambda: self._steps.send(value))

    def throw(self, *error: Step) -> Step:
        """Raise an error in the coroutine."""
        return self._meter.run(lambda: self._steps.throw(*error))

    def close(self) -> None:
        """Close the coroutine."""
        self._steps.close()
