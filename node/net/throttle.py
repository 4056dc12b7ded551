"""The time for which a peer's next request waits after the peer exceeded a quota."""

import asyncio
from typing import Protocol

from ottla.node.net.connection_states import Serving
from ottla.node.net.not_served import LOOK_FOR_END_SECONDS

_THROTTLED = Serving.THROTTLED


class Throttled(Protocol):
    """The connection that waits."""

    state: Serving

    def end_if_peer_has_gone(self) -> bool: ...
    def end_throttle(self) -> None: ...


class Throttle:
    """One throttle time, which may be extended while it lasts."""

    __slots__ = ("_loop", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0

    def extend(self, throttle_ms: int) -> None:
        """Extend it to this time from now, if that is later."""
        self._until = max(self._until, self._loop.time() + throttle_ms / 1_000)

    def is_over(self) -> bool:
        """Return True if the next request may be served."""
        return self._until <= self._loop.time()

    def wait_out(self, connection: Throttled) -> None:
        """Call the connection when the time is over; until then end it if its peer is gone."""
        if connection.state is not _THROTTLED:
            return
        left_s = self._until - self._loop.time()
        if left_s <= 0:
            connection.end_throttle()
        elif not connection.end_if_peer_has_gone():
            self._loop.call_later(min(left_s, LOOK_FOR_END_SECONDS), self.wait_out, connection)
