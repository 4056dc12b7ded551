"""One partition as one share group reads it, at the partition's leader (KIP-932).

It is pure: batches that were read come in, states to write go out, and the time is an argument. As in Kafka,
a member's acknowledgement is visible at once. It is final when the share coordinator has written it
(`persisted`), and is taken back otherwise (`failed`). The end of a lock is written as well, but never taken
back.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from ottla.groupcoord.share_state.share_state_words import (
    NOT_GIVEN,
    SharePartitionKey,
    StateBatch,
    StateRead,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share.acknowledge_records import (
    TYPES_PER_STEP,
    Moves,
    acknowledge_piece,
    pieces_of,
)
from ottla.node.share.acquire_records import Acquisition, acquire
from ottla.node.share.dead_letters import DeadLetters, Note, encode_note, read_note
from ottla.node.share.delayed_delivery import (
    begin_delays,
    begins_with_delayed,
    check_delays,
    end_delays,
    free_due,
    is_stopped,
    may_take_new,
    next_due_ms,
)
from ottla.node.share.in_flight_records import ACQUIRED
from ottla.node.share.record_state import SET_ASIDE
from ottla.node.share.release_records import complete, expire, release_all, take_back
from ottla.node.share.set_aside import find_set_aside, mark_archived
from ottla.node.share.share_window import ARCHIVED, ARCHIVING, ShareWindow
from ottla.node.share.share_words import (
    NOTHING_TO_WRITE,
    SHARE_PARTITION_MOVES,
    AcknowledgementBatch,
    AcquiredRecords,
    ArchivedRecords,
    FetchedRecords,
    Outcome,
    ShareConfig,
    ShareLimits,
    SharePartitionStatus,
    Transition,
    persister_error,
)
from ottla.node.share.window_view import WindowView, view_window
from ottla.node.work.turns import at_once

# With at most this many members that may hold records, a search for those that really do is not worth it.
_FEW_HOLDERS: Final = 64


class SharePartition:
    """The records of one partition that one share group has in flight, while this node leads it."""

    __slots__ = (
        "_holders",
        "_limits",
        "_many_holders",
        "_note",
        "_number",
        "_start_offset_before",
        "_window",
        "config",
        "incarnation",
        "key",
        "leader_epoch",
        "state_epoch",
        "status",
    )

    def __init__(
        self, key: SharePartitionKey, leader_epoch: int, config: ShareConfig, limits: ShareLimits
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.config = config  # replaced when the group's settings change
        self.status = SharePartitionStatus.EMPTY
        self.state_epoch = 0
        self.incarnation = NOT_GIVEN  # of the state, from its coordinator
        self._limits = limits
        # Members that may hold records: all that acquired some and have not left. Very many sessions may end
        # that never acquired any, and searching for the records of a member takes time.
        self._holders: set[str] = set()
        self._many_holders = _FEW_HOLDERS  # above this number, members without records are removed
        self._window = ShareWindow()
        self._number = 0
        self._start_offset_before = 0
        self._note = Note(0, None)

    # ---- properties

    @property
    def is_active(self) -> bool:
        """Return True if records may be acquired."""
        return self.status is SharePartitionStatus.ACTIVE

    @property
    def start_offset(self) -> int:
        """The offset before which all records are done with."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset in flight; the next one to fetch when nothing is in flight."""
        return self._window.end_offset

    @property
    def delivery_complete_count(self) -> int:
        """The number of records from the start offset on that are done with."""
        return self._window.delivery_complete_count

    @property
    def in_flight_count(self) -> int:
        """The number of records in flight, as `ShareWindow.in_flight_count` counts them."""
        return self._window.in_flight_count()

    @property
    def in_flight_batch_count(self) -> int:
        """The number of batches in flight."""
        return len(self._window.records.batch_firsts)

    @property
    def in_flight_range_count(self) -> int:
        """The number of ranges of offsets in flight that have a state of their own."""
        return len(self._window.records)

    def states(self) -> list[StateBatch]:
        """Return the states of all records in flight in order, including states that are never written."""
        records = self._window.records
        return list(map(StateBatch, records.firsts, records.lasts, records.states, records.counts))

    def holder_of(self, offset: int) -> str | None:
        """Return the member that holds the record, None if none does."""
        records = self._window.records
        index = records.index_at(offset)
        is_there = index < len(records) and records.firsts[index] <= offset
        return records.holders[index] if is_there and records.states[index] == ACQUIRED else None

    def view(self, *, now_ms: int, max_ranges: int, stalled_ms: int) -> WindowView:
        """Return a view of the records in flight, with up to `max_ranges` ranges in each list."""
        return view_window(
            self._window,
            now_ms=now_ms,
            max_ranges=max_ranges,
            delivery_count_limit=self.config.delivery_count_limit,
            stalled_ms=stalled_ms,
        )

    def may_hold(self, member: str) -> bool:
        """Return True if a member has acquired records here, and has not left since then."""
        return member in self._holders

    @property
    def delayed_count(self) -> int:
        """The number of records in the index of records that are not due yet."""
        return len(self._window.delayed) if self._window.delayed is not None else 0

    @property
    def begins_with_delayed(self) -> bool:
        """Return True if the oldest record in flight is not due yet."""
        return begins_with_delayed(self._window)

    @property
    def delayed_room(self) -> int:
        """The number of further records that may wait until they are due."""
        index = self._window.delayed
        return max(index.max_records - len(index), 0) if index is not None else 0

    @property
    def delays_from(self) -> int:
        """The offset from which a fetch must find the due times of records; 0 if delivery is not delayed."""
        return self._window.delayed.next_offset if self._window.delayed is not None else 0

    # ---- state

    def restore(self, state: StateRead, initial_offset: int) -> None:
        """Begin with the state that was read; a group without a start offset begins at `initial_offset`.

        Raises KafkaError if the state could not be read, after which this may be called again, or if it is
        not valid, after which the share-partition is FAILED.
        """
        assert self.status is SharePartitionStatus.EMPTY, self.status
        if state.error is not ErrorCode.NONE:
            raise KafkaError(*persister_error(state.error, state.message))
        start_offset = initial_offset if state.start_offset == NOT_GIVEN else state.start_offset
        try:
            self._note = read_note(state.dead_letters)
            sets_aside = self.config.sets_aside or self._note.letters is not None
            limit = self.config.delivery_count_limit if sets_aside else None
            self._window.restore(start_offset, state.batches, limit)
        except ValueError as error:
            self._move(SharePartitionStatus.FAILED)
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to initialize the share partition: {error}"
            ) from error
        self.state_epoch, self.incarnation = state.state_epoch, state.incarnation
        self._move(SharePartitionStatus.ACTIVE)
        self._start_offset_before = self.start_offset

    def delay_delivery(self, max_records: int | None) -> bool:
        """Let up to `max_records` records wait until they are due (`FetchedRecords.due_times`), or none.

        Return True if this changes anything.
        """
        if max_records is None:
            return end_delays(self._window)
        return begin_delays(self._window, max_records)

    def fence(self) -> None:
        """Stop delivering records: another leader has the state, or this node no longer leads."""
        self._move(SharePartitionStatus.FENCED)

    def _move(self, status: SharePartitionStatus) -> None:
        assert status in SHARE_PARTITION_MOVES[self.status], f"{self.status.value} to {status.value}"
        self.status = status

    # ---- fetches

    def next_fetch_offset(self) -> int:
        """Return the offset from which the next fetch should read."""
        return self._window.next_fetch_offset()

    @property
    def fetches_again(self) -> bool:
        """Return True if the next fetch is of offsets in flight: available records, or a gap."""
        window = self._window
        is_any_in_flight = bool(window.records) and window.start_offset <= window.records.lasts[-1]
        return is_any_in_flight and window.next_fetch_offset() <= window.end_offset

    def may_acquire(self) -> bool:
        """Return True if a fetch could acquire records, as far as the state of this share-partition says."""
        window = self._window
        offset = window.next_fetch_offset()
        if is_stopped(window, offset):
            return False
        if offset != window.end_offset + 1:
            return offset != window.next_gap() or may_take_new(window, offset, self._limits.max_states)
        return window.in_flight_count() < self.config.partition_max_record_locks and may_take_new(
            window, offset, self._limits.max_states
        )

    def acquire(
        self,
        member: str,
        now_ms: int,
        fetched: FetchedRecords,
        max_records: int,
        batch_size: int,
        is_strict: bool,
    ) -> list[AcquiredRecords]:
        """Give records of a fetch to a member and return them; none while records may not be acquired.

        This writes no state.
        """
        if not self.is_active:
            return []
        acquisition = Acquisition(
            window=self._window,
            config=self.config,
            max_states=self._limits.max_states,
            member=member,
            now_ms=now_ms,
            fetched=fetched,
            batch_size=batch_size,
            is_strict=is_strict,
        )
        acquired = acquire(acquisition, max_records)
        if acquired:
            self._holders.add(member)
            if len(self._holders) > self._many_holders:
                # A member that drops a partition from its session is not removed when it leaves.
                self._holders.intersection_update(filter(None, self._window.records.holders))
                self._many_holders = max(_FEW_HOLDERS, 2 * len(self._holders))
        return acquired

    # ---- the ends of deliveries

    def acknowledge(self, member: str, batches: Sequence[AcknowledgementBatch], now_ms: int) -> Outcome:
        """Apply a member's acknowledgements of records: all of them, or none and return an error."""
        return at_once(self.acknowledge_in_steps(member, batches, now_ms))

    def acknowledge_in_steps(
        self, member: str, batches: Sequence[AcknowledgementBatch], now_ms: int
    ) -> Generator[None, None, Outcome]:
        """Apply acknowledgements of very many records as `acknowledge` does, in steps.

        Other requests may be served between two steps. To them, records acknowledged in earlier steps look
        like records whose moves wait for the coordinator.
        """
        moves = self._moves()
        count = 0
        try:
            for piece in chain.from_iterable(map(pieces_of, batches)):
                acknowledge_piece(moves, member, piece, now_ms, self._limits.max_states)
                count += len(piece.types)
                if count >= TYPES_PER_STEP:
                    count = 0
                    yield
        except KafkaError as error:
            self._take_back(moves.number, moves.ranges)
            self._holders.add(member)  # it may have left meanwhile
            return Outcome(error=error.code, message=error.detail)
        return self._outcome(moves)

    def release_all(self, member: str) -> Outcome:
        """Release the records that a member holds, after its session has ended."""
        if member not in self._holders:
            return NOTHING_TO_WRITE
        moves = self._moves()
        release_all(moves, member)
        self._holders.discard(member)
        return self._outcome(moves)

    def expire(self, now_ms: int) -> Outcome:
        """Free records whose lock or back-off has ended; there may be more to acquire then.

        The outcome is passed to `persisted` or `failed` as any other, but nothing is taken back.
        """
        written = expire(self._window, self.config, now_ms)
        if not written:
            return NOTHING_TO_WRITE
        return Outcome(write=self._write(written), transition=Transition(0))

    def next_expiry(self) -> int | None:
        """Return the time at which `expire` will have something to do, None if there is none."""
        return self._window.locks.next_ms()

    def free_due(self, wall_ms: int) -> None:
        """Make delayed records available if they are due by the wall clock."""
        free_due(self._window, wall_ms, self._limits.max_states)

    def next_due(self) -> int | None:
        """Return the wall-clock time at which `free_due` will have something to do, None if there is none."""
        return next_due_ms(self._window, self._limits.max_states)

    def persisted(self, transition: Transition, now_ms: int) -> bool:
        """Make moves final that the coordinator has written; return True if there may be more to acquire."""
        is_any_available = False
        for first, last in transition.ranges:
            if complete(self._window, self.config, transition.number, first, last, now_ms):
                is_any_available = True
        return self._advance_start() or is_any_available

    def failed(self, transition: Transition) -> bool:
        """Take back moves that the coordinator has rejected; return True if there may be more to acquire.

        Locks that ended meanwhile are due at once, with the next `expire`.
        """
        if not transition.number:
            return self._advance_start()
        self._take_back(transition.number, transition.ranges)
        self._holders.update(filter(None, self._window.records.holders))
        return False

    # ---- dead letters

    @property
    def letters(self) -> DeadLetters | None:
        """The batch of dead letters in flight, of this leader or of an earlier one."""
        return self._note.letters

    @property
    def has_letters(self) -> bool:
        """Return True if there are dead letters to write."""
        states = self._window.records.states
        return self._note.letters is not None or any(state in states for state in SET_ASIDE)

    @property
    def may_send_letters(self) -> bool:
        """Return True if dead letters may be written now; others must wait for the coordinator's answer."""
        return self._note.letters is not None or (self.has_letters and bool(self.find_set_aside(1)))

    def find_set_aside(self, max_ranges: int) -> list[ArchivedRecords]:
        """Return the first records that wait for their dead letters, if the coordinator has that state."""
        return find_set_aside(self._window, max_ranges)

    def begin_letters(self, letters: DeadLetters) -> WriteState:
        """Return the write that notes a batch of dead letters, which must succeed before it is produced.

        A failed write is repeated unchanged, since the coordinator may have it.
        """
        assert self._note.letters is None, self._note
        return self._write_letters(letters.records, ARCHIVING, letters)

    def end_letters(self) -> WriteState:
        """Archive the records whose dead letters were produced or given up.

        The caller repeats the returned write until it succeeds.
        """
        letters = self._note.letters
        assert letters is not None
        mark_archived(self._window, letters.records)
        return self._write_letters(letters.records, ARCHIVED, None)

    def forget_letters(self) -> None:
        """Let the records wait for new dead letters, after the topic of the batch in flight was deleted."""
        self._note = self._note._replace(letters=None)

    def archive_without_letters(self, records: Sequence[ArchivedRecords]) -> WriteState:
        """Archive records that get no dead letters.

        The caller repeats the returned write until it succeeds.
        """
        assert self._note.letters is None, self._note
        mark_archived(self._window, records)
        return self._write_letters(records, ARCHIVED, None)

    def as_of_now(self, write: WriteState) -> WriteState:
        """Return a write to repeat, with the present start offset, which must never move back."""
        return replace(
            write, start_offset=self.start_offset, delivery_complete_count=self.delivery_complete_count
        )

    def _write_letters(
        self, records: Sequence[ArchivedRecords], state: int, letters: DeadLetters | None
    ) -> WriteState:
        self._note = Note(self._note.number + 1, letters)
        batches = [
            StateBatch(one.first_offset, one.last_offset, state, one.delivery_count) for one in records
        ]
        return replace(self._write(batches), dead_letters=encode_note(self._note))

    def move_log_start(self, offset: int) -> bool:
        """Archive records that the log has lost; return True if the start offset moved."""
        has_moved = self._window.move_log_start(offset)
        if self._window.delayed is not None:
            self._window.delayed.drop_before(self.start_offset)
        return has_moved

    def check_invariants(self) -> None:
        """Assert the invariants, and that the start offset has not moved back since the last call."""
        self._window.check_invariants()
        check_delays(self._window)
        assert self.start_offset >= self._start_offset_before, (self.start_offset, self._start_offset_before)
        self._start_offset_before = self.start_offset

    def _moves(self) -> Moves:
        self._number += 1
        return Moves(self._window, self.config, self._number, [])

    def _outcome(self, moves: Moves) -> Outcome:
        if not moves.ranges:
            return NOTHING_TO_WRITE
        batches: list[StateBatch] = []
        for first, last in moves.ranges:
            for begins_at, ends_at, state, count in self._window.records.written(first, last):
                before = batches[-1] if batches else None
                if before and (before.last_offset + 1, *before[2:]) == (begins_at, state, count):
                    begins_at = batches.pop().first_offset
                batches.append(StateBatch(begins_at, ends_at, state, count))
        return Outcome(write=self._write(batches), transition=Transition(moves.number, tuple(moves.ranges)))

    def _advance_start(self) -> bool:
        has_moved = self._window.advance_start()
        if has_moved and self._window.delayed is not None:
            self._window.delayed.drop_before(self.start_offset)
        return has_moved

    def _take_back(self, number: int, ranges: Sequence[tuple[int, int]]) -> None:
        for first, last in ranges:
            take_back(self._window, number, first, last)

    def _write(self, batches: Sequence[StateBatch]) -> WriteState:
        return WriteState(
            key=self.key,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            batches=batches,
            incarnation=self.incarnation,
        )
