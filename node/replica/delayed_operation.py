"""A request at rest until each partition that it names has come to what the request waits for, or its time is
over (Kafka's DelayedOperation).

Each partition waits on its own; the answer leaves when the last one has come to it.
"""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

P = TypeVar("P")  # the partition
G = TypeVar("G")  # what it has to come to
R = TypeVar("R")  # how its part of the request ended


C = TypeVar("C", contravariant=True)


class WaitsFor(Protocol[C]):
    def check(self, partition: C) -> None:
        """The partition has changed."""
        ...


class Kind(NamedTuple, Generic[P, G, R]):
    """The functions by which one kind of operation differs from others."""

    # Those of this kind that wait for a partition, in the order in which they came.
    waiting: "Callable[[P], dict[DelayedOperation[P, G, R], None]]"
    # How the part of a partition ended; None: wait.
    result: Callable[[P, G], R | None]
    # What is said of a partition when the time is over before it came to its goal.
    late: Callable[[P], R]
    # The goal of a partition that is watched twice, from the first one and the last.
    both: Callable[[G, G], G]


class DelayedOperation(Generic[P, G, R]):
    """One waiting request; `results` has every partition once `wake` was called."""

    __slots__ = ("_goals", "_wake", "is_done", "kind", "results")

    def __init__(self, kind: Kind[P, G, R], *, wake: Callable[[], None]) -> None:
        self.kind = kind
        self._wake = wake
        self._goals: dict[P, G] = {}
        self.results: dict[P, R] = {}
        self.is_done = False

    def watch(self, partition: P, goal: G) -> None:
        """Wait until `partition` has come to `goal`."""
        known = self._goals.get(partition)
        self._goals[partition] = goal if known is None else self.kind.both(known, goal)
        self.kind.waiting(partition)[self] = None

    def check(self, partition: P) -> None:
        """The partition has changed: wake if that was the last one."""
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
        """The client's timeout is over: what has not come to its goal by now says so."""
        if self.is_done:
            return
        self.cancel()
        for partition in self._goals:
            if partition not in self.results:
                self.results[partition] = self.kind.late(partition)
        self._wake()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.is_done = True
        for partition in self._goals:
            self.kind.waiting(partition).pop(self, None)


def check_all(waiting: "Iterable[WaitsFor[C]]", partition: C) -> None:
    """Ask every request that waits for `partition` whether it is done now; one that is takes itself out."""
    for delayed in tuple(waiting):
        delayed.check(partition)
