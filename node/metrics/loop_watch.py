"""Measures how late and how busy the node's loop is, by a timer on it and the CPU clock of its thread.

A timer is late by as long as other work holds up the loop. Ten timers a second cost a ten-thousandth of the
loop's time. The CPU clock of a thread can be read from any other thread, and costs the loop nothing.

A timer is also late if the machine is busy with other processes. So the longest turn is measured as well: the
delay of a timer, but at most the CPU time that the loop has used since the previous one.
"""

import asyncio
import threading
import time

from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.clock import monotonic_s


class LoopWatch:
    """The measurements of one loop: call `start` on it, and read the results in any thread."""

    def __init__(self) -> None:
        self.lag = LatencyHistogram()
        self._worst_s = 0.0
        self._longest_turn_s = 0.0
        self._look_every_s = 0.0
        self._cpu_s = 0.0  # at the last timer
        self._clock_id: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expected_s = 0.0

    def start(self, look_every_s: float) -> None:
        """Begin to measure the running loop, for as long as it runs; later calls do nothing."""
        if self._loop is None:
            self._look_every_s = look_every_s
            self._loop = asyncio.get_running_loop()
            self._clock_id = time.pthread_getcpuclockid(threading.get_ident())
            self._plan()

    def cpu_s(self) -> float:
        """Return the CPU time of the loop's thread; 0 before `start`."""
        return 0.0 if self._clock_id is None else time.clock_gettime(self._clock_id)

    def take_worst_s(self) -> float:
        """Return the longest delay of a timer since the last call."""
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s

    def take_longest_turn_s(self) -> float:
        """Return the CPU time of the longest turn since the last call.

        A turn that is shorter than the time between two timers may be missed.
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
