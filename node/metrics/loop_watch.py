"""How late the node's loop is, and how busy: a timer on it, and the clock of its thread.

What is waited for on a loop is late by as much as other work holds it up. Ten looks a second cost it a
ten-thousandth of its time. The clock of a thread can be read from any other, and costs the loop nothing.

A look is also late where the machine has other things to do. So the longest turn is told beside it: how late
a look was, but no more than the CPU time that the loop has used since the look before.
"""

import asyncio
import threading
import time

from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.clock import monotonic_s


class LoopWatch:
    """`start` on the loop that is watched; read from anywhere."""

    def __init__(self) -> None:
        self.lag = LatencyHistogram()
        self._worst_s = 0.0
        self._longest_turn_s = 0.0
        self._look_every_s = 0.0
        self._cpu_s = 0.0  # at the last look
        self._clock_id: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expected_s = 0.0

    def start(self, look_every_s: float) -> None:
        """Begin to watch the running loop, for as long as it runs."""
        if self._loop is None:
            self._look_every_s = look_every_s
            self._loop = asyncio.get_running_loop()
            self._clock_id = time.pthread_getcpuclockid(threading.get_ident())
            self._plan()

    def cpu_s(self) -> float:
        """The CPU time of the loop's thread; 0 before `start`."""
        return 0.0 if self._clock_id is None else time.clock_gettime(self._clock_id)

    def take_worst_s(self) -> float:
        """The worst lag since the last call."""
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s

    def take_longest_turn_s(self) -> float:
        """The longest turn since the last call, in CPU time; one shorter than the time between looks may be
        missed.
        """
        longest_s, self._longest_turn_s = self._longest_turn_s, 0.0
        return longest_s

    def _plan(self) -> None:
        assert self._loop is not None
        self._expected_s = monotonic_s() + self._look_every_s
        self._cpu_s = self.cpu_s()
        self._loop.call_later(self._look_every_s, self._look)

    def _look(self) -> None:
        late_s = max(0.0, monotonic_s() - self._expected_s)
        self.lag.observe(late_s)
        self._worst_s = max(self._worst_s, late_s)
        self._longest_turn_s = max(self._longest_turn_s, min(late_s, self.cpu_s() - self._cpu_s))
        self._plan()
