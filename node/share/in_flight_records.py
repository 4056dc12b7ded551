"""The states of the records in flight of one share-partition, by ranges of offsets.

All offsets of a range have the same record state, delivery count, holder, time and transition. Ranges are
kept in parallel arrays and found by bisection. A range is cut when only a part of it moves, and merged with
its neighbours when they are alike. A range never extends beyond its *batch*, the offsets that were acquired
together when they were new: Kafka delivers and throttles by batches.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.node.share.record_state import MOVES, TAKEN_BACK_TO, TERMINAL, RecordState

AVAILABLE: Final = int(RecordState.AVAILABLE)
ACQUIRED: Final = int(RecordState.ACQUIRED)
WAITING: Final = int(RecordState.WAITING)
_WRITTEN_AS: Final = {int(RecordState.SPENT): int(RecordState.ARCHIVING)}
# The moves as pairs of numbers, which are looked up for every move.
_MAY_MOVE: Final = frozenset((int(old), int(new)) for old, following in MOVES.items() for new in following)
_TERMINAL_BYTES: Final = bytes(sorted(TERMINAL))
_JOINED_BYTES: Final = bytes(sorted({*TERMINAL, RecordState.WAITING}))
_NO_TRANSITION: Final = 0
_WRITTEN_TABLE: Final = bytes(_WRITTEN_AS.get(state, state) for state in range(256))


def written_state(state: int) -> int:
    """Return the delivery state as which this state is written to the coordinator."""
    return _WRITTEN_AS.get(state, state)


class InFlightRecords:
    """Ranges of offsets with their states, in order, in batches that may have gaps between them."""

    __slots__ = (
        "batch_firsts",
        "batch_lasts",
        "batches",
        "counts",
        "firsts",
        "holders",
        "joins_batches",
        "lasts",
        "offset_count",
        "states",
        "times_ms",
        "transitions",
    )

    def __init__(self) -> None:
        self.firsts = array("q")
        self.lasts = array("q")
        self.states = bytearray()
        self.counts = array("h")
        self.holders: list[str | None] = []  # members, while ACQUIRED or in a move that may be taken back
        self.times_ms = array("q")  # the end of a lock or of a wait; 0 for none
        self.transitions = array("q")  # the number of the transition that waits for the coordinator, or 0
        self.batches = array("q")  # the first offset of the batch
        self.batch_firsts = array("q")
        self.batch_lasts = array("q")
        self.offset_count = 0  # of all ranges together
        # True if neighbours that are done with, or wait until they are due, become one range and one batch:
        # such ranges stay for days, and a batch may be one record.
        self.joins_batches = False

    def __len__(self) -> int:
        return len(self.firsts)

    # ---- queries

    def index_at(self, offset: int) -> int:
        """Return the index of the first range that ends at this offset or after it."""
        return bisect_left(self.lasts, offset)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the indexes, from and to, of the ranges that overlap these offsets."""
        return bisect_left(self.lasts, first), bisect_right(self.firsts, last)

    def cuts(self, first: int, last: int) -> int:
        """Return the number of ranges that cutting out these offsets would add."""
        begin, end = self.span(first, last)
        if begin == end:
            return 0
        return (self.firsts[begin] < first) + (self.lasts[end - 1] > last)

    def count_offsets(self, begin: int, end: int) -> int:
        """Return the number of offsets in the ranges from `begin` to `end`."""
        return sum(self.lasts[begin:end]) - sum(self.firsts[begin:end]) + end - begin

    def floor_batch(self, offset: int) -> int:
        """Return the index of the last batch that begins at this offset or before it, or -1."""
        return bisect_right(self.batch_firsts, offset) - 1

    def written(self, first: int, last: int) -> Iterable[tuple[int, int, int, int]]:
        """Return first offset, last offset, written state and delivery count of these offsets' ranges."""
        begin, end = self.span(first, last)
        states = self.states[begin:end].translate(_WRITTEN_TABLE)
        return zip(self.firsts[begin:end], self.lasts[begin:end], states, self.counts[begin:end], strict=True)

    def next_available(self, index: int) -> int:
        """Return the index of the first range from this one on that may be acquired, -1 if there is none."""
        index = self.states.find(AVAILABLE, index)
        while index >= 0 and self.transitions[index]:
            index = self.states.find(AVAILABLE, index + 1)
        return index

    def first_available(self) -> int | None:
        """Return the first offset that may be acquired, None if there is none."""
        index = self.next_available(0)
        return self.firsts[index] if index >= 0 else None

    def leading_terminal(self) -> int:
        """Return the number of leading ranges that are done with, by moves that are final."""
        if not self.states or self.states[0] not in _TERMINAL_BYTES:
            return 0
        count = len(self.states) - len(self.states.lstrip(_TERMINAL_BYTES))
        if any(self.transitions[:count]):
            count = next(index for index, number in enumerate(self.transitions) if number)
        return count

    # ---- changes

    def add(
        self, first: int, last: int, *, state: int, count: int, holder: str | None = None, time_ms: int = 0
    ) -> None:
        """Add a batch as one range."""
        assert first <= last, (first, last)
        index = bisect_left(self.firsts, first)
        assert index == 0 or self.lasts[index - 1] < first, (first, last)
        assert index == len(self.firsts) or self.firsts[index] > last, (first, last)
        self._insert(index, (first, last, state, count, holder, time_ms, _NO_TRANSITION, first))
        self.offset_count += last - first + 1
        place = bisect_left(self.batch_firsts, first)
        self.batch_firsts.insert(place, first)
        self.batch_lasts.insert(place, last)

    def add_all(self, ranges: Sequence[tuple[int, int, int, int]]) -> None:
        """Add batches (first offset, last offset, state, delivery count), in order, while there are none."""
        assert not self.firsts, "there are records already"
        self.firsts.extend(one[0] for one in ranges)
        self.lasts.extend(one[1] for one in ranges)
        self.states.extend(one[2] for one in ranges)
        self.counts.extend(one[3] for one in ranges)
        nothing = bytes(8 * len(ranges))
        self.holders += [None] * len(ranges)
        self.times_ms.frombytes(nothing)
        self.transitions.frombytes(nothing)
        self.batches.extend(self.firsts)
        self.batch_firsts.extend(self.firsts)
        self.batch_lasts.extend(self.lasts)
        self.offset_count = self.count_offsets(0, len(self.firsts))

    def cut_out(self, first: int, last: int) -> tuple[int, int]:
        """Cut ranges so that some have exactly these offsets; return their indexes, from and to."""
        begin = self.cut(first)
        return begin, self.cut(last + 1)

    def cut(self, offset: int) -> int:
        """Cut the range that has this offset inside; return the index of the first range that begins there
        or after it.
        """
        index = bisect_left(self.lasts, offset)
        if index == len(self.firsts) or self.firsts[index] >= offset:
            return index
        rest = (
            *(offset, self.lasts[index], self.states[index], self.counts[index]),
            *(self.holders[index], self.times_ms[index], self.transitions[index], self.batches[index]),
        )
        self.lasts[index] = offset - 1
        self._insert(index + 1, rest)
        return index + 1

    def move(self, index: int, state: int, holder: str | None, time_ms: int) -> None:
        """Move a whole range to another state."""
        assert (self.states[index], state) in _MAY_MOVE, (self.describe(index), state)
        self.states[index] = state
        self.holders[index] = holder
        self.times_ms[index] = time_ms

    def begin_transition(self, index: int, state: int, number: int) -> None:
        """Move a whole range in a way that can be taken back: it keeps its holder and the end of its lock."""
        assert (self.states[index], state) in _MAY_MOVE, (self.describe(index), state)
        assert self.states[index] == ACQUIRED and not self.transitions[index], self.describe(index)
        self.states[index] = state
        self.transitions[index] = number

    def begin_transitions(self, index: int, firsts: Sequence[int], states: bytes, number: int) -> None:
        """Cut a whole range at these offsets, and move each part as `begin_transition` does.

        This handles all parts at once, since a member may acknowledge each of 500 records in another way.
        """
        assert firsts[0] == self.firsts[index], (self.describe(index), firsts[0])
        assert self.states[index] == ACQUIRED and not self.transitions[index], self.describe(index)
        assert all((ACQUIRED, state) in _MAY_MOVE for state in set(states)), (self.describe(index), states)
        parts, here = len(firsts), slice(index, index + 1)
        self.lasts[here] = array("q", [*(offset - 1 for offset in firsts[1:]), self.lasts[index]])
        self.firsts[here] = array("q", firsts)
        self.states[here] = states
        self.counts[here] = self.counts[here] * parts
        self.holders[here] = self.holders[here] * parts
        self.times_ms[here] = self.times_ms[here] * parts
        self.transitions[here] = array("q", [number]) * parts
        self.batches[here] = self.batches[here] * parts

    def take_back(self, index: int, state: int) -> None:
        """End a rejected transition in this state; the range keeps its holder."""
        assert self.transitions[index] and state in TAKEN_BACK_TO, (self.describe(index), state)
        self.states[index] = state
        self.transitions[index] = _NO_TRANSITION

    def merge(self, begin: int, end: int) -> None:
        """Merge the ranges from `begin` to `end`, and their neighbours, where they are alike."""
        for index in range(min(end, len(self.firsts) - 1), max(begin, 1) - 1, -1):
            if not self._has_equal_state(index - 1, index):
                continue
            if self.batches[index - 1] != self.batches[index]:
                if not self._may_join(index):
                    continue
                self._join_batches(index)
            self.lasts[index - 1] = self.lasts[index]
            self._delete(index, index + 1)

    def cut_batch(self, offset: int) -> None:
        """Begin a new batch at this offset, at which a range begins."""
        place, index = self.floor_batch(offset), self.index_at(offset)
        is_inside = place >= 0 and self.batch_firsts[place] < offset <= self.batch_lasts[place]
        if not is_inside or not index:
            return
        last = self.batch_lasts[place]
        self.batch_lasts[place] = offset - 1
        self.batch_firsts.insert(place + 1, offset)
        self.batch_lasts.insert(place + 1, last)
        while index < len(self.firsts) and self.firsts[index] <= last:
            self.batches[index] = offset
            index += 1

    def drop_front(self, count: int) -> None:
        """Remove the first ranges, and the batches that are empty then."""
        self.offset_count -= self.count_offsets(0, count)
        self._delete(0, count)
        gone = bisect_left(self.batch_firsts, self.batches[0]) if self.firsts else len(self.batch_firsts)
        del self.batch_firsts[:gone]
        del self.batch_lasts[:gone]

    def describe(self, index: int) -> str:
        """Return one range as text, for assertions."""
        state = RecordState(self.states[index]).name
        return (
            f"{self.firsts[index]}-{self.lasts[index]} {state} count {self.counts[index]} "
            f"until {self.times_ms[index]} transition {self.transitions[index]}"
        )

    def check_invariants(self) -> None:
        """Assert what holds for any ranges."""
        columns = (self.firsts, self.lasts, self.states, self.counts, self.holders, self.times_ms)
        assert len({len(column) for column in (*columns, self.transitions, self.batches)}) == 1
        before = -1
        for index, first in enumerate(self.firsts):
            words = self.describe(index)
            assert before < first <= self.lasts[index], words
            before = self.lasts[index]
            place = self.floor_batch(first)
            assert place >= 0 and self.batch_firsts[place] == self.batches[index], words
            assert self.lasts[index] <= self.batch_lasts[place], words
            is_held = self.states[index] == ACQUIRED
            assert not is_held or self.holders[index] is not None, words
            assert is_held or self.transitions[index] or self.holders[index] is None, words
            assert not is_held or self.times_ms[index] > 0, words
            assert not is_held or not self.transitions[index], words
        assert self.offset_count == self.count_offsets(0, len(self.firsts)), self.offset_count
        before = -1
        for first, last in zip(self.batch_firsts, self.batch_lasts, strict=True):
            assert before < first <= last, (first, last)
            before = last

    def _insert(self, index: int, values: tuple[int, int, int, int, str | None, int, int, int]) -> None:
        first, last, state, count, holder, time_ms, number, batch = values
        self.firsts.insert(index, first)
        self.lasts.insert(index, last)
        self.states.insert(index, state)
        self.counts.insert(index, count)
        self.holders.insert(index, holder)
        self.times_ms.insert(index, time_ms)
        self.transitions.insert(index, number)
        self.batches.insert(index, batch)

    def _delete(self, begin: int, end: int) -> None:
        del self.firsts[begin:end]
        del self.lasts[begin:end]
        del self.states[begin:end]
        del self.counts[begin:end]
        del self.holders[begin:end]
        del self.times_ms[begin:end]
        del self.transitions[begin:end]
        del self.batches[begin:end]

    def _has_equal_state(self, left: int, right: int) -> bool:
        return (
            self.states[left] == self.states[right]
            and self.counts[left] == self.counts[right]
            and self.transitions[left] == self.transitions[right]
            and self.times_ms[left] == self.times_ms[right]
            and self.holders[left] == self.holders[right]
            and self.lasts[left] + 1 == self.firsts[right]
        )

    def _may_join(self, index: int) -> bool:
        """Return True if a range may merge with a like one before it although their batches differ."""
        return (
            self.joins_batches
            and self.states[index] in _JOINED_BYTES
            and not self.times_ms[index]
            and not self.transitions[index]
        )

    def _join_batches(self, index: int) -> None:
        """Extend the batch of the previous range to the end of this range."""
        self.cut_batch(self.lasts[index] + 1)
        place = self.floor_batch(self.firsts[index])
        assert self.batch_firsts[place - 1] == self.batches[index - 1], self.describe(index)
        self.batch_lasts[place - 1] = self.lasts[index]
        del self.batch_firsts[place]
        del self.batch_lasts[place]
