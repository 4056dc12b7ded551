"""An event loop without real time, threads and sockets: a run is a function of its seed.

Time jumps to the next timer. Code of a node runs with its process in a context variable, so that the loop can
hold the callbacks of a paused process and drop those of a dead one. Work for threads runs inline after a
delay. Sockets are those of `virtual_network`.
"""

import asyncio
import heapq
import inspect
import random
import traceback
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from types import CoroutineType
from typing import Any, cast

# A loop that runs more callbacks than this at one time is in an endless loop.
MAX_CALLBACKS_AT_ONE_TIME = 200_000
MAX_THREAD_DELAY_S = 0.002


class SimulationError(AssertionError):
    """A broken invariant, with its description."""


class Bug(SimulationError):
    """An exception that no fault explains, before any invariant was broken."""


class Process:
    """One run of a program on a host: from its start until it ends or is killed."""

    def __init__(self, name: str, incarnation: int = 0) -> None:
        self.name = name
        self.incarnation = incarnation
        self.is_dead = False
        self.pauses = 0  # pauses that have not ended; the process runs only if there are none
        self.held: deque[VirtualHandle] = deque()  # callbacks held until the last pause ends
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.sockets: dict[Any, None] = {}  # virtual_network.Socket
        self.thread_seconds = 0.0  # for which the current work in a thread has waited for the disk
        self.is_in_thread = False

    @property
    def is_paused(self) -> bool:
        return self.pauses > 0

    def __repr__(self) -> str:
        return f"{self.name}#{self.incarnation}"


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class VirtualHandle:
    """The handle of a callback; simpler than asyncio's own, which checks for debug mode at each callback."""

    __slots__ = ("args", "callback", "context", "when_s")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None, when_s: float
    ) -> None:
        self.callback: Callable[..., object] | None = callback  # None if cancelled
        self.args = args
        self.context = copy_context() if context is None else context
        self.when_s = when_s

    def cancel(self) -> None:
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.when_s


class VirtualTask(asyncio.Task[Any]):
    """A task whose hash, and so its order in a set, does not depend on its address in memory."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of all hosts; it calls `after_turn` when no callback is left at a time."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now_s = 0.0
        self.network: Any = None  # a virtual_network.Network
        self.after_turn: Callable[[set[Process]], None] = lambda touched: None
        self.failures: list[SimulationError] = []
        self.callbacks = 0
        self._ready: deque[VirtualHandle] = deque()
        self._timers: list[tuple[float, int, VirtualHandle]] = []
        self._number = 0
        self._task_number = 0
        self._is_closed = False
        self._tasks: dict[asyncio.Task[Any], None] = {}  # of no process
        self._thread_free_at: dict[int, float] = {}
        self._threads: list[object] = []  # keeps the executors alive whose ids are keys above

    # ---- running ---------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, Any], *, limit_s: float) -> Any:
        """Run until `main` ends and return its result; raise SimulationError after `limit_s`."""
        task = self.create_task(main)
        previous = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not task.done():
                if self.now_s > limit_s:
                    raise SimulationError(f"the run has not ended after {self.now_s:.3f} s")
                self._run_one_time()
                if self.failures:
                    raise self.failures[0]
            return task.result()
        finally:
            events._set_running_loop(previous)

    def _run_one_time(self) -> None:
        """Run all callbacks of one time."""
        ready, touched, count = self._ready, set[Process](), 0
        if not ready:
            self._jump()
        while ready:
            handle = ready.popleft()
            callback, context = handle.callback, handle.context
            if callback is None:
                continue
            process = context.get(PROCESS)
            if process is not None:
                if process.is_dead:
                    continue
                if process.pauses:
                    process.held.append(handle)
                    continue
                touched.add(process)
            try:
                context.run(callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"message": f"Exception in {callback}", "exception": error})
            count += 1
            if count > MAX_CALLBACKS_AT_ONE_TIME:
                raise SimulationError(f"an endless loop at {self.now_s:.3f} s: {callback}")
        if count:
            self.callbacks += count
            self.after_turn(touched)

    def _jump(self) -> None:
        """Jump to the time of the next timer."""
        timers, ready = self._timers, self._ready
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        if not timers:
            raise SimulationError(f"nothing will ever happen again at {self.now_s:.3f} s")
        self.now_s = max(self.now_s, timers[0][0])
        while timers and timers[0][0] <= self.now_s:
            handle = heapq.heappop(timers)[2]
            if handle.callback is not None:
                ready.append(handle)

    # ---- processes -------------------------------------------------------------------------------

    def pause(self, process: Process) -> None:
        """Hold all callbacks of the process."""
        process.pauses += 1

    def resume(self, process: Process) -> None:
        """End one pause; the process continues when none is left."""
        process.pauses = max(0, process.pauses - 1)
        if not process.pauses:
            self._ready.extend(process.held)
            process.held.clear()

    def wait_for_disk(self, process: Process, seconds: float) -> None:
        """Let a thread of the process wait for the disk; outside of a thread, the whole process is paused."""
        if process.is_in_thread:
            process.thread_seconds += seconds
        elif seconds > 0:
            self.pause(process)
            self.call_later(seconds, self.resume, process, context=Context())

    def kill(self, process: Process) -> None:
        """Drop all callbacks of the process, and unwind its coroutines without effect."""
        process.is_dead = True
        process.held.clear()
        tasks, process.tasks = list(process.tasks), {}
        context = copy_context()
        context.run(PROCESS.set, process)
        self._unwind_all(tasks, context)

    def _unwind_all(self, tasks: "list[asyncio.Task[Any]]", context: Context) -> None:
        current = asyncio.current_task(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of coroutines that never started
            for task in tasks:
                if task.done() or task is current:
                    continue
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                context.run(_unwind, task)
            tasks.clear()

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        self._task_number += 1
        number = self._task_number
        VirtualTask.number = number
        process = context.get(PROCESS) if context is not None else PROCESS.get()
        task = VirtualTask(coro, loop=self, name=name or f"task-{number}", context=context)
        task.number = number
        if process is not None:
            process.tasks[task] = None
            if process.is_dead and not self._is_closed:  # started by code that ran when it died
                self.call_soon(self.kill, process, context=Context())
            task.add_done_callback(lambda done: process.tasks.pop(done, None) and None)
        else:
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None) and None)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Run the work after a random delay; the future is done when the disk would have been ready."""
        future = self.create_future()
        start_s = self.now_s + self.chance.random() ** 3 * MAX_THREAD_DELAY_S
        if executor is not None and getattr(executor, "_max_workers", 0) == 1:
            key = id(executor)
            if key not in self._thread_free_at:
                self._threads.append(executor)
            start_s = max(start_s, self._thread_free_at.get(key, 0.0))
            self._thread_free_at[key] = start_s
        else:
            key = 0
        self.call_at(start_s, self._work, future, key, func, args)
        return future

    def _work(
        self, future: "asyncio.Future[Any]", key: int, func: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        process = PROCESS.get()
        if process is not None:
            process.thread_seconds = 0.0
            process.is_in_thread = True
        error: BaseException | None = None
        result = None
        events._set_running_loop(None)  # a thread has none
        try:
            result = func(*args)
        except BaseException as raised:
            error = raised
        finally:
            events._set_running_loop(self)
            if process is not None:
                process.is_in_thread = False
        seconds = 0.0 if process is None else process.thread_seconds
        if key:
            self._thread_free_at[key] = max(self._thread_free_at[key], self.now_s + seconds)
        if seconds:
            self.call_later(seconds, _settle, future, result, error)
        else:
            _settle(future, result, error)

    # ---- methods that asyncio calls ----------------------------------------------------------------

    def time(self) -> float:
        return self.now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(callback, args, context, self.now_s)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(callback, args, context, when)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        pass

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """End the tasks that belong to no process; a failed run leaves some unfinished."""
        self._is_closed = True
        tasks, self._tasks = list(self._tasks), {}
        self._unwind_all(tasks, copy_context())
        self._ready.clear()
        self._timers.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        process = PROCESS.get()
        if self._is_closed or (process is not None and process.is_dead):
            return
        error = context.get("exception")
        if process is None and "never retrieved" in str(context.get("message")):
            return  # of a process that died while another one awaited it
        if isinstance(error, SimulationError):
            self.failures.append(error)
            return
        kind = SimulationError if isinstance(error, AssertionError) else Bug
        self.failures.append(kind(f"{process}: {context.get('message')}: {error!r}\n{_traceback(error)}"))

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return await self.network.getaddrinfo(host, port)

    async def create_server(  # type: ignore[override]
        self, factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        return await self.network.create_server(factory, host, port, **options)

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        return await self.network.create_connection(factory, host, port, **options)

    async def connect_accepted_socket(  # type: ignore[override]
        self, factory: Callable[[], Any], sock: Any, **_: Any
    ) -> Any:
        return sock.connect(factory)

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self) -> None:
        pass


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _unwind(task: "asyncio.Task[Any]") -> None:
    """Close a coroutine that will never continue; its `finally` clauses run without effect."""
    coro = cast("CoroutineType[Any, Any, Any]", task.get_coro())
    if inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
        # It has not started, so it neither awaits nor closes the coroutines that it was given.
        for given in coro.cr_frame.f_locals.values():
            if inspect.iscoroutine(given):
                given.close()
    for _ in range(20):  # a coroutine that awaits in a `finally` must be closed again
        try:
            coro.close()
            return
        except BaseException:
            continue


def _traceback(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))
