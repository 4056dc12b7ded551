"""The voter's thread ends with the task that runs it, even if that is cancelled at any moment."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from ottla.metadata_raft.raft_thread import LoopThread

TIMEOUT_S = 10
T = TypeVar("T")


class Thread:
    """A thread that waits for the test before it creates its loop, and before it creates its task."""

    def __init__(self) -> None:
        self.may_have_a_loop = threading.Event()
        self.may_begin = threading.Event()
        self.has_begun = threading.Event()
        self.is_over = threading.Event()

    def make_loop(self) -> asyncio.AbstractEventLoop:
        assert self.may_have_a_loop.wait(TIMEOUT_S)
        loop = asyncio.new_event_loop()
        loop.set_task_factory(self._make_task)
        return loop

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T], **more: Any
    ) -> asyncio.Task[T]:
        assert self.may_begin.wait(TIMEOUT_S)
        return asyncio.Task(main, loop=loop, **more)

    async def run(self) -> None:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_over.set()


async def before_loop(thread: Thread) -> None:
    pass


async def before_task(thread: Thread) -> None:
    thread.may_have_a_loop.set()
    await asyncio.sleep(0.05)


async def while_it_runs(thread: Thread) -> None:
    thread.may_have_a_loop.set()
    thread.may_begin.set()
    assert await asyncio.to_thread(thread.has_begun.wait, TIMEOUT_S)


@pytest.mark.parametrize("moment", [before_loop, before_task, while_it_runs], ids=lambda one: one.__name__)
def test_a_cancelled_run_leaves_no_thread_behind(moment: Callable[[Thread], Awaitable[None]]) -> None:
    thread = Thread()

    async def scene() -> set[threading.Thread]:
        before = set(threading.enumerate())
        running = asyncio.create_task(LoopThread(thread.run, thread.make_loop).run())
        await asyncio.sleep(0)
        await moment(thread)
        running.cancel()
        await asyncio.sleep(0)
        thread.may_have_a_loop.set()
        thread.may_begin.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        return set(threading.enumerate()) - before

    left = asyncio.run(scene())
    assert [one.name for one in left if not one.name.startswith("asyncio_")] == [], (
        "but for those that waited"
    )
    assert thread.has_begun.is_set() == thread.is_over.is_set()


def test_an_error_of_the_coroutine_is_raised() -> None:
    async def fail() -> None:
        raise OSError("the disk is gone")

    async def scene() -> None:
        await LoopThread(fail, asyncio.new_event_loop).run()

    with pytest.raises(OSError, match="the disk is gone"):
        asyncio.run(scene())
