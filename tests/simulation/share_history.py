"""What the members of a share group asked for and were told, and whether that fits together.

A record has come to its end when somebody who was given it asked to accept or to reject it, or was given it
for the last time that there may be. At the end of a run every record has that is still there; and what was
answered is written.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from tests.share_watch import ShareWatch
from tests.simulation.virtual_loop import SimulationError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
ENDS: Final = frozenset({ACCEPT, REJECT})
NEWEST: Final = 20  # records of each partition that were given last
_NOTHING: Final[frozenset[int]] = frozenset()


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
        self._newest: dict[TopicPartition, deque[tuple[str, int]]] = {}

    # ---- what members say

    def asks(self, member: str, partition: TopicPartition, first: int, types: Iterable[int]) -> None:
        """Before an acknowledgement leaves: one type for each offset from the first one on."""
        for offset, kind in enumerate(types, first):
            self._asked.setdefault((member, partition, offset), set()).add(kind)
            if kind in ENDS and (member, partition, offset) in self._given:
                self._ended.setdefault(partition, set()).add(offset)

    def asked_by(self, member: str, partition: TopicPartition, offset: int) -> "set[int] | frozenset[int]":
        """Return what this member has ever asked for."""
        return self._asked.get((member, partition, offset), _NOTHING)

    # ---- what leaders do

    def gives(
        self, member: str, partition: TopicPartition, offset: int, count: int, *, is_last: bool
    ) -> None:
        """A leader gives a record to a member."""
        self._given[member, partition, offset] = count
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

    def start_offset(self, partition: TopicPartition, offset: int, *, at_least: int) -> None:
        """A client was told where the group is; `at_least` was told before it asked."""
        if offset < at_least:
            raise SimulationError(
                f"{self.group} starts at {offset} in {partition}, and was at {at_least} before"
            )
        self._start_offsets[partition] = max(offset, self.start_of(partition))

    def start_of(self, partition: TopicPartition) -> int:
        """The highest start offset that was told."""
        return self._start_offsets.get(partition, -1)

    # ---- the end

    def check_end(self, partition: TopicPartition, values: Mapping[int, bytes]) -> None:
        """All records that are left have come to an end; `values` are those that the group may see."""
        watch = ShareWatch(lock_duration_ms=1, delivery_count_limit=1)
        for offset in self._ended.get(partition, ()):
            watch.done(offset, offset)
        try:
            watch.none_lost(values)
        except AssertionError as error:
            raise SimulationError(f"{self.group} in {partition}: {error}") from error
