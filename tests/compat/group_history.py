"""A history of the events that the members of one group report, with checks of the rules of groups.

- Every record is consumed at least once, and exactly once while no member is killed and members leave in
  order.
- A member is the only owner of a partition from its assignment until it is revoked or lost, or the member is
  dead.
- In one generation (member epoch, in the consumer protocol) only one living member reads a partition. A
  coordinator that fails before its members have synced uses the number of the generation again; so a member
  that lost the partition before another one read it belongs to the earlier generation of that number.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TIMEOUT_S = 90.0  # on a loaded machine everything but a wrong answer may take its time
NO_GENERATION = -1  # of a client that left its group: it polls records fetched before, and cannot commit


@dataclass(slots=True)
class Ownership:
    """The time for which a member had a partition, in ms of the monotonic clock.

    It has no end while the member still has the partition.
    """

    member: str
    partition: str
    begin_ms: int
    end_ms: int | None = None


class Shared(NamedTuple):
    """A partition that a member read in a generation in which the living member `before` had read it."""

    partition: str
    generation: int
    member: str
    before: str
    at_ms: int


@dataclass(slots=True)
class GroupHistory:
    """The events of the members of one group, from all processes that run them."""

    name: str = ""
    polled: Counter[str] = field(default_factory=Counter)  # values
    owned: dict[str, set[str]] = field(default_factory=dict)  # of living members
    ownerships: list[Ownership] = field(default_factory=list)
    readers: dict[tuple[str, int], set[str]] = field(default_factory=dict)  # of a partition in a generation
    shared: list[Shared] = field(default_factory=list)  # partitions with two living readers in a generation
    rebalances: Counter[str] = field(
        default_factory=Counter
    )  # the number of assignments of each member, empty ones included
    failures: list[str] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    lock: threading.Condition = field(default_factory=threading.Condition)

    def note(self, report: dict[str, Any]) -> None:
        member, event = report["member"], report["event"]
        with self.lock:
            match event:
                case "started":
                    self.owned[member] = set()
                case "assigned":
                    self.rebalances[member] += 1
                    self.owned[member] |= set(report["partitions"])
                    self.ownerships += [Ownership(member, one, report["at"]) for one in report["partitions"]]
                case "revoked" | "lost":
                    self._end(member, set(report["partitions"]), report["at"])
                case "polled":
                    self.polled.update(value for _, _, value in report["records"])
                    for partition in {one[0] for one in report["records"]}:
                        self._read(member, partition, report["generation"], report["at"])
                case "closed":
                    self._end(member, set(self.owned.pop(member)), report["at"])
                    self.closed.add(member)
                case "failed":
                    self.failures.append(f"{member}: {report['error']}")
                case _:
                    self.failures.append(f"{member} reported {report}")
            self.lock.notify_all()

    def _read(self, member: str, partition: str, generation: int, at_ms: int) -> None:
        if generation == NO_GENERATION:
            return
        readers = self.readers.setdefault((partition, generation), set())
        living = {one for one in readers if one in self.owned} - {member}
        self.shared += [Shared(partition, generation, member, other, at_ms) for other in sorted(living)]
        readers.add(member)

    def _had_given_up(self, shared: Shared) -> bool:
        """Return True if the earlier reader had lost the partition by then, or it had been revoked."""
        ends = [
            one.end_ms
            for one in self.ownerships
            if (one.member, one.partition) == (shared.before, shared.partition)
            and one.begin_ms <= shared.at_ms
        ]
        return bool(ends) and all(end_ms is not None and end_ms <= shared.at_ms for end_ms in ends)

    def crashed(self, members: Sequence[str]) -> None:
        """Note that these members were killed: their partitions have no owner."""
        with self.lock:
            for member in members:
                if member in self.owned:
                    self._end(member, set(self.owned.pop(member)), int(time.monotonic() * 1000))

    def _end(self, member: str, partitions: set[str], at_ms: int) -> None:
        self.owned.get(member, set()).difference_update(partitions)
        for one in self.ownerships:
            if one.member == member and one.partition in partitions and one.end_ms is None:
                one.end_ms = at_ms

    def wait(
        self, holds: Callable[["GroupHistory"], bool], condition: str, seconds: float = TIMEOUT_S
    ) -> None:
        """Wait until `holds` is true of the history; fail as soon as a member reports an error."""
        with self.lock:
            is_so = self.lock.wait_for(lambda: bool(self.failures) or holds(self), seconds)
            assert not self.failures, self.failures
            assert is_so, (
                f"{self.name} not within {seconds:g} s: {condition}; owned {self.owned}, "
                f"{len(self.polled)} values"
            )

    def wait_for_shares(self, shares: Sequence[int], *, of: int) -> None:
        """Wait until the members own these numbers of partitions, in any order, `of` in total."""

        def holds(history: GroupHistory) -> bool:
            owned = list(history.owned.values())
            return sorted(map(len, owned)) == sorted(shares) and len(set().union(*owned)) == of

        self.wait(holds, f"shares of {sorted(shares)}")

    def wait_for_all(self, sent: Collection[str]) -> None:
        """Wait until every record has been consumed at least once."""
        self.wait(
            lambda history: history.polled.keys() >= set(sent), f"all of {len(sent)} records are consumed"
        )

    def check_exactly_once(self, sent: Collection[str]) -> None:
        doubled = {value: count for value, count in self.polled.items() if count > 1}
        assert self.polled.keys() == set(sent) and not doubled, (self.name, doubled)

    def check_no_partition_was_owned_twice(self) -> None:
        by_partition: dict[str, list[Ownership]] = {}
        for one in sorted(self.ownerships, key=lambda one: one.begin_ms):
            before = by_partition.setdefault(one.partition, [])
            if before:
                end_ms = before[-1].end_ms
                assert end_ms is not None and end_ms <= one.begin_ms, (self.name, before[-1], one)
            before.append(one)

    def check_no_partition_had_two_readers(self) -> None:
        # Only now have all reports arrived: that of a partition lost may come after that of its next reader.
        shared = [one for one in self.shared if not self._had_given_up(one)]
        assert not shared, (self.name, shared)
