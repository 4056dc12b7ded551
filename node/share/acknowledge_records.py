"""Applies acknowledgements of records by the member that holds them: accept, release, reject, gap, renew.

A batch of offsets has one type, or one for each offset; neighbours with the same type move together.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share.in_flight_records import ACQUIRED, AVAILABLE
from ottla.node.share.record_state import TERMINAL, RecordState
from ottla.node.share.share_window import ARCHIVED, ShareWindow
from ottla.node.share.share_words import AcknowledgementBatch, ArchiveReason, ShareConfig
from ottla.node.wire.acknowledge_type import AcknowledgeType

# Types that one step applies: 1 us each, or 20 us if their records are in ranges of their own.
TYPES_PER_STEP: Final = 16
_RENEW: Final = int(AcknowledgeType.RENEW)
_MOVE_TO: Final = {
    int(AcknowledgeType.GAP): ARCHIVED,
    int(AcknowledgeType.ACCEPT): int(RecordState.ACKNOWLEDGED),
    int(AcknowledgeType.RELEASE): AVAILABLE,
    int(AcknowledgeType.REJECT): ARCHIVED,
}
_ALL_TYPES: Final = frozenset(map(int, AcknowledgeType))


class Moves(NamedTuple):
    """The moves of one request. They begin one after the other, and are taken back together."""

    window: ShareWindow
    config: ShareConfig
    number: int
    ranges: list[tuple[int, int]]

    def begin(self, first: int, last: int, state: int, reason: ArchiveReason | None) -> None:
        """Begin to move all ranges of these offsets, which must be acquired."""
        window, records = self.window, self.window.records
        begin, end = records.cut_out(first, last)
        for index in range(begin, end):
            target = self._target(state, reason, records.counts[index], window.offsets_from_start(index))
            records.begin_transition(index, target, self.number)
            if target in TERMINAL:
                window.delivery_complete_count += window.offsets_from_start(index)
        self._note(first, last)

    def begin_each(self, first: int, last: int, types: Sequence[int]) -> None:
        """Begin to move each record by its type; all must be in one range, from the start offset on."""
        records = self.window.records
        index, _ = records.cut_out(first, last)
        count = records.counts[index]
        targets = {
            kind: self._target(_MOVE_TO[kind], _reason_of(kind), count, types.count(kind))
            for kind in set(types)
        }
        firsts = _first_of_each_run(first, types)
        states = bytes([targets[types[offset - first]] for offset in firsts])
        records.begin_transitions(index, firsts, states, self.number)
        self.window.delivery_complete_count += sum(
            types.count(kind) for kind, target in targets.items() if target in TERMINAL
        )
        self._note(first, last)

    def _target(self, state: int, reason: ArchiveReason | None, count: int, records: int) -> int:
        """Return the state to which these records of one delivery count move.

        Records that get no dead letter although their group wants one are counted.
        """
        if state == AVAILABLE and count >= self.config.delivery_count_limit:
            reason = ArchiveReason.DELIVERY_LIMIT
        if reason is None:
            return state
        self.config.count_without_letters(records)
        return archived_as(reason, self.config)

    def _note(self, first: int, last: int) -> None:
        if self.ranges and self.ranges[-1][1] + 1 == first:
            first = self.ranges.pop()[0]
        self.ranges.append((first, last))


def archived_as(reason: ArchiveReason, config: ShareConfig) -> int:
    """Return the next state of records that are not delivered again for this reason."""
    if not config.sets_aside:
        return ARCHIVED
    return int(RecordState.ARCHIVING if reason is ArchiveReason.REJECTED else RecordState.SPENT)


def acknowledge_batch(
    moves: Moves, member: str, batch: AcknowledgementBatch, now_ms: int, max_states: int
) -> None:
    """Begin the moves of one batch.

    Raises KafkaError if the member may not make one of them; earlier moves have begun then.
    """
    window, records = moves.window, moves.window.records
    first, last, types = batch
    if first > last or len(types) not in (1, last - first + 1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledgement of offsets {first} to {last}")
    if not _ALL_TYPES.issuperset(types):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid acknowledge type")
    if last < window.start_offset:
        return  # the records are done with
    _check_in_flight(window, first, last)
    for kind, begin, end in _same_types(first, last, types):
        begin = max(begin, window.start_offset)
        if begin > end:
            continue
        cuts = records.cuts(begin, end)
        if cuts and len(records) + cuts > max_states:  # a move without a cut adds no range
            message = "Too many ranges of records in flight have states of their own."
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
        if kind == _RENEW:
            _renew(moves, member, begin, end, now_ms)
        else:
            _check_held(moves, member, begin, end)
            moves.begin(begin, end, _MOVE_TO[kind], _reason_of(kind))


def acknowledge_piece(
    moves: Moves, member: str, piece: AcknowledgementBatch, now_ms: int, max_states: int
) -> None:
    """Begin the moves of a piece: together if one range has all its records, else one after the other."""
    if len(piece.types) > 1 and _can_move_at_once(moves, member, piece, max_states):
        moves.begin_each(*piece)
    else:
        acknowledge_batch(moves, member, piece, now_ms, max_states)


def pieces_of(batch: AcknowledgementBatch) -> Iterator[AcknowledgementBatch]:
    """Cut a batch with very many types into pieces for one step each."""
    first, last, types = batch
    if len(types) <= TYPES_PER_STEP:
        yield batch
        return
    for place in range(0, len(types), TYPES_PER_STEP):
        some = types[place : place + TYPES_PER_STEP]
        yield AcknowledgementBatch(first + place, min(first + place + TYPES_PER_STEP - 1, last), some)


def _check_in_flight(window: ShareWindow, first: int, last: int) -> None:
    """Raise KafkaError unless batches in flight begin at or before `first` and end at or after `last`."""
    records = window.records
    floor = records.floor_batch(first)
    if floor < 0:
        # The start of the batch may be done with and dropped.
        floor = records.floor_batch(window.start_offset) if first < window.start_offset else -1
    if floor < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE,
            "Batch record not found. The request batch offsets are not found in the cache.",
        )
    reach = records.batch_lasts[records.floor_batch(last)]
    if reach < last:
        which = "first" if reach < first else "last"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Batch record not found. The {which} offset in request is past acquired records.",
        )


def _can_move_at_once(moves: Moves, member: str, batch: AcknowledgementBatch, max_states: int) -> bool:
    """Return True if each record has a type, one range has all of them, and no check forbids their moves."""
    window, records = moves.window, moves.window.records
    first, last, types = batch
    if len(types) != last - first + 1 or first < window.start_offset or not _MOVE_TO.keys() >= set(types):
        return False
    begin, end = records.span(first, last)
    return (
        end - begin == 1
        and records.firsts[begin] <= first
        and records.lasts[begin] >= last
        and records.states[begin] == ACQUIRED
        and records.holders[begin] == member
        and len(records) + len(types) < max_states
    )


def _reason_of(kind: int) -> ArchiveReason | None:
    return ArchiveReason.REJECTED if kind == AcknowledgeType.REJECT else None


def _first_of_each_run(first: int, types: Sequence[int]) -> list[int]:
    """Return the first offset of each run of equal types."""
    changes = (place for place, (one, next_one) in enumerate(pairwise(types), first + 1) if one != next_one)
    return [first, *changes]


def _same_types(first: int, last: int, types: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the type and the first and last offset of each run of equal types."""
    if len(types) == 1:
        yield types[0], first, last
        return
    for kind, run in groupby(types):
        count = sum(1 for _ in run)
        yield kind, first, first + count - 1
        first += count


def _check_held(moves: Moves, member: str, first: int, last: int) -> None:
    """Raise KafkaError if this member does not hold these offsets, or has acknowledged them already."""
    records = moves.window.records
    begin, end = records.span(first, last)
    for index in range(begin, end):
        if records.states[index] != ACQUIRED:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "The offset cannot be acknowledged. The offset is not acquired.",
            )
        if records.holders[index] != member:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")


def _renew(moves: Moves, member: str, first: int, last: int, now_ms: int) -> None:
    """Renew the locks of these records; as in Kafka, the locks before one that fails are renewed."""
    if not moves.config.renew_acknowledge_enable:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group."
        )
    records = moves.window.records
    begin, end = records.cut_out(first, last)
    time_ms = now_ms + moves.config.record_lock_duration_ms
    moves.window.locks.add(time_ms, first, last)
    try:
        for index in range(begin, end):
            _check_held(moves, member, records.firsts[index], records.lasts[index])
            records.times_ms[index] = time_ms
    finally:
        records.merge(begin, end)
