"""The records in flight between the start and the end offset of a share-partition, and the moves of both.

All records before the start offset are done with; none after the end offset were fetched yet. While nothing
is in flight, both are the offset to fetch next; otherwise the end offset is the last one in flight. This is
as in Kafka, except that the start offset never moves back, and also passes records that were archived without
a write.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from ottla.groupcoord.share_state.share_state_words import StateBatch
from ottla.node.share.acquisition_locks import AcquisitionLocks
from ottla.node.share.delayed_index import DelayedIndex
from ottla.node.share.in_flight_records import ACQUIRED, AVAILABLE, WAITING, InFlightRecords
from ottla.node.share.record_state import SET_ASIDE, TERMINAL, RecordState
from ottla.node.share.share_words import MAX_DELIVERY_COUNT, ShareConfig

MAX_OFFSET: Final = 2**63 - 2
ARCHIVED: Final = int(RecordState.ARCHIVED)
ARCHIVING: Final = int(RecordState.ARCHIVING)
SPENT: Final = int(RecordState.SPENT)
# The states of a record that a coordinator may have.
_PERSISTED: Final = frozenset({AVAILABLE, ARCHIVING, *map(int, TERMINAL)})


@dataclass(slots=True)
class GapWindow:
    """The gaps in a state that was read: offsets that were in flight but have no written state.

    They are fetched again. The gap window is valid while the end offset is the one that was read.
    """

    end_offset: int
    gap_start_offset: int


class ShareWindow:
    """Start and end offset, and the records between them."""

    __slots__ = (
        "_find_available",
        "delayed",
        "delivery_complete_count",
        "end_offset",
        "gap",
        "highest_count",
        "locks",
        "records",
        "start_offset",
        "waiting_count",
    )

    def __init__(self) -> None:
        self.records = InFlightRecords()
        self.locks = AcquisitionLocks(self.records)
        self.start_offset = 0
        self.end_offset = 0
        self.gap: GapWindow | None = None
        self.delivery_complete_count = 0  # records from the start offset on that are done with
        self.waiting_count = 0
        self.delayed: DelayedIndex | None = None  # only for a topic that delays delivery
        self.highest_count = 0  # an upper bound of the delivery counts, also of past ones
        self._find_available = False  # a record in flight may be available

    # ---- the state that was read

    def restore(
        self, start_offset: int, batches: tuple[StateBatch, ...], set_aside_limit: int | None = None
    ) -> None:
        """Take over the state that a coordinator has; raise ValueError if it is not valid.

        Records in the state ARCHIVING still wait for their dead letters. The reason is not written, so it is
        the delivery limit if the delivery count has reached `set_aside_limit`. Without this limit there are
        no dead letters, and the records are archived.
        """
        if not 0 <= start_offset <= MAX_OFFSET:
            raise ValueError(f"the start offset {start_offset} is out of range")
        self.start_offset = self.end_offset = start_offset
        expected = start_offset
        gap_start = None
        found: list[tuple[int, int, int, int]] = []
        for first, last, state, count in sorted(batches):
            if not expected <= first <= last <= MAX_OFFSET:
                raise ValueError(f"records {first} to {last} follow, but {expected} or later was expected")
            if state not in _PERSISTED:
                raise ValueError(f"records {first} to {last} have the unknown delivery state {state}")
            if state == ARCHIVING and set_aside_limit is None:
                state = ARCHIVED
            elif state == ARCHIVING and set_aside_limit is not None and count >= set_aside_limit:
                state = SPENT
            if gap_start is None and first > expected:
                gap_start = expected
            expected = last + 1
            # One below the maximum of the int16 in messages, since the next delivery adds one.
            delivered = min(max(count, 0), MAX_DELIVERY_COUNT - 1)
            found.append((first, last, state, delivered))
            self.highest_count = max(self.highest_count, delivered + 1)
            if state in TERMINAL:
                self.delivery_complete_count += last - first + 1
        self.records.add_all(found)
        if self.records:
            self.end_offset = expected - 1
            self._find_available = True
            if self.records.joins_batches:
                self.records.merge(0, len(self.records))
            if gap_start is not None:
                self.gap = GapWindow(self.end_offset, gap_start)
            self.advance_start()

    # ---- the next fetch

    def next_fetch_offset(self) -> int:
        """Return the first offset that may be acquired: one in flight, or the next of the log."""
        records = self.records
        if not records or self.start_offset > records.lasts[-1]:
            self._find_available = False
            return self.end_offset
        if self._find_available:
            found = self._first_to_fetch()
            if found is not None:
                return found
            self._find_available = False
        return self.end_offset + 1

    def in_flight_count(self) -> int:
        """Return the number of records in flight, without those in the state WAITING.

        As in Kafka it includes records that are done with, and offsets that the log does not have. It does
        not in topics that delay delivery, where a delayed record may hold the start offset for days while
        records after it are delivered.
        """
        records = self.records
        if not records:
            return 0
        if self.delayed is None:
            return self.end_offset - self.start_offset + 1 - self.waiting_count
        _, end = records.span(0, self.start_offset - 1)
        below = records.count_offsets(0, end)  # members held these when the log lost them
        if end:
            below -= max(records.lasts[end - 1] - self.start_offset + 1, 0)
        return records.offset_count - below - self.waiting_count - self.delivery_complete_count

    def note_available(self) -> None:
        """Note that the next fetch may acquire records in flight."""
        self._find_available = True

    def is_gap_active(self) -> bool:
        """Return True if there may be gaps between the offsets in flight."""
        return self.gap is not None and self.gap.end_offset == self.end_offset

    def is_first(self, offset: int) -> bool:
        """Return True if no records are in flight between the start offset and this offset."""
        begin, end = self.records.span(self.start_offset, offset - 1)
        return begin >= end

    def note_acquired_before(self, offset: int) -> None:
        """Note that fetches have acquired everything before this offset, gaps included."""
        if self.gap is None:
            return
        if self.is_gap_active() and offset <= self.gap.end_offset:
            self.note_nothing_before(offset)
        else:
            self.gap = None

    def note_nothing_before(self, offset: int) -> None:
        """Note that the log has no records for the gaps before this offset."""
        if self.gap is not None and self.gap.gap_start_offset < offset:
            self.gap.gap_start_offset = offset

    def _first_to_fetch(self) -> int | None:
        available, gap = self.records.first_available(), self.next_gap()
        if available is None or gap is None:
            return gap if available is None else available
        return min(available, gap)

    def next_gap(self) -> int | None:
        """Return the first offset of the next gap; without one, end the gap window and return None."""
        if self.gap is None or not self.is_gap_active():
            return None
        records = self.records
        place = bisect_left(records.batch_lasts, self.gap.gap_start_offset)
        while place < len(records.batch_firsts) and records.batch_firsts[place] <= self.gap.gap_start_offset:
            self.gap.gap_start_offset = records.batch_lasts[place] + 1
            place += 1
        if self.gap.gap_start_offset > self.end_offset:
            self.gap = None
            return None
        return self.gap.gap_start_offset

    # ---- moves of one range

    def free(self, index: int, config: ShareConfig, now_ms: int) -> None:
        """Make a range available that a member held or is releasing, at once or after a back-off."""
        records = self.records
        backoff_ms = config.backoff_ms(records.counts[index])
        if backoff_ms:
            self.delay(index, now_ms + backoff_ms)
            return
        if records.states[index] != AVAILABLE:
            records.move(index, AVAILABLE, None, 0)
        else:
            records.holders[index], records.times_ms[index] = None, 0
        self._find_available = True

    def delay(self, index: int, time_ms: int) -> None:
        """Let a range wait until this time, or, if it is 0, until `delayed` says that it is due."""
        records = self.records
        records.move(index, WAITING, None, time_ms)
        self.waiting_count += records.lasts[index] - records.firsts[index] + 1
        if time_ms:
            self.locks.add(time_ms, records.firsts[index], records.lasts[index])

    def end_wait(self, index: int, state: int) -> None:
        """End the wait of a range: its time has come, or the log lost the records."""
        records = self.records
        assert records.states[index] == WAITING, records.describe(index)
        self.waiting_count -= records.lasts[index] - records.firsts[index] + 1
        records.move(index, state, None, 0)
        if state == AVAILABLE:
            self._find_available = True

    def offsets_from_start(self, index: int) -> int:
        """Return the number of offsets of a range from the start offset on."""
        return max(self.records.lasts[index] - max(self.start_offset, self.records.firsts[index]) + 1, 0)

    def archive(self, first: int, last: int, of_states: frozenset[int], *, is_counted: bool) -> bool:
        """Archive the records of this range that are in one of these states; return True if any are."""
        records = self.records
        begin, end = records.span(first, last)
        if begin == end or not any(state in of_states for state in records.states[begin:end]):
            return False
        begin, end = records.cut_out(first, last)
        for index in range(begin, end):
            if records.states[index] not in of_states:
                continue
            if records.states[index] == WAITING:
                self.end_wait(index, ARCHIVED)
            else:
                # A move that waits for the coordinator ends here, too: without a holder it is not taken back.
                records.move(index, ARCHIVED, None, 0)
            if is_counted:
                self.delivery_complete_count += self.offsets_from_start(index)
        records.merge(begin, end)
        return True

    # ---- the start offset

    def advance_start(self) -> bool:
        """Move the start offset past records that are done with, and drop them; return True if it moved."""
        records = self.records
        count = records.leading_terminal()
        gap = self.next_gap() if count else None
        if gap is not None:
            count = min(count, records.index_at(gap))
        if not count:
            return False
        before = self.start_offset
        if count == len(records):
            self.start_offset = max(before, records.lasts[-1] + 1)
            self.end_offset = self.start_offset
            self.delivery_complete_count = 0
        else:
            following = records.firsts[count]
            if gap is not None:
                following = min(following, gap)
            self.delivery_complete_count -= sum(map(self.offsets_from_start, range(count)))
            self.start_offset = max(before, following)
        records.drop_front(count)
        return self.start_offset != before

    def move_log_start(self, offset: int) -> bool:
        """Archive records lost by the log that no member holds; return True if the start offset moved."""
        if offset <= self.start_offset:
            return False
        offset = min(offset, MAX_OFFSET)
        self.note_nothing_before(offset)
        records = self.records
        if not records:
            self.start_offset = self.end_offset = offset
            self.delivery_complete_count = 0
            return True
        _, end = records.span(self.start_offset, offset - 1)
        done = 0
        for index in range(end):
            if records.states[index] in TERMINAL:
                reach = min(records.lasts[index], offset - 1)
                done += max(reach - max(records.firsts[index], self.start_offset) + 1, 0)
        if self.archive(self.start_offset, offset - 1, _UNHELD, is_counted=False):
            self._find_available = True
        self.start_offset = offset
        self.delivery_complete_count -= done
        self.end_offset = max(self.end_offset, offset)
        self.advance_start()
        return True

    def check_invariants(self) -> None:
        """Assert the invariants of any share-partition."""
        records = self.records
        records.check_invariants()
        self.locks.check_invariants()
        assert 0 <= self.start_offset <= self.end_offset, (self.start_offset, self.end_offset)
        assert not records or records.lasts[-1] <= self.end_offset, (records.lasts[-1], self.end_offset)
        assert records or self.start_offset == self.end_offset, (self.start_offset, self.end_offset)
        terminal = [index for index, state in enumerate(records.states) if state in TERMINAL]
        assert self.delivery_complete_count == sum(map(self.offsets_from_start, terminal)), (
            self.delivery_complete_count
        )
        waiting = [index for index, state in enumerate(records.states) if state == WAITING]
        sizes = [records.lasts[index] - records.firsts[index] + 1 for index in waiting]
        assert self.waiting_count == sum(sizes), self.waiting_count
        assert max(records.counts, default=0) <= self.highest_count, self.highest_count
        held_below = [ACQUIRED, *map(int, TERMINAL | SET_ASIDE)]
        for index in range(records.span(0, self.start_offset - 1)[1]):
            is_below = records.lasts[index] < self.start_offset
            assert not is_below or records.states[index] in held_below or records.transitions[index], (
                records.describe(index)
            )
        if not self._find_available:
            assert records.first_available() is None, "an available record would never be fetched"


_UNHELD: Final = frozenset({AVAILABLE, WAITING})
