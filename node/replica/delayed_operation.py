"""A request that waits until each of its partitions has reached a goal, or its time is over.

Kafka's DelayedOperation. Each partition waits separately; the last result completes the request.
"""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

P = TypeVar("P")  # the partition
G = TypeVar("G")  # the goal of a partition
R = TypeVar("R")  # the result of one partition


C = TypeVar("C", contravariant=True)


class WaitsFor(Protocol[C]):
    def check(self, partition: C) -> None:
        """Check the operation again: this partition has changed."""
        ...


class Kind(NamedTuple, Generic[P, G, R]):
    """The functions by which one kind of operation differs from the others."""

    # Returns the operations of this kind that wait for a partition, in the order of their arrival.
    waiting: "Callable[[P], dict[DelayedOperation[P, G, R], None]]"
    # Returns the result of a partition; None: it has not reached its goal.
    result: Callable[[P, G], R | None]
    # Returns the result of a partition whose time is over before it has reached its goal.
    late: Callable[[P], R]
    # Combines the first and the last goal of a partition that is watched twice.
    both: Callable[[G, G], G]


class DelayedOperation(Generic[P, G, R]):
    """One waiting request; `results` has every partition once `wake` is called."""

    __slots__ = ("_goals", "_wake", "is_done", "kind", "results")

    def __init__(self, kind: Kind[P, G, R], *, wake: Callable[[], None]) -> None:
        self.kind = kind
        self._wake = wake
        self._goals: dict[P, G] = {}
        self.results: dict[P, R] = {}
        self.is_done = False

    def watch(self, partition: P, goal: G) -> None:
        """Wait until `partition` has reached `goal`."""
        known = self._goals.get(partition)
        self._goals[partition] = goal if known is None else self.kind.both(known, goal)
        self.kind.waiting(partition)[self] = None

    def check(self, partition: P) -> None:
        """Check a partition that has changed, and wake if it was the last to wait for."""
        if self.is_done or partition in self.results:
            return
        result = self.kind.result(partition, self._goals[partition])
        if result is None:
            return
        self.results[partition] = result
        self.kind.waiting(partition).pop(self, None)
        if len(self.results) == len(self._goals):
            self.is_done = True
            self._wake()

    def expire(self) -> None:
        """End the wait at the client's timeout; partitions short of their goals get the result `late`."""
        if self.is_done:
            return
        self.cancel()
        for partition in self._goals:
            if partition not in self.results:
                self.results[partition] = self.kind.late(partition)
        self._wake()

    def cancel(self) -> None:
        """Stop waiting, without a wake: the request ends, or no client is left to answer."""
        self.is_done = True
        for partition in self._goals:
            self.kind.waiting(partition).pop(self, None)


def check_all(waiting: "Iterable[WaitsFor[C]]", partition: C) -> None:
    """Check every operation that waits for `partition`; a finished one removes itself."""
    for delayed in tuple(waiting):
        delayed.check(partition)
