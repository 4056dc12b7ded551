"""Answers of all connections that lie in memory because their peers do not read fast enough.

Too many end the connections that hold theirs for longest. At half of it fetches get one batch each, so that
readers who do not read cannot fill the memory; but thousands of peers may ask for one and never read it.
"""

from typing import Protocol

DEFAULT_LIMIT_BYTES = 512 * 1024 * 1024


class Holder(Protocol):
    """A connection with answers that its peer does not read."""

    def release_unsent(self) -> None:
        """Count them no more."""

    def abort(self, reason: str) -> None: ...


class UnsentAnswers:
    """Counts the bytes of all listeners of a node against one limit."""

    __slots__ = ("_holders", "_scarce_bytes", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._scarce_bytes = limit_bytes // 2
        self._holders: dict[Holder, None] = {}  # the longest waiting first

    @property
    def is_scarce(self) -> bool:
        """Return whether so much is unsent that answers should be as small as they can be."""
        return self.used_bytes > self._scarce_bytes

    def hold(self, holder: Holder, size_bytes: int) -> None:
        """Count the answers of a connection until it calls `release`."""
        self.used_bytes += size_bytes
        self._holders[holder] = None
        while self.used_bytes > self.limit_bytes:
            slowest = next(iter(self._holders))
            slowest.release_unsent()
            slowest.abort("the client does not read its responses while memory is short")

    def release(self, holder: Holder, size_bytes: int) -> None:
        """Those answers are sent, or never will be."""
        self.used_bytes -= size_bytes
        self._holders.pop(holder, None)
