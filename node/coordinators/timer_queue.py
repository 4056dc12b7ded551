"""Timers by name: one heap, one wake-up of the loop for the earliest, no polling.

Moving a timer to a later deadline, as each heartbeat does with its member's session, costs no heap operation:
the heap keeps the old deadline, and a timer that comes up too early is put back.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable

from ottla.node.clock import thread_cpu_s
from ottla.node.work.turns import TURN_CPU_S

# Entries of cancelled and replaced timers are removed from the heap when it has this many more entries than
# twice the running timers.
MAX_STALE_ENTRIES = 1_000
# Timers called in one turn of the loop: a thousand groups whose rebalance ends at one moment take some
# 100 ms, and groups of very many members longer, so a turn also ends by its CPU time.
MAX_CALLS_PER_TURN = 32
# Timers taken from the heap in one turn, 1 us each: a hundred thousand sessions may end at one moment.
MAX_DUE_PER_TURN = 1_024


class _Timer:
    __slots__ = ("callback", "deadline_s", "entry")

    def __init__(self, deadline_s: float, callback: Callable[[], None], entry: int) -> None:
        self.deadline_s = deadline_s
        self.callback = callback
        self.entry = entry  # the number of its entry in the heap


class TimerQueue:
    """Calls each timer's function once on the loop, when its delay is over by the loop's monotonic clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._numbers = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._wake_s = 0.0
        self._due: deque[tuple[Hashable, _Timer]] = deque()  # timers to call, in their order
        self._now_s = 0.0  # the time at which they were found due

    def __len__(self) -> int:
        return len(self._timers)

    def start(self, key: Hashable, delay_ms: float, callback: Callable[[], None]) -> None:
        """Start the timer `key`, or move it if it is running."""
        deadline_s = self._loop.time() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is not None and deadline_s >= timer.deadline_s:
            timer.deadline_s = deadline_s
            timer.callback = callback
            return
        number = next(self._numbers)
        self._timers[key] = _Timer(deadline_s, callback, number)
        self._push(deadline_s, number, key)

    def cancel(self, key: Hashable) -> None:
        """Cancel the timer `key`, if it is running."""
        self._timers.pop(key, None)

    def close(self) -> None:
        """Cancel all timers."""
        self._timers.clear()
        self._heap.clear()
        self._due.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _push(self, deadline_s: float, number: int, key: Hashable) -> None:
        if len(self._heap) > 2 * len(self._timers) + MAX_STALE_ENTRIES:
            self._sweep()
        heapq.heappush(self._heap, (deadline_s, number, key))
        if self._handle is None or deadline_s < self._wake_s:
            self._arm()

    def _sweep(self) -> None:
        # The caller pushes the newest timer after this.
        newest = max((timer.entry for timer in self._timers.values()), default=-1)
        self._heap = [
            (timer.deadline_s, timer.entry, key)
            for key, timer in self._timers.items()
            if timer.entry != newest
        ]
        heapq.heapify(self._heap)

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap:
            self._wake_s = self._heap[0][0]
            self._handle = self._loop.call_at(self._wake_s, self._wake)

    def _wake(self) -> None:
        self._handle = None
        # The loop may call a little early; the timer that it was armed for is due.
        self._now_s = now_s = max(self._loop.time(), self._wake_s)
        is_calling = bool(self._due)
        for _ in range(MAX_DUE_PER_TURN):
            if not self._heap or self._heap[0][0] > now_s:
                break
            _, number, key = heapq.heappop(self._heap)
            timer = self._timers.get(key)
            if timer is None or timer.entry != number:
                continue
            if timer.deadline_s > now_s:
                heapq.heappush(self._heap, (timer.deadline_s, number, key))
                continue
            self._due.append((key, timer))
        self._arm()
        if not is_calling:
            self._call()

    def _call(self) -> None:
        """Call the due timers that were neither cancelled nor moved since they were found due."""
        began_s = thread_cpu_s()
        try:
            for _ in range(min(len(self._due), MAX_CALLS_PER_TURN)):
                key, timer = self._due.popleft()
                if self._timers.get(key) is not timer:
                    continue
                if timer.deadline_s > self._now_s:
                    self._push(timer.deadline_s, timer.entry, key)
                    continue
                del self._timers[key]
                timer.callback()
                if thread_cpu_s() - began_s > TURN_CPU_S:
                    break
        finally:
            # Also if a callback raised an exception, which the loop reports.
            if self._due:
                self._loop.call_soon(self._call)
