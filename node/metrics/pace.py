"""Pauses of long work in a thread, because all threads of a node share one interpreter.

A computing thread gives the interpreter to another one only every half millisecond. After `asyncio.sleep(0)`
it has the interpreter back before another thread has woken up. So a pause is a real sleep: the node's loop
finds the interpreter free, and waits at most for one turn of this work.
"""

import asyncio
from typing import Final

from ottla.node.clock import monotonic_s

TURN_S: Final = 0.0003
PAUSE_S: Final = 0.001  # the shortest timer of uvloop


class Pace:
    """The pauses of one piece of work, which calls `pause` wherever it can be interrupted."""

    def __init__(self) -> None:
        self._began_s = monotonic_s()

    async def pause(self) -> None:
        """Sleep if the last pause was at least a turn ago."""
        if monotonic_s() - self._began_s >= TURN_S:
            await asyncio.sleep(PAUSE_S)
            self._began_s = monotonic_s()
