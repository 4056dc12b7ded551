"""The tasks of a node: they end with it at the latest, and one that fails ends the node."""

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.node.quota.request_meter import metered

T = TypeVar("T")

log = logging.getLogger(__name__)


class NodeTasks:
    """Owned by one task, which calls `begin` and `end`; all others only `start`."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[asyncio.Task[Any], None] = {}
        self._lasting: asyncio.Task[Any] | None = None

    @property
    def are_open(self) -> bool:
        """Return whether tasks can be started: from the node's start until it ends."""
        return self._group is not None

    async def begin(self) -> None:
        """Take tasks from now on."""
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()

    def start(self, work: Coroutine[Any, Any, T], /) -> "asyncio.Task[T]":
        """Begin something that ends with the node at the latest.

        It ends after its first step where the node is about to end: that still applies what is committed.
        """
        loop = asyncio.get_running_loop()
        try:
            task = self._group.create_task(work) if self._group is not None else None
        except RuntimeError:  # a part has failed
            task = None
        if task is None:
            # From Python 3.13 on a group closes what it refuses. Else it is ended later than it is begun: a
            # coroutine that never began would be warned of.
            is_closed = inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
            task = loop.create_task(_never() if is_closed else work)
            loop.call_soon(task.cancel)
            return task
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def start_lasting(self, work: Coroutine[Any, Any, T], /) -> "asyncio.Task[T]":
        """Begin the one task that ends by itself, when it is told to, after the others were cancelled."""
        task = self.start(work)
        self._lasting = task
        return task

    def abandon(self) -> None:
        """Have the lasting task end as a kill would end it."""
        if self._lasting is not None:
            self._lasting.cancel()

    async def end(self) -> None:
        """Cancel the tasks but for the lasting one, wait for all, and raise what ended any of them."""
        group, self._group = self._group, None
        assert group is not None
        for task in tuple(self._running):
            if task is not self._lasting:
                task.cancel()
        await group.__aexit__(*sys.exc_info())

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        """Log which part failed: the error of any task ends the node, and may be one of many by then."""
        self._running.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        coroutine = task.get_coro()
        part = getattr(coroutine, "__qualname__", None) or task.get_name()
        cause = cause_of(error) if isinstance(error, BaseExceptionGroup) else error
        reason = str(cause) or type(cause).__name__
        log.error("The node shuts down because a part of it failed (%s): %s", part, reason)


async def in_thread(work: Callable[[], T], /) -> T:
    """Do what may wait for a disk without holding up the event loop."""
    return await asyncio.to_thread(metered(work))


async def in_thread_to_the_end(work: Callable[[], T]) -> T:
    """Do it in a thread, and wait for it also when the caller is cancelled: what it opens is to be closed."""
    under_way = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await asyncio.wait([under_way])
        if not under_way.cancelled():
            under_way.exception()  # nobody is there to be told
        raise


def monotonic_ms() -> int:
    """Return the milliseconds of the running loop's clock, which only goes forward."""
    return int(asyncio.get_running_loop().time() * 1000)


async def _never() -> Any:
    """Wait until it is cancelled."""
    await asyncio.get_running_loop().create_future()


def cause_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what a group is about, where that is one thing."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
