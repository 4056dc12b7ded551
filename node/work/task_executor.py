"""Work of groups beside the loop, in a few threads of its own, in turns.

A piece of work has a thread for a slice at a time; then it goes to the end of its client's queue, and the
client, which is an address (of IPv6 the /64), behind the others. So expressions that were made to be slow
delay that of another client by a slice for each slice of that, however many groups they are of.
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

THREADS: Final = 2  # as many as Kafka has by default (group.coordinator.background.threads)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    address: str
    doing: Generator[None, None, ExecutorResult]
    is_wanted: Callable[[], bool]
    done: Callable[[ExecutorResult | None], None]


class TaskExecutor:
    """Runs work in slices, fairly. Lives on the event loop; only the slices run in threads."""

    def __init__(
        self,
        threads: int = THREADS,
        cpu_s: Callable[[], float] = thread_cpu_s,
        executor: ThreadPoolExecutor | None = None,
    ) -> None:
        """`executor` has as many `threads`, and is shut down by `close`."""
        self._cpu_s = cpu_s
        self._waiting: dict[str, deque[_Piece]] = {}  # of each client; who comes first is served next
        self._free = threads
        # Not those of the loop: the disks must not wait for an expression.
        self._threads = executor or ThreadPoolExecutor(threads, thread_name_prefix="groups")
        self._is_closed = False

    def run(
        self, work: ExecutorTask, is_wanted: Callable[[], bool], done: Callable[[ExecutorResult | None], None]
    ) -> None:
        """Have it done. `done` is told the result on the loop; None where, between two slices, nobody wants
        it any more. Nothing is told after `close`.
        """
        address = network_of(work.client_host.removeprefix("/"))  # groups have it as Java writes it
        self._wait(_Piece(address, steps(work, self._cpu_s), is_wanted, done))
        self._begin()

    def close(self) -> None:
        """Stop after the slices that run now, and wait for none."""
        self._is_closed = True
        self._waiting.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _wait(self, piece: _Piece) -> None:
        self._waiting.setdefault(piece.address, deque()).append(piece)

    def _next(self) -> _Piece:
        """Take the first piece of the client whose turn it is, which is the last one then."""
        address = next(iter(self._waiting))
        pieces = self._waiting.pop(address)
        piece = pieces.popleft()
        if pieces:
            self._waiting[address] = pieces
        return piece

    def _begin(self) -> None:
        """Give each free thread the next slice."""
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
    """Work on until the next pause; the result where there is none."""
    try:
        next(doing)
    except StopIteration as end:
        result: ExecutorResult = end.value
        return result
    return None
