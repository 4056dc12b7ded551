"""A DeleteRecords, at rest until all living replicas have deleted too (or its time is over).

Only then is it sure that no election brings the records back: the log start of each replica is what it tells
with its fetches.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from logstore.errors import ErrorCode


class Deletion(NamedTuple):
    """How a partition's part of it ended, and where the log starts on all living replicas."""

    code: ErrorCode
    low_watermark: int


class DeletablePartition(Protocol):
    """What a delayed deletion needs of a partition."""

    delayed_deletes: "dict[DelayedDelete, None]"

    def low_watermark(self) -> int:
        """Below it no living replica has anything; NOT_LEADER_OR_FOLLOWER as -1 with `is_leader` false."""
        ...

    is_leader: bool


class DelayedDelete:
    """One waiting deletion; `results` has every partition once `wake` was called."""

    __slots__ = ("_offsets", "_wake", "is_done", "results")

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._offsets: dict[DeletablePartition, int] = {}
        self.results: dict[DeletablePartition, Deletion] = {}
        self.is_done = False

    def watch(self, partition: DeletablePartition, offset: int) -> None:
        """Wait until the low watermark of `partition` is at `offset` or beyond."""
        self._offsets[partition] = offset
        partition.delayed_deletes[self] = None

    def check(self, partition: DeletablePartition) -> None:
        """The partition has changed: wake if that was the last one."""
        if self.is_done or partition in self.results:
            return
        if not partition.is_leader:
            self.results[partition] = Deletion(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        else:
            low_watermark = partition.low_watermark()
            if low_watermark < self._offsets[partition]:
                return
            self.results[partition] = Deletion(ErrorCode.NONE, low_watermark)
        partition.delayed_deletes.pop(self, None)
        if len(self.results) == len(self._offsets):
            self.is_done = True
            self._wake()

    def expire(self) -> None:
        """The client's timeout is over: what is not deleted everywhere says so."""
        if self.is_done:
            return
        self.cancel()
        for partition in self._offsets:
            if partition not in self.results:
                low_watermark = partition.low_watermark() if partition.is_leader else -1
                self.results[partition] = Deletion(ErrorCode.REQUEST_TIMED_OUT, low_watermark)
        self._wake()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.is_done = True
        for partition in self._offsets:
            partition.delayed_deletes.pop(self, None)


def check_all(deletes: "dict[DelayedDelete, None]", partition: DeletablePartition) -> None:
    """Ask every deletion that waits for `partition` whether it is done now."""
    for delete in tuple(deletes):
        delete.check(partition)
