"""What the members of a share group asked for and were told, and whether that fits together.

A record has come to its end when somebody who was given it asked to accept or to reject it, or was given it
for the last time that there may be. At the end of a run every record has that is still there; and what was
answered is written.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from tests.share_watch import ShareWatch
from tests.simulation.virtual_loop import SimulationError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
ENDS: Final = frozenset({ACCEPT, REJECT})
NEWEST: Final = 20  # records of each partition that were given last
_NOTHING: Final[frozenset[int]] = frozenset()


class Mark(NamedTuple):
    """The highest start offset that was told, and since how many resets."""

    offset: int
    generation: int


@dataclass(slots=True)
class Resets:
    """What became of the resets of a partition."""

    generation: int = 0  # that were answered, or may have been carried out
    is_pending: bool = False  # one was asked for
    is_in_doubt: bool = False  # one was never answered
    start_offset: int = 0  # what is before it need not come to an end
    in_doubt_to: int = 0  # the same, by those in doubt


class ShareHistory:
    """Of one group."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.delivered = 0  # records that members were given
        self.answered = 0  # of which it was answered that they are done with
        self._asked: dict[tuple[str, TopicPartition, int], set[int]] = {}
        self._given: dict[tuple[str, TopicPartition, int], int] = {}  # the highest delivery count
        self._ended: dict[TopicPartition, set[int]] = {}
        self._start_offsets: dict[TopicPartition, int] = {}
        self._resets: dict[TopicPartition, Resets] = {}
        self._given_ms: dict[tuple[str, TopicPartition, int, int], int] = {}  # by the leader's wall clock
        self._spent: set[tuple[TopicPartition, int]] = set()  # delivered as often as they may be
        self._asked_kinds: set[tuple[TopicPartition, int, int]] = set()
        self._accepted: set[tuple[TopicPartition, int]] = set()  # as is written
        self._owed_letters: dict[TopicPartition, set[int]] = {}
        self._given_up: set[tuple[TopicPartition, int]] = set()
        self._newest: dict[TopicPartition, deque[tuple[str, int]]] = {}

    # ---- what members say

    def asks(self, member: str, partition: TopicPartition, first: int, types: Iterable[int]) -> None:
        """Before an acknowledgement leaves: one type for each offset from the first one on."""
        for offset, kind in enumerate(types, first):
            self._asked.setdefault((member, partition, offset), set()).add(kind)
            self._asked_kinds.add((partition, offset, kind))
            if kind in ENDS and (member, partition, offset) in self._given:
                self._ended.setdefault(partition, set()).add(offset)

    def asked_by(self, member: str, partition: TopicPartition, offset: int) -> "set[int] | frozenset[int]":
        """Return what this member has ever asked for."""
        return self._asked.get((member, partition, offset), _NOTHING)

    def was_asked(self, partition: TopicPartition, offset: int, kind: int) -> bool:
        """Return whether any member has ever asked for this."""
        return (partition, offset, kind) in self._asked_kinds

    # ---- what leaders do

    def gives(
        self,
        member: str,
        partition: TopicPartition,
        offset: int,
        count: int,
        *,
        is_last: bool,
        wall_ms: int = 0,
    ) -> None:
        """A leader gives a record to a member, when it is not later than this by its own clock."""
        self._given[member, partition, offset] = count
        key = member, partition, offset, count
        self._given_ms[key] = max(wall_ms, self._given_ms.get(key, 0))
        if is_last:
            self._spent.add((partition, offset))
        self._newest.setdefault(partition, deque(maxlen=NEWEST)).append((member, offset))
        if is_last:
            self._ended.setdefault(partition, set()).add(offset)

    def given_to_others(self, member: str, partition: TopicPartition) -> list[int]:
        """Return some of what others were given last."""
        return [offset for other, offset in self._newest.get(partition, ()) if other != member]

    # ---- what members hear

    def hears_of(self, member: str, partition: TopicPartition, offset: int, count: int) -> None:
        """A member is told that it has a record."""
        self.delivered += 1
        given = self._given.get((member, partition, offset), 0)
        if not 1 <= count <= given:
            raise SimulationError(
                f"{member} is told that it has {offset} of {partition} by delivery {count},"
                f" and leaders gave it by delivery {given}"
            )

    def has_due(self, member: str, partition: TopicPartition, offset: int, count: int, due_ms: int) -> None:
        """A member sees when the record that it has was due."""
        given_ms = self._given_ms.get((member, partition, offset, count), 0)
        if given_ms < due_ms:
            raise SimulationError(
                f"{member} has {offset} of {partition} by delivery {count}, which is due"
                f" {due_ms - given_ms} ms after a leader gave it"
            )

    def start_offset(self, partition: TopicPartition, offset: int, *, at_least: Mark) -> None:
        """A client was told where the group is; `at_least` was told before it asked."""
        resets = self.resets_of(partition)
        if resets.is_pending or resets.is_in_doubt or resets.generation != at_least.generation:
            return  # it may be of before the group was given another start, or of after it
        if offset < at_least.offset:
            raise SimulationError(
                f"{self.group} starts at {offset} in {partition}, and was at {at_least.offset} before"
            )
        self._start_offsets[partition] = max(offset, self.start_of(partition).offset)

    def start_of(self, partition: TopicPartition) -> Mark:
        """The highest start offset that was told."""
        return Mark(self._start_offsets.get(partition, -1), self.generation_of(partition))

    # ---- dead letters

    def rejected(self, partition: TopicPartition, offset: int, generation: int) -> None:
        """A member was answered that a record is rejected, which it asked for in a generation."""
        if generation == self.generation_of(partition):
            self._owed_letters.setdefault(partition, set()).add(offset)

    def has_letter(self, partition: TopicPartition, offset: int) -> None:
        """A leader has archived a record, as its letter is written."""
        self._owed_letters.setdefault(partition, set()).add(offset)

    def has_no_letter(self, partition: TopicPartition, offset: int) -> None:
        """A leader has archived a record, and could not write its letter."""
        self._given_up.add((partition, offset))

    def accepted(self, partition: TopicPartition, offset: int) -> None:
        """It is written that a record is accepted."""
        self._accepted.add((partition, offset))

    def owed_letters(self, partition: TopicPartition) -> set[int]:
        """Return the records that must have a letter."""
        if self.resets_of(partition).is_in_doubt:
            return set()
        # A word on what somebody else has accepted meanwhile is answered as if it counted.
        without = self._given_up | self._accepted
        return {at for at in self._owed_letters.get(partition, ()) if (partition, at) not in without}

    def was_spent(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether somebody was given the record for the last time that there may be."""
        return (partition, offset) in self._spent

    def is_accepted(self, partition: TopicPartition, offset: int) -> bool:
        return (partition, offset) in self._accepted

    # ---- the state begins anew

    def resets_of(self, partition: TopicPartition) -> Resets:
        return self._resets.setdefault(partition, Resets())

    def generation_of(self, partition: TopicPartition) -> int:
        """Return how often the state may have begun anew."""
        return self.resets_of(partition).generation

    def reset_asked(self, partition: TopicPartition) -> None:
        """Before a request leaves that gives the group another start, or none."""
        self.resets_of(partition).is_pending = True

    def reset_refused(self, partition: TopicPartition) -> None:
        """It is sure that nothing was done."""
        self.resets_of(partition).is_pending = False

    def reset_in_doubt(self, partition: TopicPartition, start_offset: int) -> None:
        """Nobody knows whether it was done, or will be."""
        resets = self.resets_of(partition)
        resets.is_pending, resets.is_in_doubt = False, True
        resets.generation += 1
        resets.in_doubt_to = max(resets.in_doubt_to, start_offset)

    def reset_answered(self, partition: TopicPartition, start_offset: int) -> None:
        """The group starts there now, or further on where the log does."""
        resets = self.resets_of(partition)
        resets.is_pending = False
        resets.generation += 1
        resets.start_offset = start_offset
        self._start_offsets.pop(partition, None)
        self._owed_letters.pop(partition, None)
        if not resets.is_in_doubt:
            self._ended.pop(partition, None)

    # ---- the end

    def has_ended(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether a record has come to its end since the state began."""
        return offset in self._ended.get(partition, ())

    def check_end(self, partition: TopicPartition, values: Mapping[int, bytes]) -> None:
        """All records that are left have come to an end; `values` are those that the group may see."""
        resets = self.resets_of(partition)
        start_offset = max(resets.start_offset, resets.in_doubt_to)
        watch = ShareWatch(lock_duration_ms=1, delivery_count_limit=1)
        for offset in self._ended.get(partition, ()):
            watch.done(offset, offset)
        try:
            watch.none_lost(offset for offset in values if offset >= start_offset)
        except AssertionError as error:
            raise SimulationError(f"{self.group} in {partition}: {error}") from error
