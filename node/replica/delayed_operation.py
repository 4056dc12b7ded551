"""A request at rest until each partition that it names has come to what the request waits for, or its time is
over (Kafka's DelayedOperation).

Each partition waits on its own; the answer leaves when the last one has come to it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, Self, TypeVar

P = TypeVar("P")  # the partition
G = TypeVar("G")  # what it has to come to
R = TypeVar("R")  # how its part of the request ended


C = TypeVar("C", contravariant=True)


class WaitsFor(Protocol[C]):
    def check(self, partition: C) -> None:
        """The partition has changed."""
        ...


class DelayedOperation(ABC, Generic[P, G, R]):
    """One waiting request; `results` has every partition once `wake` was called."""

    __slots__ = ("_goals", "_wake", "is_done", "results")

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._goals: dict[P, G] = {}
        self.results: dict[P, R] = {}
        self.is_done = False

    def watch(self, partition: P, goal: G) -> None:
        """Wait until `partition` has come to `goal`."""
        self._goals[partition] = goal
        self._waiting(partition)[self] = None

    def check(self, partition: P) -> None:
        """The partition has changed: wake if that was the last one."""
        if self.is_done or partition in self.results:
            return
        result = self._result(partition, self._goals[partition])
        if result is None:
            return
        self.results[partition] = result
        self._waiting(partition).pop(self, None)
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
                self.results[partition] = self._late(partition)
        self._wake()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.is_done = True
        for partition in self._goals:
            self._waiting(partition).pop(self, None)

    @abstractmethod
    def _waiting(self, partition: P) -> dict[Self, None]:
        """Those of this kind that wait for `partition`, in the order in which they came."""

    @abstractmethod
    def _result(self, partition: P, goal: G) -> R | None:
        """How it ended; None: wait."""

    @abstractmethod
    def _late(self, partition: P) -> R:
        """What is said when the time is over before it ended."""


def check_all(waiting: "Iterable[WaitsFor[C]]", partition: C) -> None:
    """Ask every request that waits for `partition` whether it is done now; one that is takes itself out."""
    for delayed in tuple(waiting):
        delayed.check(partition)
