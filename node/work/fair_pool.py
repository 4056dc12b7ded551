"""Threads for one kind of work that a client may make long, shared fairly by CPU time.

The waiting client that has used the least CPU time is next: first among addresses (for IPv6 the /64, which
one host may have whole), then among the connections of an address. So a client with little work is served
soon, however many expensive batches another one sent. Work calls `pause` every few milliseconds; it raises
when the client has disconnected, when the node stops, and when the work has used up its CPU time.
"""

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.connection_info import ConnectionInfo, network_of
from ottla.node.quota.request_meter import RUNNING

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Pause = Callable[[], None]

# Clients that have used no more than every waiting one need not be remembered.
MAX_REMEMBERED: Final = 1_000


class GivenUp(Exception):
    """The result of this work is no longer wanted."""


class Allowance:
    """The CPU time and the steps that all the work of one request may use; each pause ends a step.

    A step decompresses at most 256 KiB or walks over at most 65,536 records.
    """

    __slots__ = ("left_cpu_s", "left_steps")

    def __init__(self, *, cpu_s: float, steps: int) -> None:
        self.left_cpu_s = cpu_s
        self.left_steps = steps

    @property
    def is_used_up(self) -> bool:
        return self.left_cpu_s <= 0 or self.left_steps <= 0


def _is_there(number: int) -> bool:
    return True


class FairPool:
    """At most `threads` pieces of work at a time, each at most `max_cpu_s` of CPU time.

    `is_open` takes the number of a connection and returns True if it is open; threads call it, too.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        max_cpu_s: float,
        is_open: Callable[[int], bool] = _is_there,
    ) -> None:
        self._is_open = is_open
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._name = name
        self._free = threads
        self._max_cpu_s = max_cpu_s
        self._addresses: _Shares[str] = _Shares()
        self._connections: _Shares[tuple[str, int]] = _Shares()
        self._waiting: dict[str, dict[tuple[str, int], list[_Job]]] = {}
        self._running: set[_Job] = set()
        self._is_closed = False

    def submit(
        self,
        client: ConnectionInfo,
        work: Callable[[Pause], T],
        *,
        allowance: Allowance | None = None,
        outlives_client: bool = False,
    ) -> "asyncio.Future[T]":
        """Return a future of the result of `work`; to cancel it stops the work at its next pause.

        The future fails with REQUEST_TIMED_OUT if the work, or all work of its request, exceeds its CPU time,
        and with GivenUp if the connection is closed, unless the work `outlives_client`.
        """
        return self.submit_for(
            network_of(client.client_host),
            client.number,
            work,
            allowance=allowance,
            outlives_client=outlives_client,
        )

    def submit_for(
        self,
        address: str,
        number: int,
        work: Callable[[Pause], T],
        *,
        allowance: Allowance | None = None,
        outlives_client: bool = False,
    ) -> "asyncio.Future[T]":
        """Submit work of an HTTP client; `number` identifies a request of the address."""
        key = (address, number)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        is_open = _is_there if outlives_client else self._is_open
        job = _Job(address, key, work, future, self._max_cpu_s, self._name, is_open, allowance)
        if self._is_closed:
            future.cancel()
            return future
        if allowance is not None and allowance.is_used_up:
            future.set_exception(_too_much(self._name))
            return future
        of_address = self._waiting.setdefault(address, {})
        if not of_address:
            self._addresses.arrive(address, self._waiting)
        jobs = of_address.setdefault(key, [])
        if not jobs:
            self._connections.arrive(key, of_address)
        jobs.append(job)
        future.add_done_callback(job.stop)
        self._start()
        return future

    def close(self) -> None:
        """Stop all work and accept no more."""
        self._is_closed = True
        for of_address in self._waiting.values():
            for jobs in of_address.values():
                for job in jobs:
                    job.future.cancel()
        for job in list(self._running):
            job.future.cancel()
        self._waiting.clear()
        self._executor.shutdown(wait=False)

    def _start(self) -> None:
        while self._free and self._waiting:
            job = self._next()
            if job.future.done():
                continue
            if not job.is_wanted():
                job.future.set_exception(GivenUp())
                continue
            self._free -= 1
            self._running.add(job)
            loop = asyncio.get_running_loop()
            done = loop.run_in_executor(self._executor, job.run)
            done.add_done_callback(lambda _, job=job: self._ended(job))  # type: ignore[misc]

    def _next(self) -> "_Job":
        address = self._addresses.next_of(self._waiting)
        of_address = self._waiting[address]
        key = self._connections.next_of(of_address)
        jobs = of_address[key]
        job = jobs.pop(0)
        if not jobs:
            del of_address[key]
            if not of_address:
                del self._waiting[address]
        return job

    def _ended(self, job: "_Job") -> None:
        self._free += 1
        self._running.discard(job)
        self._addresses.charge(job.address, job.cpu_s)
        self._connections.charge(job.key, job.cpu_s)
        job.complete()
        if not self._is_closed:
            self._start()


class _Shares(Generic[K]):
    """The CPU time that each client has used; a new one starts with as much as those being served."""

    def __init__(self) -> None:
        self._used_s: dict[K, float] = {}
        self._floor_s = 0.0

    def arrive(self, key: K, waiting: Mapping[K, object]) -> None:
        if len(self._used_s) > MAX_REMEMBERED:
            self._used_s = {
                one: used_s
                for one, used_s in self._used_s.items()
                if used_s > self._floor_s or one in waiting
            }
        self._used_s[key] = max(self._used_s.get(key, 0.0), self._floor_s)

    def next_of(self, waiting: Mapping[K, object]) -> K:
        key = min(waiting, key=self._so_far)
        self._floor_s = max(self._floor_s, self._so_far(key))
        return key

    def charge(self, key: K, cpu_s: float) -> None:
        self._used_s[key] = max(self._so_far(key), self._floor_s) + cpu_s

    def _so_far(self, key: K) -> float:
        return self._used_s.get(key, self._floor_s)


class _Job:
    """One piece of work. A thread calls `run`; everything else runs on the loop."""

    __slots__ = (
        "_allowance",
        "_began_s",
        "_error",
        "_is_open",
        "_is_stopped",
        "_max_cpu_s",
        "_meter",
        "_name",
        "_result",
        "_work",
        "address",
        "cpu_s",
        "future",
        "key",
    )

    def __init__(
        self,
        address: str,
        key: tuple[str, int],
        work: Callable[[Pause], Any],
        future: "asyncio.Future[Any]",
        max_cpu_s: float,
        name: str,
        is_open: Callable[[int], bool],
        allowance: Allowance | None,
    ) -> None:
        self._is_open = is_open
        self._allowance = allowance
        self.address = address
        self.key = key
        self.future = future
        self.cpu_s = self._began_s = 0.0
        self._work: Callable[[Pause], Any] | None = work
        self._max_cpu_s = max_cpu_s
        self._name = name
        self._meter = RUNNING.get()
        self._is_stopped = False
        self._result: Any = None
        self._error: BaseException | None = None

    def stop(self, future: "asyncio.Future[Any]") -> None:
        """Stop the work at its next pause, and release what it holds."""
        self._is_stopped = True
        self._work = None

    def run(self) -> None:
        work = self._work
        if work is None:
            return
        self._began_s = time.thread_time()
        try:
            self._result = work(self._pause)
        except BaseException as error:
            self._error = error
        finally:
            self.cpu_s = time.thread_time() - self._began_s
            if self._meter is not None:
                self._meter.add(self.cpu_s)
            if self._allowance is not None:
                self._allowance.left_cpu_s -= self.cpu_s

    def is_wanted(self) -> bool:
        """Return True if the result is still wanted."""
        return self._is_open(self.key[1])

    def complete(self) -> None:
        """Set the result or the error of the future."""
        result, error = self._result, self._error
        self._result = self._error = None
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def _pause(self) -> None:
        if self._is_stopped or not self.is_wanted():
            raise GivenUp
        used_s, allowance = time.thread_time() - self._began_s, self._allowance
        if used_s > self._max_cpu_s:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{self._name} took more than {self._max_cpu_s:g} s of CPU time."
            )
        if allowance is not None:
            allowance.left_steps -= 1
            if used_s > allowance.left_cpu_s or allowance.left_steps < 0:
                raise _too_much(self._name)


def _too_much(name: str) -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"{name}: the request needs too much work at once: ask again for the parts that were not answered.",
    )
