"""A fetch that found too few bytes, at rest until an append (or a timer) wakes it.

It knows how many bytes each of its partitions could give when it was last asked, and asks again only for the
partition that changed: an append costs one look, however many partitions the fetch has.
"""

from collections.abc import Callable
from typing import Protocol


class WatchedPartition(Protocol):
    """What a delayed fetch needs of a partition: a place to be woken from."""

    delayed_fetches: "dict[DelayedFetch, None]"  # in the order in which they came


class DelayedFetch:
    """One waiting fetch. `wake` is called once: when there are enough bytes, or something went wrong."""

    __slots__ = ("_available_bytes", "_measures", "_min_bytes", "_total_bytes", "_wake", "is_done")

    def __init__(self, *, min_bytes: int, wake: Callable[[], None]) -> None:
        self._min_bytes = min_bytes
        self._wake = wake
        self._measures: dict[WatchedPartition, Callable[[], int | None]] = {}
        self._available_bytes: dict[WatchedPartition, int] = {}
        self._total_bytes = 0
        self.is_done = False

    def watch(
        self, partition: WatchedPartition, available_bytes: int, measure: Callable[[], int | None]
    ) -> None:
        """Wait for `partition` too, which can give `available_bytes` now.

        `measure` tells the bytes that it could give, None if a fetch of it would answer with an error.
        """
        self._measures[partition] = measure
        self._available_bytes[partition] = available_bytes
        self._total_bytes += available_bytes
        partition.delayed_fetches[self] = None

    def check(self, partition: WatchedPartition) -> None:
        """The partition has changed: wake if that makes enough."""
        if self.is_done:
            return
        measured_bytes = self._measures[partition]()
        if measured_bytes is None:
            self.finish()
            return
        self._total_bytes += measured_bytes - self._available_bytes[partition]
        self._available_bytes[partition] = measured_bytes
        if self._total_bytes >= self._min_bytes:
            self.finish()

    def finish(self) -> None:
        """Wake, whatever there is."""
        if not self.is_done:
            self.cancel()
            self._wake()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.is_done = True
        for partition in self._measures:
            partition.delayed_fetches.pop(self, None)
