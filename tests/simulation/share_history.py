"""The history of a share group's members, with the checks that the answers are consistent.

A record is finished when a member that received it sent a request to accept or to reject it, or when it was
delivered for the last possible time. At the end of a run every record that still exists must be finished, and
what was answered must be written.
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
NEWEST: Final = 20  # records of each partition, those delivered last
_NOTHING: Final[frozenset[int]] = frozenset()


class KnownStart(NamedTuple):
    """The highest start offset that was answered, with the number of resets before it."""

    offset: int
    generation: int


@dataclass(slots=True)
class Resets:
    """The resets of the group in one partition."""

    generation: int = 0  # answered, or perhaps carried out
    is_pending: bool = False  # one is under way
    is_in_doubt: bool = False  # one was never answered
    start_offset: int = 0  # records before it need not be finished
    in_doubt_to: int = 0  # likewise, by the resets in doubt


class ShareHistory:
    """The history of one group."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.delivered = 0  # records that members received
        self.answered = 0  # records that members were answered as finished
        self._sent_types: dict[tuple[str, TopicPartition, int], set[int]] = {}
        self._delivery_counts: dict[tuple[str, TopicPartition, int], int] = {}  # the highest delivery count
        self._ended: dict[TopicPartition, set[int]] = {}
        self._start_offsets: dict[TopicPartition, int] = {}
        self._resets: dict[TopicPartition, Resets] = {}
        self._delivered_ms: dict[tuple[str, TopicPartition, int, int], int] = {}  # by the leader's wall clock
        self._last_deliveries: set[tuple[TopicPartition, int]] = set()  # delivered as often as possible
        self._sent_by_any: set[tuple[TopicPartition, int, int]] = set()
        self._accepted: set[tuple[TopicPartition, int]] = set()  # as written
        self._owed_letters: dict[TopicPartition, set[int]] = {}
        self._without_letter: set[tuple[TopicPartition, int]] = set()
        self._newest: dict[TopicPartition, deque[tuple[str, int]]] = {}

    # ---- requests of members

    def note_acknowledgement(
        self, member: str, partition: TopicPartition, first: int, types: Iterable[int]
    ) -> None:
        """Note an acknowledgement before it is sent: one type for each offset from `first` on."""
        for offset, kind in enumerate(types, first):
            self._sent_types.setdefault((member, partition, offset), set()).add(kind)
            self._sent_by_any.add((partition, offset, kind))
            if kind in ENDS and (member, partition, offset) in self._delivery_counts:
                self._ended.setdefault(partition, set()).add(offset)

    def types_sent_by(
        self, member: str, partition: TopicPartition, offset: int
    ) -> "set[int] | frozenset[int]":
        """Return all acknowledgement types that this member ever sent for a record."""
        return self._sent_types.get((member, partition, offset), _NOTHING)

    def was_sent(self, partition: TopicPartition, offset: int, kind: int) -> bool:
        """Return True if any member ever sent this acknowledgement type for a record."""
        return (partition, offset, kind) in self._sent_by_any

    # ---- leaders

    def note_delivery(
        self,
        member: str,
        partition: TopicPartition,
        offset: int,
        count: int,
        *,
        is_last: bool,
        wall_ms: int = 0,
    ) -> None:
        """Note a delivery by a leader; `wall_ms` is the latest time that its clock can have shown."""
        self._delivery_counts[member, partition, offset] = count
        key = member, partition, offset, count
        self._delivered_ms[key] = max(wall_ms, self._delivered_ms.get(key, 0))
        if is_last:
            self._last_deliveries.add((partition, offset))
        self._newest.setdefault(partition, deque(maxlen=NEWEST)).append((member, offset))
        if is_last:
            self._ended.setdefault(partition, set()).add(offset)

    def delivered_to_others(self, member: str, partition: TopicPartition) -> list[int]:
        """Return some of the records that were last delivered to other members."""
        return [offset for other, offset in self._newest.get(partition, ()) if other != member]

    # ---- answers to members

    def check_received(self, member: str, partition: TopicPartition, offset: int, count: int) -> None:
        """Check that a leader delivered a record that a member received."""
        self.delivered += 1
        known = self._delivery_counts.get((member, partition, offset), 0)
        if not 1 <= count <= known:
            raise SimulationError(
                f"{member} received {offset} of {partition} with delivery count {count},"
                f" and the leaders' count is {known}"
            )

    def check_due(self, member: str, partition: TopicPartition, offset: int, count: int, due_ms: int) -> None:
        """Check that a record was due when it was delivered."""
        delivered_ms = self._delivered_ms.get((member, partition, offset, count), 0)
        if delivered_ms < due_ms:
            raise SimulationError(
                f"{member} received {offset} of {partition} with delivery count {count},"
                f" {due_ms - delivered_ms} ms before it was due"
            )

    def note_start_offset(self, partition: TopicPartition, offset: int, *, at_least: KnownStart) -> None:
        """Note and check the group's start offset; `at_least` was known before the request."""
        resets = self.resets_of(partition)
        if resets.is_pending or resets.is_in_doubt or resets.generation != at_least.generation:
            return  # it may date from before or after a reset
        if offset < at_least.offset:
            raise SimulationError(
                f"{self.group} starts at {offset} in {partition}, and was at {at_least.offset} before"
            )
        self._start_offsets[partition] = max(offset, self.start_of(partition).offset)

    def start_of(self, partition: TopicPartition) -> KnownStart:
        """Return the highest start offset that was answered."""
        return KnownStart(self._start_offsets.get(partition, -1), self.generation_of(partition))

    # ---- dead letters

    def note_rejected(self, partition: TopicPartition, offset: int, generation: int) -> None:
        """Note an answered rejection, which a member sent in this generation."""
        if generation == self.generation_of(partition):
            self._owed_letters.setdefault(partition, set()).add(offset)

    def note_letter(self, partition: TopicPartition, offset: int) -> None:
        """Note a record that a leader archived when its dead letter was written."""
        self._owed_letters.setdefault(partition, set()).add(offset)

    def note_letter_failed(self, partition: TopicPartition, offset: int) -> None:
        """Note a record that a leader archived because its dead letter could not be written."""
        self._without_letter.add((partition, offset))

    def note_accepted(self, partition: TopicPartition, offset: int) -> None:
        """Note a record whose acceptance is written."""
        self._accepted.add((partition, offset))

    def owed_letters(self, partition: TopicPartition) -> set[int]:
        """Return the records that must have a dead letter."""
        if self.resets_of(partition).is_in_doubt:
            return set()
        # The rejection of a record that another member has accepted meanwhile is answered as if it counted.
        without = self._without_letter | self._accepted
        return {at for at in self._owed_letters.get(partition, ()) if (partition, at) not in without}

    def was_last_delivery(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if the record was delivered for the last possible time."""
        return (partition, offset) in self._last_deliveries

    def is_accepted(self, partition: TopicPartition, offset: int) -> bool:
        return (partition, offset) in self._accepted

    # ---- resets

    def resets_of(self, partition: TopicPartition) -> Resets:
        return self._resets.setdefault(partition, Resets())

    def generation_of(self, partition: TopicPartition) -> int:
        """Return how often the state may have been reset."""
        return self.resets_of(partition).generation

    def reset_requested(self, partition: TopicPartition) -> None:
        """Note a request that resets the start offset, or deletes it, before it is sent."""
        self.resets_of(partition).is_pending = True

    def reset_rejected(self, partition: TopicPartition) -> None:
        """Note a reset that was rejected."""
        self.resets_of(partition).is_pending = False

    def reset_in_doubt(self, partition: TopicPartition, start_offset: int) -> None:
        """Note a reset without an answer, which may or may not take effect, also later."""
        resets = self.resets_of(partition)
        resets.is_pending, resets.is_in_doubt = False, True
        resets.generation += 1
        resets.in_doubt_to = max(resets.in_doubt_to, start_offset)

    def reset_answered(self, partition: TopicPartition, start_offset: int) -> None:
        """Note a reset: the group now starts at this offset, or at the log start offset if that is higher."""
        resets = self.resets_of(partition)
        resets.is_pending = False
        resets.generation += 1
        resets.start_offset = start_offset
        self._start_offsets.pop(partition, None)
        self._owed_letters.pop(partition, None)
        if not resets.is_in_doubt:
            self._ended.pop(partition, None)

    # ---- end

    def has_ended(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if the record was finished since the last reset."""
        return offset in self._ended.get(partition, ())

    def check_end(self, partition: TopicPartition, values: Mapping[int, bytes]) -> None:
        """Check that all records that are left are finished; `values` are those that the group may see."""
        resets = self.resets_of(partition)
        start_offset = max(resets.start_offset, resets.in_doubt_to)
        watch = ShareWatch(lock_duration_ms=1, delivery_count_limit=1)
        for offset in self._ended.get(partition, ()):
            watch.done(offset, offset)
        try:
            watch.none_lost(offset for offset in values if offset >= start_offset)
        except AssertionError as error:
            raise SimulationError(f"{self.group} in {partition}: {error}") from error
