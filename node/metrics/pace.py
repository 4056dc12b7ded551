"""The pauses of work that is long: the interpreter is one for all threads of a node.

A thread that computes lends the interpreter to others only every half millisecond, and one that lets it
go for a moment (`asyncio.sleep(0)`) has it back before another has woken up. A pause is a sleep: the node's
loop finds the interpreter free, and waits for a turn at most.
"""

import asyncio
from typing import Final

from ottla.node.clock import monotonic_s

TURN_S: Final = 0.0003
PAUSE_S: Final = 0.001  # uvloop's timers have no less


class Pace:
    """Of one piece of work, which asks for its pauses where it can have them."""

    def __init__(self) -> None:
        self._began_s = monotonic_s()

    async def pause(self) -> None:
        """Sleep if the last pause was a turn ago."""
        if monotonic_s() - self._began_s >= TURN_S:
            await asyncio.sleep(PAUSE_S)
            self._began_s = monotonic_s()
