"""How late the node's loop is, and how busy: a timer on it, and the clock of its thread.

What is waited for on a loop is late by as much as other work holds it up. Ten looks a second cost it a
ten-thousandth of its time. The clock of a thread can be read from any other, and costs the loop nothing.
"""

import asyncio
import threading
import time
from typing import Final

from logstore.latency import LatencyHistogram
from node.clock import monotonic_s

LOOK_EVERY_S: Final = 0.1


class LoopWatch:
    """`start` on the loop that is watched; read from anywhere."""

    def __init__(self) -> None:
        self.lag = LatencyHistogram()
        self._worst_s = 0.0
        self._clock_id: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expected_s = 0.0

    def start(self) -> None:
        """Begin to watch the running loop, for as long as it runs."""
        if self._loop is None:
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

    def _plan(self) -> None:
        assert self._loop is not None
        self._expected_s = monotonic_s() + LOOK_EVERY_S
        self._loop.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        late_s = max(0.0, monotonic_s() - self._expected_s)
        self.lag.observe(late_s)
        self._worst_s = max(self._worst_s, late_s)
        self._plan()
