"""Measures the processor time that one request takes: on the loop, and in threads that work for it.

Requests whose time counts have a meter, which is the running one while the loop is busy with them. Whatever
hands work to a thread has it `metered`, so that its processor time goes to the running meter. Requests
without a meter pay one look at a variable for each piece of work in a thread.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar

from ottla.node.clock import thread_cpu_s

T = TypeVar("T")
Step: TypeAlias = Any  # what a coroutine is sent and yields: the loop's affair


# Of work in threads that a request waits for at a time. A task that a request began and that goes on for ever
# has its meter, too, which nobody asks any more.
MAX_PIECES: Final = 1_000


class RequestMeter:
    """The processor time of one request, in seconds."""

    __slots__ = ("_in_threads", "_resumed_s", "_spent_s")

    def __init__(self) -> None:
        self._spent_s = 0.0
        self._resumed_s = 0.0  # 0: the loop is busy with something else
        self._in_threads: list[float] = []  # threads append to it, which takes no lock

    def add(self, seconds: float) -> None:
        """Add time that a thread, or the loop before the meter was there, has spent."""
        if len(self._in_threads) < MAX_PIECES:
            self._in_threads.append(seconds)

    def run(self, work: Callable[[], T]) -> T:
        """Do a part of the request on the loop."""
        if self._resumed_s:
            return work()  # within a part that is measured
        self._resumed_s = thread_cpu_s()
        token = RUNNING.set(self)
        try:
            return work()
        finally:
            RUNNING.reset(token)
            self._spent_s += thread_cpu_s() - self._resumed_s
            self._resumed_s = 0.0

    def take(self) -> float:
        """Return the time since this was last asked."""
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
    """Return `work` so that its processor time, in whichever thread, counts for the running request."""
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
    """A coroutine whose steps count for a request; while it waits for something nothing counts."""

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
        """Go on to the next thing that has to be waited for."""
        return self._meter.run(lambda: self._steps.send(value))

    def throw(self, *error: Step) -> Step:
        """Go on with an error."""
        return self._meter.run(lambda: self._steps.throw(*error))

    def close(self) -> None:
        """Give up."""
        self._steps.close()
