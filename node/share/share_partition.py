"""One partition as one share group reads it, at the partition's leader (KIP-932).

Pure: what was read of the log comes in, what must be written goes out, and the time is an argument. As in
Kafka, a member's acknowledgement is shown at once and holds when the share coordinator has it (`persisted`),
or is taken back (`failed`). An ended lock is not taken back: it is only told.
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
from ottla.node.share.set_aside import mark_archived, set_aside_records
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

# So many who may hold something are not worth a look at who does.
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
        self.incarnation = NOT_GIVEN  # of the state, as its coordinator has named it
        self._limits = limits
        # Who may hold something: everybody who was given records and has not left since then. Very many
        # sessions may end that never had any, and to look for what a member holds takes time.
        self._holders: set[str] = set()
        self._many_holders = _FEW_HOLDERS  # above it those are forgotten that hold nothing
        self._window = ShareWindow()
        self._number = 0
        self._start_offset_before = 0
        self._note = Note(0, None)

    # ---- what it is

    @property
    def is_active(self) -> bool:
        """Return whether records may be acquired."""
        return self.status is SharePartitionStatus.ACTIVE

    @property
    def start_offset(self) -> int:
        """Everything before it is done with."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset in flight; the next one to fetch when nothing is in flight."""
        return self._window.end_offset

    @property
    def delivery_complete_count(self) -> int:
        """Return how many records behind the start offset are done with."""
        return self._window.delivery_complete_count

    @property
    def in_flight_count(self) -> int:
        """Return how many records are in flight."""
        return self._window.in_flight_count()

    @property
    def in_flight_batch_count(self) -> int:
        """Return how many batches of records are in flight."""
        return len(self._window.records.batch_firsts)

    @property
    def in_flight_range_count(self) -> int:
        """Return how many ranges of offsets in flight have a state of their own."""
        return len(self._window.records)

    def states(self) -> list[StateBatch]:
        """The states of all that is in flight, also those that only exist here, in order."""
        records = self._window.records
        return list(map(StateBatch, records.firsts, records.lasts, records.states, records.counts))

    def holder_of(self, offset: int) -> str | None:
        """The member that holds the record, if any does."""
        records = self._window.records
        index = records.index_at(offset)
        is_there = index < len(records) and records.firsts[index] <= offset
        return records.holders[index] if is_there and records.states[index] == ACQUIRED else None

    def view(self, *, now_ms: int, max_ranges: int, stalled_ms: int) -> WindowView:
        """Return what is in flight, with so many ranges in each of its lists."""
        return view_window(
            self._window,
            now_ms=now_ms,
            max_ranges=max_ranges,
            delivery_count_limit=self.config.delivery_count_limit,
            stalled_ms=stalled_ms,
        )

    def may_hold(self, member: str) -> bool:
        """Return whether a member was given records here, and has not left since then."""
        return member in self._holders

    @property
    def delayed_count(self) -> int:
        """Return how many records are known not to be due yet."""
        return len(self._window.delayed) if self._window.delayed is not None else 0

    @property
    def begins_with_delayed(self) -> bool:
        """Return whether the oldest record in flight is not due yet."""
        return begins_with_delayed(self._window)

    @property
    def delayed_room(self) -> int:
        """Return how many more records may wait until they are due."""
        index = self._window.delayed
        return max(index.max_records - len(index), 0) if index is not None else 0

    @property
    def delays_from(self) -> int:
        """The offset from which on a fetch must say when records are due."""
        return self._window.delayed.next_offset if self._window.delayed is not None else 0

    # ---- its state

    def restore(self, state: StateRead, initial_offset: int) -> None:
        """Begin with the state that was read; `initial_offset` is where a group begins that has none.

        KafkaError when it could not be read, after which it may be read again, or makes no sense.
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
        """Let so many records wait until they are due (`FetchedRecords.due_times`), with None none; return
        whether that is new.
        """
        if max_records is None:
            return end_delays(self._window)
        return begin_delays(self._window, max_records)

    def fence(self) -> None:
        """Give out nothing any more, as another has the state, or this node does not lead any more."""
        self._move(SharePartitionStatus.FENCED)

    def _move(self, status: SharePartitionStatus) -> None:
        assert status in SHARE_PARTITION_MOVES[self.status], f"{self.status.value} to {status.value}"
        self.status = status

    # ---- fetches

    def next_fetch_offset(self) -> int:
        """The offset that the next fetch should read from."""
        return self._window.next_fetch_offset()

    @property
    def fetches_again(self) -> bool:
        """Return whether the next fetch is of offsets in flight: again, or of a gap between them."""
        window = self._window
        is_any_in_flight = bool(window.records) and window.start_offset <= window.records.lasts[-1]
        return is_any_in_flight and window.next_fetch_offset() <= window.end_offset

    def may_acquire(self) -> bool:
        """Return whether a fetch would find something to acquire, as far as is known here."""
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
        """Give records of a fetch to a member; nothing is written for that."""
        if not self.is_active:
            return []
        asked = Acquisition(
            window=self._window,
            config=self.config,
            max_states=self._limits.max_states,
            member=member,
            now_ms=now_ms,
            fetched=fetched,
            batch_size=batch_size,
            is_strict=is_strict,
        )
        acquired = acquire(asked, max_records)
        if acquired:
            self._holders.add(member)
            if len(self._holders) > self._many_holders:
                # Who forgets a partition before it leaves is not taken out when it does.
                self._holders.intersection_update(filter(None, self._window.records.holders))
                self._many_holders = max(_FEW_HOLDERS, 2 * len(self._holders))
        return acquired

    # ---- the ends of deliveries

    def acknowledge(self, member: str, batches: Sequence[AcknowledgementBatch], now_ms: int) -> Outcome:
        """Take what a member says of records; all of it, or an error."""
        return at_once(self.acknowledge_in_steps(member, batches, now_ms))

    def acknowledge_in_steps(
        self, member: str, batches: Sequence[AcknowledgementBatch], now_ms: int
    ) -> Generator[None, None, Outcome]:
        """Take what a member says of very many records as `acknowledge` does; others may be served between
        two steps, to whom records of which was spoken are as those that wait for the coordinator.
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
        """Take from a member what it holds, as its session has ended."""
        if member not in self._holders:
            return NOTHING_TO_WRITE
        moves = self._moves()
        release_all(moves, member)
        self._holders.discard(member)
        return self._outcome(moves)

    def expire(self, now_ms: int) -> Outcome:
        """Free what was held, or was held off, long enough; there may be more to acquire now.

        The outcome is told to `persisted` or `failed` as any other, but nothing is taken back.
        """
        written = expire(self._window, self.config, now_ms)
        if not written:
            return NOTHING_TO_WRITE
        return Outcome(write=self._write(written), transition=Transition(0))

    def next_expiry(self) -> int | None:
        """The time at which `expire` will have something to do."""
        return self._window.locks.next_ms()

    def free_due(self, wall_ms: int) -> None:
        """Make delayed records available that are due by the wall clock."""
        free_due(self._window, wall_ms, self._limits.max_states)

    def next_due(self) -> int | None:
        """The time of the wall clock at which `free_due` will have something to do."""
        return next_due_ms(self._window, self._limits.max_states)

    def persisted(self, transition: Transition, now_ms: int) -> bool:
        """Complete what the coordinator has written; return whether there may be more to acquire."""
        is_any_available = False
        for first, last in transition.ranges:
            if complete(self._window, self.config, transition.number, first, last, now_ms):
                is_any_available = True
        return self._advance_start() or is_any_available

    def failed(self, transition: Transition) -> bool:
        """Take back what the coordinator has refused; return whether there may be more to acquire.

        Locks that were over meanwhile end with the next `expire`, for which it is time then.
        """
        if not transition.number:
            return self._advance_start()
        self._take_back(transition.number, transition.ranges)
        self._holders.update(filter(None, self._window.records.holders))
        return False

    # ---- dead letters

    @property
    def letters(self) -> DeadLetters | None:
        """The dead letters that are on their way, or were when another node led."""
        return self._note.letters

    @property
    def has_letters(self) -> bool:
        """Return whether dead letters are still to be written."""
        states = self._window.records.states
        return self._note.letters is not None or any(state in states for state in SET_ASIDE)

    @property
    def may_send_letters(self) -> bool:
        """Return whether dead letters may be written now; others wait until the coordinator has answered."""
        return self._note.letters is not None or (self.has_letters and bool(self.set_aside(1)))

    def set_aside(self, max_ranges: int) -> list[ArchivedRecords]:
        """Return the first records that wait for their dead letters, as far as the coordinator has them."""
        return set_aside_records(self._window, max_ranges)

    def begin_letters(self, letters: DeadLetters) -> WriteState:
        """Note which dead letters are about to be produced, and how: not before this is written.

        A write that failed is repeated as it is, as nobody knows whether the coordinator has it.
        """
        assert self._note.letters is None, self._note
        return self._write_letters(letters.records, ARCHIVING, letters)

    def end_letters(self) -> WriteState:
        """Archive the records whose dead letters are there, or are given up; to be written until it is."""
        letters = self._note.letters
        assert letters is not None
        mark_archived(self._window, letters.records)
        return self._write_letters(letters.records, ARCHIVED, None)

    def forget_letters(self) -> None:
        """Let the records wait for other dead letters, as the topic of those on their way is no more."""
        self._note = self._note._replace(letters=None)

    def archive_without_letters(self, records: Sequence[ArchivedRecords]) -> WriteState:
        """Archive records that get no dead letters; to be written until it is."""
        assert self._note.letters is None, self._note
        mark_archived(self._window, records)
        return self._write_letters(records, ARCHIVED, None)

    def as_of_now(self, write: WriteState) -> WriteState:
        """Return a write that is repeated, with what has moved since: the start offset never goes back."""
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
        """Archive what the log no longer has; return whether the start offset moved."""
        has_moved = self._window.move_log_start(offset)
        if self._window.delayed is not None:
            self._window.delayed.drop_before(self.start_offset)
        return has_moved

    def check_invariants(self) -> None:
        """Assert what always holds, also from one call to the next: the start offset never goes backwards."""
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
