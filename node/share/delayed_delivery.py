"""Keeps records in the window of a share-partition until they are due; `DelayedIndex` has their times.

They are in flight as WAITING without a time of their own, so contiguous ones are one range, however many they
are and whenever each of them is due. Records between them that are done with are one range, too. The number
of ranges is limited: from half of the maximum on nothing new is acquired, and from three quarters on only the
first record of the window is freed when it is due, so that the start offset can always move.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from ottla.node.share.delayed_index import DelayedIndex
from ottla.node.share.in_flight_records import AVAILABLE, WAITING
from ottla.node.share.share_window import ShareWindow
from ottla.node.share.share_words import AcquiredRecords, FetchedRecords

FREED_AT_ONCE: Final = 2_000  # records in one turn: some milliseconds


def begin_delays(window: ShareWindow, max_records: int) -> bool:
    """Begin to delay up to `max_records` records until they are due; return True if this is a change."""
    if window.delayed is not None:
        before, window.delayed.max_records = window.delayed.max_records, max_records
        return max_records != before
    window.delayed = DelayedIndex(max_records)
    window.delayed.drop_before(window.start_offset)
    window.records.joins_batches = True
    window.records.merge(0, len(window.records))
    return True


def end_delays(window: ShareWindow) -> bool:
    """Stop delaying records: free all that wait until they are due; return True if this is a change."""
    if window.delayed is None:
        return False
    window.delayed, window.records.joins_batches = None, False
    for index in range(len(window.records)):
        if _is_delayed(window, index):
            window.end_wait(index, AVAILABLE)
    return True


def note_fetched(window: ShareWindow, fetched: FetchedRecords, max_states: int) -> FetchedRecords:
    """Add the records of a fetch that are not due to the index; return the part that may be acquired."""
    index = window.delayed
    if index is None or not fetched.base_offsets:
        return fetched
    index.drop_before(window.start_offset)
    for piece in fetched.due_times:
        if not index.add(piece.offsets, piece.due_ms):
            break
    else:
        index.note_seen_before(min(fetched.last_offsets[-1], fetched.due_times_to) + 1)
    stop = min(_stop_offset(window, fetched, max_states), fetched.due_times_to + 1)
    if index.stopped_at is not None:
        stop = min(stop, index.stopped_at)
    count = bisect_left(fetched.base_offsets, stop)
    if not count and index.stopped_at is not None and index.stopped_at <= fetched.base_offsets[0]:
        index.stopped_at = fetched.fetch_offset  # the log has no records in between to read
    lasts = list(fetched.last_offsets[:count])
    if lasts:
        lasts[-1] = min(lasts[-1], stop - 1)
    return fetched._replace(base_offsets=fetched.base_offsets[:count], last_offsets=lasts)


def waiting_of(window: ShareWindow, acquired: Sequence[AcquiredRecords]) -> list[tuple[int, int]]:
    """Return the ranges of acquired records that are not due yet."""
    index = window.delayed
    if index is None or not index:
        return []
    return [run for each in acquired for run in index.waiting_within(each.first_offset, each.last_offset)]


def free_due(window: ShareWindow, now_ms: int, max_states: int) -> None:
    """Make due records available. If there are more than one turn may free, `next_due_ms` is in the past."""
    index, records = window.delayed, window.records
    if index is None:
        return
    index.drop_before(window.start_offset)
    room = _room(window, max_states)
    if room > 0:
        due = index.take_due(now_ms, min(room, FREED_AT_ONCE))
    else:
        start = window.start_offset
        due = [(start, start)] if index.take_at(start, now_ms) else []
    for first, last in due:
        begin, end = records.cut_out(first, last)
        for place in range(begin, end):
            if _is_delayed(window, place):
                window.end_wait(place, AVAILABLE)
        if begin < end:
            # Kafka delivers and throttles by batches, and the one that waited may have a million records.
            records.cut_batch(records.firsts[begin])
            records.cut_batch(records.lasts[end - 1] + 1)


def next_due_ms(window: ShareWindow, max_states: int) -> int | None:
    """Return the time at which `free_due` will have something to do, None if no record waits."""
    if window.delayed is None:
        return None
    if _room(window, max_states) > 0:
        return window.delayed.next_ms()
    return window.delayed.due_at(window.start_offset)


def may_take_new(window: ShareWindow, offset: int, max_states: int) -> bool:
    """Return True if there is room for new records from this offset on.

    There always is for the first records of the window, as nothing else would make room.
    """
    if is_stopped(window, offset):
        return False
    if window.delayed is None:
        has_room = len(window.records) < max_states
    else:
        has_room = _new_room(window, max_states) > 0
    return has_room or window.is_first(offset)


def is_stopped(window: ShareWindow, offset: int) -> bool:
    """Return True if the index is full, so that records from this offset on wait until others are due."""
    index = window.delayed
    return index is not None and index.is_full and index.stopped_at is not None and index.stopped_at <= offset


def begins_with_delayed(window: ShareWindow) -> bool:
    """Return True if the first record in flight is not due yet."""
    return window.delayed is not None and len(window.records) > 0 and _is_delayed(window, 0)


def check_delays(window: ShareWindow) -> None:
    """Assert that all records that wait without a time of their own are in the index."""
    for index in range(len(window.records)):
        if _is_delayed(window, index):
            span = window.records.firsts[index], window.records.lasts[index]
            assert window.delayed is not None and window.delayed.waiting_within(*span) == [span], span


def _stop_offset(window: ShareWindow, fetched: FetchedRecords, max_states: int) -> int:
    """Return the offset before which the new records of a fetch must end, since there is no more room."""
    room = _new_room(window, max_states)
    begin = window.next_gap()
    if begin is None:
        begin = window.end_offset + 1 if window.records else window.end_offset
    begin = max(begin, fetched.base_offsets[0])  # compacted records take no room
    if window.is_gap_active():
        room, begin = _room_behind_gaps(window, begin, fetched.last_offsets[-1], room)
    if room > 0 or not window.is_first(begin):
        return begin + room
    assert window.delayed is not None
    run = window.delayed.next_waiting(begin)  # room for one range: records that wait, or that do not
    if run is None:
        return fetched.last_offsets[-1] + 1
    return run[0] if run[0] > begin else run[1] + 1


def _room_behind_gaps(window: ShareWindow, begin: int, last: int, room: int) -> tuple[int, int]:
    """Subtract the gaps from the room for new records; return the room and the offset where it is used."""
    records = window.records
    place = max(records.floor_batch(begin), 0)
    while room > 0 and begin <= last and place < len(records.batch_firsts):
        size = max(records.batch_firsts[place] - begin, 0)
        if size >= room:
            break
        room -= size
        begin = max(begin, records.batch_lasts[place] + 1)
        place += 1
    return room, begin


def _new_room(window: ShareWindow, max_states: int) -> int:
    """Return the number of new records that may be acquired: each may add two ranges."""
    return max((max_states // 2 - len(window.records)) // 2, 0)


def _room(window: ShareWindow, max_states: int) -> int:
    """Return the number of records that may be freed: each may cut a range in three."""
    return (max_states * 3 // 4 - len(window.records)) // 2


def _is_delayed(window: ShareWindow, index: int) -> bool:
    return window.records.states[index] == WAITING and not window.records.times_ms[index]
