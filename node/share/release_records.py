"""Frees records after their holder's session, their lock or their wait has ended."""

from ottla.groupcoord.share_state.share_state_words import StateBatch
from ottla.node.share.acknowledge_records import Moves, archived_as
from ottla.node.share.in_flight_records import ACQUIRED, AVAILABLE, WAITING, written_state
from ottla.node.share.record_state import TERMINAL
from ottla.node.share.share_window import ARCHIVED, ShareWindow
from ottla.node.share.share_words import ArchiveReason, ShareConfig


def release_all(moves: Moves, member: str) -> None:
    """Begin to release the records that this member holds; archive those that the log has lost."""
    start = moves.window.start_offset
    for first, last in _held_by(moves.window, member):
        if first < start:
            moves.begin(first, min(last, start - 1), ARCHIVED, None)
        if last >= start:
            moves.begin(max(first, start), last, AVAILABLE, None)


def expire(window: ShareWindow, config: ShareConfig, now_ms: int) -> list[StateBatch]:
    """Free records whose lock or wait has ended; return the state batches to write."""
    written: list[StateBatch] = []
    records = window.records
    for first, last in window.locks.take_due(now_ms):
        records.cut(window.start_offset)
        begin, end = records.span(first, last)
        for index in range(begin, end):
            if not 0 < records.times_ms[index] <= now_ms:
                continue  # renewed, acquired again, or delayed without a time of its own
            # An acknowledgement in flight ends with the coordinator's answer.
            if records.states[index] == WAITING:
                window.end_wait(index, AVAILABLE)
            elif records.states[index] == ACQUIRED:
                written.append(_end_lock(window, config, index, now_ms))
        records.merge(begin, end)
    return written


def complete(
    window: ShareWindow, config: ShareConfig, number: int, first: int, last: int, now_ms: int
) -> bool:
    """Make the moves of a transition final; return True if records became available."""
    records = window.records
    begin, end = records.span(first, last)
    is_any_available = False
    for index in range(begin, end):
        if records.transitions[index] != number:
            continue
        records.transitions[index] = 0
        if records.states[index] == AVAILABLE:
            window.free(index, config, now_ms)
            is_any_available = True
        else:
            records.holders[index], records.times_ms[index] = None, 0
    records.merge(begin, end)
    return is_any_available


def take_back(window: ShareWindow, number: int, first: int, last: int) -> None:
    """Take back the moves of a transition: the member holds the records again until its locks end."""
    records = window.records
    begin, end = records.span(first, last)
    for index in range(begin, end):
        if records.transitions[index] != number:
            continue
        if records.holders[index] is None:
            records.take_back(index, ARCHIVED)  # it was archived meanwhile
            continue
        if records.states[index] in TERMINAL:
            window.delivery_complete_count -= window.offsets_from_start(index)
        records.take_back(index, ACQUIRED)
        # The entry of its lock may have been skipped while the coordinator was asked.
        window.locks.add(records.times_ms[index], records.firsts[index], records.lasts[index])
    records.merge(begin, end)


def _end_lock(window: ShareWindow, config: ShareConfig, index: int, now_ms: int) -> StateBatch:
    records = window.records
    first, last, count = records.firsts[index], records.lasts[index], records.counts[index]
    is_gone = last < window.start_offset  # no longer in the log
    is_at_limit = count >= config.delivery_count_limit
    if not is_gone and not is_at_limit:
        window.free(index, config, now_ms)
        return StateBatch(first, last, AVAILABLE, count)
    state = ARCHIVED
    if not is_gone:
        config.count_without_letters(window.offsets_from_start(index))
        state = archived_as(ArchiveReason.DELIVERY_LIMIT, config)
    records.move(index, state, None, 0)
    if state in TERMINAL:
        window.delivery_complete_count += window.offsets_from_start(index)
    return StateBatch(first, last, written_state(state), count)


def _held_by(window: ShareWindow, member: str) -> list[tuple[int, int]]:
    """Return the ranges of offsets that a member holds."""
    records = window.records
    held = []
    index = -1
    for _ in range(records.holders.count(member)):
        index = records.holders.index(member, index + 1)
        if records.states[index] == ACQUIRED:
            held.append((records.firsts[index], records.lasts[index]))
    return held
