"""Splits the work of requests with very many elements into turns of the event loop.

A handler writes its work as steps: a generator that yields between two elements and returns the response. For
a request of usual size all steps run at once, without a task.
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

# A step takes some 2 to 10 us, so a turn is shorter than a fetch of 16 MiB. Some steps take a hundred times
# as long, so a turn also ends when it has used this CPU time, which is checked every few steps.
STEPS_PER_TURN = 256
STEPS_PER_LOOK = 4
TURN_CPU_S = 0.004
ITEMS_OF_STEP = 16  # elements put into a set, at some 0.4 us each
ITEMS_OF_RUN = 128  # elements sorted at once, at some 0.2 us each
# Objects freed in one step: some 0.1 ms during which no other thread has the interpreter.
APART_AT_ONCE = 256
_OWN_REFERENCES = 2  # the local variable, and the argument of `getrefcount`


def in_turns(steps: Steps[T], *, is_large: bool) -> T | Coroutine[Any, Any, T]:
    """Return the response, or for a large request a coroutine that returns it."""
    return take_turns(steps) if is_large else at_once(steps)


def at_once(steps: Steps[T]) -> T:
    """Run all steps without yielding to the loop, and return the response."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        answer: T = end.value
        return answer


def one_turn_at_once(steps: Steps[T]) -> T | Coroutine[Any, Any, T]:
    """Return the response if the steps fit into one turn, otherwise a coroutine that continues from there.

    For requests whose size does not say how many steps they take.
    """
    try:
        for _ in range(STEPS_PER_TURN):
            next(steps)
    except StopIteration as end:
        answer: T = end.value
        return answer
    return take_turns(steps)


async def take_turns(steps: Steps[T], steps_per_turn: int = STEPS_PER_TURN) -> T:
    """Run the steps, yielding to the loop after each turn; return the response."""
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
    """Return the items as a list; for a large request, whose items are made lazily, in turns."""
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
    """Yield to the loop."""
    await asyncio.sleep(0)


class Turn:
    """The current turn of a coroutine that handles very many elements and awaits in between."""

    __slots__ = ("_began_s", "_count", "_steps")

    def __init__(self, steps: int = STEPS_PER_TURN) -> None:
        """A turn has at most this number of `steps`, fewer if they take long."""
        self._steps = steps
        self._count = 0
        self._began_s = thread_cpu_s()

    async def step(self) -> None:
        """Count an element; if the turn is over, yield to the loop first."""
        self._count += 1
        if self._count < self._steps and not self._has_taken_long():
            return
        await asyncio.sleep(0)
        self._count, self._began_s = 0, thread_cpu_s()

    def _has_taken_long(self) -> bool:
        """Check the CPU time, every few steps."""
        return self._count % STEPS_PER_LOOK == 0 and thread_cpu_s() - self._began_s > TURN_CPU_S


def ordered(items: Iterable[str]) -> Steps[list[str]]:
    """Return the items sorted: a step sorts a run of them, and merging runs takes a third of the time."""
    result: list[str] = []
    more = iter(items)
    while run := sorted(islice(more, ITEMS_OF_RUN)):
        result += run
        yield
    result.sort()
    return result


def distinct(items: Iterable[H]) -> Steps[tuple[set[H], set[H]]]:
    """Return all items, and those that occur more than once; each step handles some."""
    seen: set[H] = set()
    repeated: set[H] = set()
    for count, item in enumerate(items, 1):
        if item in seen:
            repeated.add(item)
        seen.add(item)
        if count % ITEMS_OF_STEP == 0:
            yield
    return seen, repeated


class SerialExecutor:
    """Runs pure work in a thread, one piece at a time, so that only one thread competes with the loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which must not use anything that the loop changes.

        A caller cancelled meanwhile gets its CancelledError only after the thread has finished: the data that
        the thread reads stays as it is, and two pieces never run at once.
        """
        async with self._lock:
            done = asyncio.get_running_loop().run_in_executor(None, metered(work))
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                if not done.done():
                    await asyncio.wait([done])
                if not done.cancelled():
                    done.exception()  # retrieved, so that asyncio does not log it: the caller is gone
                raise


def take_apart(pieces: list[Any]) -> None:
    """Free large messages some objects at a time: at once it would hold the interpreter for as long as it
    took to create them. Objects with other references are left as they are.
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
    """Return the names of a struct's arrays, none for any other class."""
    if not hasattr(cls, "__schema__"):
        return ()
    return tuple(field.name for field in schema_of(cls).fields if field.is_array)
