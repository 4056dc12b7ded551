"""A produce with acks=all, at rest until all in-sync replicas have its records (or its time is over).

Each partition that was appended to waits for its high watermark on its own; the answer leaves when the last
one has it. A partition that loses its leadership meanwhile fails alone.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from logstore.errors import ErrorCode


class ReplicatedPartition(Protocol):
    """What a delayed produce needs of a partition."""

    delayed_produces: "dict[DelayedProduce, None]"  # in the order in which they came

    def acknowledgement_of(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """NONE once all in-sync replicas are at the offset, an error that will not go away, None: wait."""
        ...


class Place(NamedTuple):
    """Where an append ended, and in which reign: in another one that offset is another record's."""

    required_offset: int  # the one behind its last record
    leader_epoch: int


def later_of(first: Place | None, last: Place) -> Place:
    """Where a request ends that wrote to a partition twice; both must have been in the first one's reign."""
    if first is None:
        return last
    return Place(max(first.required_offset, last.required_offset), first.leader_epoch)


class DelayedProduce:
    """One waiting produce; `results` has the code of every partition once `wake` was called."""

    __slots__ = ("_places", "_wake", "is_done", "results")

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._places: dict[ReplicatedPartition, Place] = {}
        self.results: dict[ReplicatedPartition, ErrorCode] = {}
        self.is_done = False

    def watch(self, partition: ReplicatedPartition, place: Place) -> None:
        """Wait until the high watermark of `partition` is at `place` or beyond."""
        self._places[partition] = later_of(self._places.get(partition), place)
        partition.delayed_produces[self] = None

    def check(self, partition: ReplicatedPartition) -> None:
        """The partition has changed: wake if that was the last one."""
        if self.is_done or partition in self.results:
            return
        code = partition.acknowledgement_of(*self._places[partition])
        if code is None:
            return
        self.results[partition] = code
        partition.delayed_produces.pop(self, None)
        if len(self.results) == len(self._places):
            self.is_done = True
            self._wake()

    def expire(self) -> None:
        """The client's timeout is over: what is not replicated by now is answered with REQUEST_TIMED_OUT."""
        if self.is_done:
            return
        self.cancel()
        for partition in self._places:
            self.results.setdefault(partition, ErrorCode.REQUEST_TIMED_OUT)
        self._wake()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.is_done = True
        for partition in self._places:
            partition.delayed_produces.pop(self, None)


def check_all(produces: "dict[DelayedProduce, None]", partition: ReplicatedPartition) -> None:
    """Ask every produce that waits for `partition` whether it is acknowledged now."""
    for produce in tuple(produces):
        produce.check(partition)
