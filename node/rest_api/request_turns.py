"""Turns on the loop of the REST API for requests as they arrive.

A loop handles everything that is readable before it polls its sockets again: 1,300 requests at once, of 3 ms
each with their connections, would delay a probe until all of them are handled. So each turn of the loop
handles at most `MOST_PER_TURN` reads, and each further request in a read takes a turn, too. The rest is held,
its connections are not read, and the addresses take turns: a request from another address is handled in the
next turn. Probes have a share of their own, since a flood may come from the address of a probe. No request is
rejected here.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

PROBES: Final = "probes"
_PROBE_LINES: Final = (b"GET /healthz", b"GET /readyz", b"HEAD /healthz", b"HEAD /readyz")
MOST_PER_TURN: Final = 8  # some 30 ms while two threads read records at the same time


class Arrival(Protocol):
    """A connection that has received bytes."""

    def handle_held(self) -> None:
        """Handle the bytes received, in the connection's turn."""


class RequestTurns:
    """The turns of one loop; `call_soon` is that of the loop."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._handled = 0  # in this turn
        self._is_turn_noted = False  # True: the loop will call `_next_turn`
        # By share, in the order of turns.
        self._waiting: dict[str, deque[Arrival]] = {}

    def take_turn(self, arrival: Arrival, address: str, data: bytes) -> bool:
        """Count a read with these bytes in the current turn of the loop; return True if it is handled now.

        Otherwise the connection is queued, and `handle_held` is called in its turn.
        """
        share = PROBES if data.startswith(_PROBE_LINES) else address
        self._note_turn()
        if self._handled < MOST_PER_TURN and share not in self._waiting:
            self._handled += 1
            return True
        self._waiting.setdefault(share, deque()).append(arrival)
        return False

    def _note_turn(self) -> None:
        if not self._is_turn_noted:
            self._is_turn_noted = True
            self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Handle the first waiting connection of each share in turn."""
        self._is_turn_noted = False
        self._handled = 0
        while self._waiting and self._handled < MOST_PER_TURN:
            share = next(iter(self._waiting))
            queue = self._waiting.pop(share)
            arrival = queue.popleft()
            if queue:
                self._waiting[share] = queue  # at the end of the queue
            self._handled += 1
            arrival.handle_held()
        if self._handled:
            self._note_turn()
