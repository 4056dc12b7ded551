"""Runs work of groups in slices, in a few threads of its own.

After each slice a piece of work goes to the end of its client's queue, and the client, which is an address
(for IPv6 the /64), behind the others. So expressions made to be slow delay another client's by one slice for
each of its own, however many groups they belong to.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from ottla.groupcoord.consumer.executor_tasks import ExecutorResult, ExecutorTask, steps
from ottla.node.clock import thread_cpu_s
from ottla.node.net.connection_info import network_of

THREADS: Final = 2  # Kafka's default (group.coordinator.background.threads)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    address: str
    doing: Generator[None, None, ExecutorResult]
    is_wanted: Callable[[], bool]
    done: Callable[[ExecutorResult | None], None]


class TaskExecutor:
    """Runs work in slices, fairly. For the event loop only; the slices run in threads."""

    def __init__(
        self,
        threads: int = THREADS,
        cpu_s: Callable[[], float] = thread_cpu_s,
        executor: ThreadPoolExecutor | None = None,
    ) -> None:
        """`executor` has this number of `threads`; `close` shuts it down."""
        self._cpu_s = cpu_s
        self._waiting: dict[str, deque[_Piece]] = {}  # by client; the first one is next
        self._free = threads
        # Not the loop's default executor: disks must not wait for an expression.
        self._threads = executor or ThreadPoolExecutor(threads, thread_name_prefix="groups")
        self._is_closed = False

    def run(
        self, work: ExecutorTask, is_wanted: Callable[[], bool], done: Callable[[ExecutorResult | None], None]
    ) -> None:
        """Run work. `done` is called on the loop with its result, or with None if the result was no longer
        wanted between two slices. It is not called after `close`.
        """
        address = network_of(work.client_host.removeprefix("/"))  # groups store addresses as Java writes them
        self._wait(_Piece(address, steps(work, self._cpu_s), is_wanted, done))
        self._begin()

    def close(self) -> None:
        """Stop after the running slices, without waiting for them."""
        self._is_closed = True
        self._waiting.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _wait(self, piece: _Piece) -> None:
        self._waiting.setdefault(piece.address, deque()).append(piece)

    def _next(self) -> _Piece:
        """Return the first piece of work of the next client, and move the client to the end."""
        address = next(iter(self._waiting))
        pieces = self._waiting.pop(address)
        piece = pieces.popleft()
        if pieces:
            self._waiting[address] = pieces
        return piece

    def _begin(self) -> None:
        """Start the next slice on each free thread."""
        while self._free and self._waiting and not self._is_closed:
            piece = self._next()
            if not piece.is_wanted():
                piece.done(None)
                continue
            self._free -= 1
            slice_ = asyncio.get_running_loop().run_in_executor(self._threads, _run_slice, piece.doing)
            slice_.add_done_callback(lambda ended, piece=piece: self._end(piece, ended))  # type: ignore[misc]

    def _end(self, piece: _Piece, ended: "asyncio.Future[ExecutorResult | None]") -> None:
        if self._is_closed:
            return
        self._free += 1
        try:
            result = ended.result()
            if result is None:
                self._wait(piece)
            else:
                piece.done(result)
        finally:
            self._begin()


def _run_slice(doing: Generator[None, None, ExecutorResult]) -> ExecutorResult | None:
    """Run up to the next pause; return the result if there is none."""
    try:
        next(doing)
    except StopIteration as end:
        result: ExecutorResult = end.value
        return result
    return None
