"""The responses of all connections that are held in memory because their peers do not read fast enough.

If they exceed the limit, the connections that have held theirs for longest are aborted. From half the limit
on each fetch gets a single batch, so that readers that do not read cannot fill the memory; even so, thousands
of peers may request one batch each and never read it.
"""

from typing import Protocol

DEFAULT_LIMIT_BYTES = 512 * 1024 * 1024


class Holder(Protocol):
    """A connection with responses that its peer does not read."""

    def release_unsent(self) -> None:
        """Stop counting them."""

    def abort(self, reason: str) -> None: ...


class UnsentAnswers:
    """Counts the unsent bytes of all listeners of a node against one limit."""

    __slots__ = ("_holders", "_scarce_bytes", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._scarce_bytes = limit_bytes // 2
        self._holders: dict[Holder, None] = {}  # the longest waiting first

    @property
    def is_scarce(self) -> bool:
        """Return True if so much is unsent that responses should be as small as possible."""
        return self.used_bytes > self._scarce_bytes

    def hold(self, holder: Holder, size_bytes: int) -> None:
        """Count the responses of a connection until it calls `release`.

        If all of them exceed the limit, abort the connections that have held theirs for longest.
        """
        self.used_bytes += size_bytes
        self._holders[holder] = None
        while self.used_bytes > self.limit_bytes:
            slowest = next(iter(self._holders))
            slowest.release_unsent()
            slowest.abort("the client does not read its responses while memory is short")

    def release(self, holder: Holder, size_bytes: int) -> None:
        """Stop counting responses that were sent, or never will be."""
        self.used_bytes -= size_bytes
        self._holders.pop(holder, None)
