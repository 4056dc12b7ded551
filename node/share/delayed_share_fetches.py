"""Share fetches that wait for records or for a disk, up to their maximum wait.

If several wait for a share-partition, one is woken and claims it until it has tried again. Then the next one
gets it, in the order in which they came.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.node.counters.share_counters import ShareCounters
from ottla.node.handing_over import InThread, StartTask
from ottla.node.replica.delayed_fetch import DelayedFetch
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.share_fetch import UNREADABLE, ColdRead, ShareFetch
from ottla.node.share.share_sessions import SessionKey
from ottla.node.work.turns import give_way

# Reads in a thread before pauses begin: the page cache may lose a page before the loop reads it.
MAX_COLD_READS: Final = 10
PAUSE_S: Final = 0.05

T = TypeVar("T")


class Attempt(Protocol):
    """Acquires available records for a fetch; returns True if the fetch need not wait any longer."""

    def __call__(self, fetch: ShareFetch, *, is_last: bool) -> bool: ...


class _Sleep(NamedTuple):
    """The wait of a fetch that watches its share-partitions."""

    woken: "asyncio.Future[None]"
    delayed: DelayedFetch
    timer: asyncio.TimerHandle
    claimed: list[LedPartition]  # by the fetch when it was woken


class DelayedShareFetches:
    """The waiting share fetches of a node. For the event loop only."""

    def __init__(
        self,
        *,
        attempt: Attempt,
        complete: Callable[[ShareFetch], ShareFetch],
        is_current: Callable[[ShareFetch], bool],
        in_thread: InThread,
        start_task: StartTask,
        on_woken: Callable[[], None],
        counters: ShareCounters,
    ) -> None:
        """`complete` adds the missing results of a fetch, `is_current` returns True if its member still waits
        for them, and `on_woken` is called after each fetch that has waited.
        """
        self._attempt = attempt
        self._complete = complete
        self._is_current = is_current
        self._in_thread = in_thread
        self._start_task = start_task
        self._on_woken = on_woken
        self._counters = counters
        self._waiting: dict[SessionKey, dict[ShareFetch, asyncio.Future[None]]] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def wait(self, fetch: ShareFetch) -> "asyncio.Future[ShareFetch]":
        """Let a fetch wait; return a future of the fetch with its results."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ShareFetch] = loop.create_future()
        future.add_done_callback(lambda _: self._wake(fetch))  # also if it is cancelled
        end_s = loop.time() + fetch.params.max_wait_ms / 1000
        # It watches from now on: records that come before its task starts must wake it, too.
        first_sleep = None if fetch.cold or fetch.has_skipped_all else self._watch(fetch, end_s)
        self._start_task(self._wait(fetch, future, end_s, first_sleep))
        return future

    def wake(self, key: SessionKey) -> None:
        """Wake all fetches of a session that has ended."""
        for fetch in list(self._waiting.get(key, {})):
            self._wake(fetch)

    def close(self) -> None:
        """Answer all fetches, and let none wait from now on."""
        self._is_closed = True
        for key in list(self._waiting):
            self.wake(key)

    async def _wait(
        self,
        fetch: ShareFetch,
        future: "asyncio.Future[ShareFetch]",
        end_s: float,
        sleep: "_Sleep | None",
    ) -> None:
        """Try again whenever there may be more records, until there are enough or the wait is over."""
        loop = asyncio.get_running_loop()
        cold_reads = 0
        is_done = False
        while not is_done:
            if fetch.cold:
                if cold_reads >= MAX_COLD_READS:  # a fetch that never finds its pages leaves the loop free
                    await asyncio.sleep(PAUSE_S)
                cold_reads += 1
                await self._warm(fetch)
            elif fetch.has_skipped_all:
                cold_reads = 0
                await give_way()  # then read the records after those that are not due
            else:
                fetch.warm.clear()
                await self._until_woken(fetch, sleep or self._watch(fetch, end_s))
                sleep = None
            is_over = loop.time() >= end_s or self._is_closed
            if future.done() or not self._is_current(fetch):
                break  # no client waits for records
            is_done = self._attempt(fetch, is_last=is_over)
            if is_over and (not fetch.cold or cold_reads >= MAX_COLD_READS):
                is_done = True
            if is_over and is_done:
                self._counters.expired_fetches += 1
        if not future.done():
            future.set_result(self._complete(fetch))
            self._on_woken()

    async def _warm(self, fetch: ShareFetch) -> None:
        """Read in a thread what the fetch needs, while no other fetch acquires from its partitions."""
        reads, fetch.cold = fetch.cold, []
        claimed = _claim(fetch)
        try:
            for led, error in await self._in_thread(partial(_run_all, reads)):
                fetch.read_failed(led, error)
        finally:
            # In a later turn: this fetch makes its attempt in this one, before others.
            asyncio.get_running_loop().call_soon(_release, fetch, claimed)

    def _watch(self, fetch: ShareFetch, end_s: float) -> "_Sleep":
        """Watch the share-partitions of a fetch. It is woken, and claims them, when there is enough."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        claimed: list[LedPartition] = []

        def wake() -> None:
            claimed.extend(_claim(fetch))
            if not woken.done():
                woken.set_result(None)

        delayed = DelayedFetch(min_bytes=max(1, fetch.params.min_bytes), wake=wake)
        self._waiting.setdefault(fetch.params.key, {})[fetch] = woken
        timer = loop.call_at(end_s, delayed.finish)
        for led in fetch.led.values():
            if led.is_gone:
                continue
            led.waiting[delayed] = None
            measure = led.measure(fetch, fetch.readable_bytes)
            delayed.watch(led.partition, measure() or 0, measure)
        return _Sleep(woken, delayed, timer, claimed)

    async def _until_woken(self, fetch: ShareFetch, sleep: "_Sleep") -> None:
        """Wait until a fetch is woken, and end its watch then."""
        try:
            await sleep.woken
        finally:
            sleep.timer.cancel()
            sleep.delayed.cancel()
            for led in fetch.led.values():
                led.waiting.pop(sleep.delayed, None)
            key = fetch.params.key
            waiting = self._waiting.get(key, {})
            waiting.pop(fetch, None)
            if not waiting:
                self._waiting.pop(key, None)
            # In a later turn: this fetch makes its attempt in this one, before others.
            asyncio.get_running_loop().call_soon(_release, fetch, sleep.claimed)

    def _wake(self, fetch: ShareFetch) -> None:
        woken = self._waiting.get(fetch.params.key, {}).get(fetch)
        if woken is not None and not woken.done():
            woken.set_result(None)


def _claim(fetch: ShareFetch) -> list[LedPartition]:
    claimed = [one for one in fetch.led.values() if one.claimed_by is None]
    for led in claimed:
        led.claimed_by = fetch
    return claimed


def _release(fetch: ShareFetch, claimed: Iterable[LedPartition]) -> None:
    for led in claimed:
        if led.claimed_by is fetch:
            led.claimed_by = None
            led.check_waiting()


def _run_all(reads: Sequence[ColdRead]) -> list[tuple[LedPartition, Exception]]:
    """Carry out the reads of a fetch; return the failures."""
    failures: list[tuple[LedPartition, Exception]] = []
    for led, run in reads:
        try:
            run()
        except UNREADABLE as error:
            failures.append((led, error))
    return failures
