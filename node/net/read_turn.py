"""The turn of a connection that sends in large reads: the time for which the loop reads on before others.

If the turn is over before the loop has come round, the connection rests until it has. While the disk is
behind, it continues to rest, step by step.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from ottla.node.net.connection_states import Reading, Serving

# For large reads of one connection, before others get their turn: the loop reads on as long as a read fills
# its room. These are 3 to 5 MB; with less, batches of 1 MB push each other out of the CPU caches.
MAX_TURN_SECONDS = 0.0015
# While the disk is behind, connections that had a turn rest for this long, again and again.
REST_SECONDS = 0.01
_RESTING, _CLOSED = Reading.RESTING, Serving.CLOSED


class Reader(Protocol):
    """The connection whose turn it is."""

    state: Serving
    reading: Reading

    def end_turn(self) -> None: ...


class TurnHost(Protocol):
    """The listener of a connection, by the members that its turns need."""

    loop: asyncio.AbstractEventLoop
    must_pause: Callable[[], bool]  # True while clients that send much should wait for the disk


class ReadTurn:
    """One turn, from its first large read until the loop has come round and the connection need not rest."""

    __slots__ = ("_ends", "_host", "_reader")

    def __init__(self, reader: Reader, host: TurnHost) -> None:
        self._reader = reader
        self._host = host
        self._ends = time.perf_counter() + (0.0 if host.must_pause() else MAX_TURN_SECONDS)
        host.loop.call_soon(self._come_round)

    def is_over(self) -> bool:
        """Return True if the connection must not read before the loop has come round."""
        return time.perf_counter() >= self._ends

    def _come_round(self) -> None:
        reader = self._reader
        if reader.reading is _RESTING and reader.state is not _CLOSED and self._host.must_pause():
            self._host.loop.call_later(REST_SECONDS, self._come_round)
        else:
            reader.end_turn()
