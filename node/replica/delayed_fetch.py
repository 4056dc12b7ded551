"""A fetch that found too few bytes and waits until an append, or a timer, wakes it.

It remembers how many bytes each of its partitions offered when last measured, and measures only the partition
that changed: an append costs one measurement, no matter how many partitions the fetch has.
"""

from collections.abc import Callable
from typing import Protocol


class WatchedPartition(Protocol):
    """A partition, by the member that a delayed fetch needs."""

    delayed_fetches: "dict[DelayedFetch, None]"  # in the order of their arrival


class DelayedFetch:
    """One waiting fetch. `wake` is called once: when there are enough bytes, or a partition has an error."""

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
        """Wait for `partition` too, which offers `available_bytes` now.

        `measure` returns the bytes that it offers, None if a fetch of it would be answered with an error.
        """
        self._measures[partition] = measure
        self._available_bytes[partition] = available_bytes
        self._total_bytes += available_bytes
        partition.delayed_fetches[self] = None

    def check(self, partition: WatchedPartition) -> None:
        """Measure a partition that has changed, and wake if the bytes are enough now."""
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
        """Wake, no matter how many bytes there are."""
        if not self.is_done:
            self.cancel()
            self._wake()

    def cancel(self) -> None:
        """Stop waiting, without a wake: the request ends, or no client is left to answer."""
        self.is_done = True
        for partition in self._measures:
            partition.delayed_fetches.pop(self, None)
