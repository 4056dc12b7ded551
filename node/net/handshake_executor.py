"""Computes TLS handshakes in two threads beside the loop, fairly by address.

An RSA signature takes a millisecond, and a fleet that reconnects needs thousands at once: on the loop they
would delay every connected client. Addresses take turns, so a client that opens many connections waits for
itself. The promise: at most `MAX_WAITING` steps wait; beyond that the address that has most of them loses its
newest. All IPv6 addresses of a /64 network count as one.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from ottla.node.net.connection_info import network_of

THREADS: Final = 2
MAX_WAITING: Final = 256  # some 0.3 s of two threads, with RSA keys of 2,048 bits


class _Step(NamedTuple):
    """A step of a handshake that waits for a thread."""

    work: Callable[[], object]
    done: Callable[[object], None]  # called with the result, on the loop
    refused: Callable[[], None]


class HandshakeExecutor:
    """The steps of all handshakes of a node."""

    def __init__(
        self, threads: int = THREADS, max_waiting: int = MAX_WAITING, *, name: str = "tls-handshake"
    ) -> None:
        self._max_waiting = max_waiting
        self._threads = self._free = threads
        self._pool = ThreadPoolExecutor(threads, name)  # it starts threads when they are needed
        self._steps: OrderedDict[str, deque[_Step]] = OrderedDict()  # by network, the next one first
        self.waiting = 0

    @property
    def running(self) -> int:
        """Return the number of steps that threads compute at present."""
        return self._threads - self._free

    def submit(
        self,
        address: str,
        work: Callable[[], object],
        done: Callable[[object], None],
        refused: Callable[[], None],
    ) -> None:
        """Run `work`, which must not raise, in a thread, then call `done` with its result on the loop.

        Instead, `refused` is called, now or later, if too many steps wait.
        """
        step = _Step(work, done, refused)
        if self._free:
            self._begin(step)
            return
        network = network_of(address)
        self._steps.setdefault(network, deque()).append(step)
        self.waiting += 1
        if self.waiting > self._max_waiting:
            # In a tie the newcomer is refused, or it would displace the step whose turn is next.
            largest = max(self._steps, key=lambda one: (len(self._steps[one]), one == network))
            steps = self._steps[largest]
            newest = steps.pop()
            if not steps:
                del self._steps[largest]
            self.waiting -= 1
            newest.refused()

    def close(self) -> None:
        """Shut the threads down, and drop all waiting steps without a call of `done` or `refused`."""
        self._steps.clear()
        self.waiting = 0
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, step: _Step) -> None:
        self._free -= 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, step.work)
        future.add_done_callback(lambda done: self._finished(step, done))

    def _finished(self, step: _Step, future: "asyncio.Future[object]") -> None:
        self._free += 1
        if future.cancelled():
            return  # the node is stopping
        if self._steps:
            network, steps = next(iter(self._steps.items()))
            following = steps.popleft()
            if steps:
                self._steps.move_to_end(network)
            else:
                del self._steps[network]
            self.waiting -= 1
            self._begin(following)
        step.done(future.result())
