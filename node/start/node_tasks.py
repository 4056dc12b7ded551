"""The tasks of a node: they end with it at the latest, and a task that fails ends the node."""

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
    """The task group of a node. One task owns it and calls `begin` and `end`; others only call `start`."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[asyncio.Task[Any], None] = {}
        self._background: asyncio.Task[Any] | None = None

    @property
    def are_open(self) -> bool:
        """Return True between `begin` and `end`, while tasks can be started."""
        return self._group is not None

    async def begin(self) -> None:
        """Accept tasks from now on."""
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()

    def start(self, work: Coroutine[Any, Any, T], /) -> "asyncio.Task[T]":
        """Start a task that ends with the node at the latest.

        If the node is about to end, the task is cancelled after its first step, which still applies
        committed records.
        """
        loop = asyncio.get_running_loop()
        try:
            task = self._group.create_task(work) if self._group is not None else None
        except RuntimeError:  # a part has failed
            task = None
        if task is None:
            # From Python 3.13 on, a group closes a coroutine that it rejects. In older versions, the task is
            # cancelled only after its first step: Python warns of a coroutine that was never awaited.
            is_closed = inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
            task = loop.create_task(_never() if is_closed else work)
            loop.call_soon(task.cancel)
            return task
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def start_background(self, work: Coroutine[Any, Any, T], /) -> "asyncio.Task[T]":
        """Start the one task that `end` does not cancel, but waits for: its owner asks it to end."""
        task = self.start(work)
        self._background = task
        return task

    def abandon(self) -> None:
        """Cancel the background task, as if the process were killed."""
        if self._background is not None:
            self._background.cancel()

    async def end(self) -> None:
        """Cancel all but the background task, wait for all, and raise the errors of those that failed."""
        group, self._group = self._group, None
        assert group is not None
        for task in tuple(self._running):
            if task is not self._background:
                task.cancel()
        await group.__aexit__(*sys.exc_info())

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        """Log which part failed: its error ends the node, and by then there may be many errors."""
        self._running.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        coroutine = task.get_coro()
        part = getattr(coroutine, "__qualname__", None) or task.get_name()
        cause = cause_of(error) if isinstance(error, BaseExceptionGroup) else error
        reason = str(cause) or type(cause).__name__
        log.error("The node shuts down because a part of it failed (%s): %s", part, reason)


async def in_thread(work: Callable[[], T], /) -> T:
    """Run work that may wait for a disk in a thread, so that it does not block the event loop."""
    return await asyncio.to_thread(metered(work))


async def in_thread_to_the_end(work: Callable[[], T]) -> T:
    """Run work in a thread and wait for its end even if cancelled, so that what it opened can be closed."""
    under_way = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await asyncio.wait([under_way])
        if not under_way.cancelled():
            under_way.exception()  # marked as retrieved: the caller is gone
        raise


def monotonic_ms() -> int:
    """Return the milliseconds of the running loop's clock, which is monotonic."""
    return int(asyncio.get_running_loop().time() * 1000)


async def _never() -> Any:
    """Wait until cancelled."""
    await asyncio.get_running_loop().create_future()


def cause_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only error in a group, however deeply nested; a group if there are several."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
