"""A thread with its own event loop for the voter of a node, so that no client waits for its fsync."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

THREAD_NAME: Final = "metadata-raft"
JOIN_SECONDS: Final = 5  # a disk that hangs blocks the thread, but not the node


class LoopThread:
    """A thread that runs one coroutine; created, started and awaited on the loop of the node."""

    def __init__(
        self,
        main: Callable[[], Coroutine[Any, Any, None]],
        loop_factory: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        self._main = main
        self._loop_factory = loop_factory
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node_loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._ended: asyncio.Future[None] = self._node_loop.create_future()
        # A daemon, so that a process that must end does not wait for a disk that hangs.
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    async def run(self) -> None:
        """Start, and return when the coroutine ends; its error is raised here."""
        self._thread.start()
        try:
            await asyncio.shield(self._ended)
        finally:
            # A thread without a loop or a task yet checks the flag when it starts.
            self._is_cancelled = True
            self.call(self._cancel)
            await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    def call(self, action: Callable[..., object], *arguments: object) -> bool:
        """Call a function on the thread's loop; return False, without a call, if it has no loop."""
        loop = self._loop
        if loop is None:
            return False
        try:
            loop.call_soon_threadsafe(action, *arguments)
        except RuntimeError:  # The loop is closed.
            return False
        return True

    # ---- in the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                self._loop = runner.get_loop()
                runner.run(self._run_main())
        except BaseException as failure:
            error = failure
        try:
            self._node_loop.call_soon_threadsafe(self._end, error)
        except RuntimeError:  # The node is gone already.
            return

    async def _run_main(self) -> None:
        self._task = asyncio.current_task()
        if not self._is_cancelled:
            await self._main()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _end(self, error: BaseException | None) -> None:
        if self._ended.done():
            return
        if error is None or isinstance(error, asyncio.CancelledError):
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
