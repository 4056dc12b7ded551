"""Requests with very many elements give way to others: their work in turns with the event loop.

A handler writes its work as steps, a generator that yields between two elements and returns the answer. Those
of a request of usual size run at once, without a task.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable
from functools import cache
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from ottla.logstore.words.schema import schema_of
from ottla.node.clock import thread_cpu_s
from ottla.node.quota.request_meter import metered

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
Steps: TypeAlias = Generator[None, None, T]

# A step takes some 2 to 10 us, so a turn stays below what a fetch of 16 MiB takes of the loop. Some steps
# take a hundred times as long, so a turn also ends when it has taken so much of the processor, which is
# looked at after every few steps.
STEPS_PER_TURN = 256
STEPS_PER_LOOK = 4
TURN_CPU_S = 0.004
ITEMS_OF_STEP = 16  # that are only put into a set, at some 0.4 us
ITEMS_OF_RUN = 128  # that are sorted at once, at some 0.2 us
# Objects that are given back in one step, some 0.1 ms in which nobody else has the interpreter.
APART_AT_ONCE = 256
_OWN_REFERENCES = 2  # a local name, and the argument of `getrefcount`


def in_turns(steps: Steps[T], *, is_large: bool) -> T | Coroutine[Any, Any, T]:
    """The answer, or for a large request a coroutine that gives it."""
    return take_turns(steps) if is_large else at_once(steps)


def at_once(steps: Steps[T]) -> T:
    """Go through the steps without giving way."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        answer: T = end.value
        return answer


def one_turn_at_once(steps: Steps[T]) -> T | Coroutine[Any, Any, T]:
    """The answer if one turn of steps is enough, which the size of a request need not tell; else a coroutine
    that goes on from there.
    """
    try:
        for _ in range(STEPS_PER_TURN):
            next(steps)
    except StopIteration as end:
        answer: T = end.value
        return answer
    return take_turns(steps)


async def take_turns(steps: Steps[T], steps_per_turn: int = STEPS_PER_TURN) -> T:
    """Go through the steps, and let others have the loop every now and then."""
    try:
        while True:
            began_s = thread_cpu_s()
            for count in range(1, steps_per_turn + 1):
                next(steps)
                if count % STEPS_PER_LOOK == 0 and thread_cpu_s() - began_s > TURN_CPU_S:
                    break
            await asyncio.sleep(0)
    except StopIteration as end:
        answer: T = end.value
        return answer


async def listed(items: Iterable[T], *, is_large: bool) -> list[T]:
    """The items as a list; those of a large request, which are made as they are asked for, in turns."""
    if not is_large:
        return list(items)
    made: list[T] = []
    more, count, began_s = iter(items), 0, thread_cpu_s()
    while chunk := list(islice(more, STEPS_PER_LOOK)):
        made += chunk
        count += STEPS_PER_LOOK
        if count >= STEPS_PER_TURN or thread_cpu_s() - began_s > TURN_CPU_S:
            await asyncio.sleep(0)
            count, began_s = 0, thread_cpu_s()
    return made


async def give_way() -> None:
    """Let others have the loop."""
    await asyncio.sleep(0)


class Turn:
    """The present turn of a coroutine that goes through very many elements and waits in between."""

    __slots__ = ("_began_s", "_count", "_steps")

    def __init__(self, steps: int = STEPS_PER_TURN) -> None:
        """A turn has at most so many `steps`, fewer where they take long."""
        self._steps = steps
        self._count = 0
        self._began_s = thread_cpu_s()

    async def step(self) -> None:
        """Count an element; where the turn was long enough, let others have the loop first."""
        self._count += 1
        if self._count < self._steps and not self._has_taken_long():
            return
        await asyncio.sleep(0)
        self._count, self._began_s = 0, thread_cpu_s()

    def _has_taken_long(self) -> bool:
        """Look at the CPU time after every few steps."""
        return self._count % STEPS_PER_LOOK == 0 and thread_cpu_s() - self._began_s > TURN_CPU_S


def ordered(items: Iterable[str]) -> Steps[list[str]]:
    """Return all items, sorted: runs of them in a step each, which then take a third of the time to merge."""
    result: list[str] = []
    more = iter(items)
    while run := sorted(islice(more, ITEMS_OF_RUN)):
        result += run
        yield
    result.sort()
    return result


def distinct(items: Iterable[H]) -> Steps[tuple[set[H], set[H]]]:
    """Return all items, and those of them that come more than once; each step looks at some."""
    seen: set[H] = set()
    repeated: set[H] = set()
    for count, item in enumerate(items, 1):
        if item in seen:
            repeated.add(item)
        seen.add(item)
        if count % ITEMS_OF_STEP == 0:
            yield
    return seen, repeated


class ThreadLane:
    """Pure work beside the loop, one piece at a time: all that wait share one thread's time with the loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which must touch nothing that the loop changes.

        Whoever is cancelled meanwhile goes on, with CancelledError, when the thread has done its piece: what
        that reads is not taken apart under it, and the lane has one piece at a time.
        """
        async with self._lock:
            done = asyncio.get_running_loop().run_in_executor(None, metered(work))
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                if not done.done():
                    await asyncio.wait([done])
                if not done.cancelled():
                    done.exception()  # nobody is left to be told
                raise


def take_apart(pieces: list[Any]) -> None:
    """Give back large messages some objects at a time: at once they would keep the interpreter for as long as
    it took to make them. What others know, too, is left as it is.
    """
    while pieces:
        piece = pieces.pop()
        if sys.getrefcount(piece) > _OWN_REFERENCES:
            continue
        if type(piece) is not list:
            cls: type = type(piece)
            for name in _arrays_of(cls):
                value = piece.__dict__.pop(name, None)
                if type(value) is list:
                    pieces.append(value)
            value = None
        elif piece and _has_arrays(piece[0]):
            while piece:
                pieces.append(piece.pop())
        else:
            while piece:
                del piece[-APART_AT_ONCE:]


def _has_arrays(element: object) -> bool:
    cls: type = type(element)
    return bool(_arrays_of(cls))


@cache
def _arrays_of(cls: type) -> tuple[str, ...]:
    """The names of a struct's arrays; nothing of another class."""
    if not hasattr(cls, "__schema__"):
        return ()
    return tuple(field.name for field in schema_of(cls).fields if field.is_array)
