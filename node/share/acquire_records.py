"""Gives the records of a fetch to a member, with a lock on each.

Available records in flight come first, then new ones. New records are acquired in whole batches of the log,
cut into pieces of some `batch_size`, even if that is more than the member asked for. In strict mode
(`record_limit`) it is never more, and the rest of the batch is available to other members. Records near the
delivery limit are throttled: the more often they failed, the smaller the pieces, and the last delivery is of
a single record, so that one bad record does not fail its neighbours.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ottla.node.share.delayed_delivery import may_take_new, note_fetched, waiting_of
from ottla.node.share.in_flight_records import ACQUIRED, AVAILABLE
from ottla.node.share.share_window import MAX_OFFSET, ShareWindow
from ottla.node.share.share_words import AcquiredRecords, FetchedRecords, ShareConfig

_ACQUIRED_ONLY = frozenset({ACQUIRED})
_AVAILABLE_ONLY = frozenset({AVAILABLE})
# Ranges that one fetch acquires, some 15 us each; others wait for the next fetch.
MAX_ACQUIRED_RANGES = 1_024
# Ranges that are not due yet and that one fetch skips, some 15 us each, too.
MAX_PASSED_RANGES = 512


class Acquisition(NamedTuple):
    """The arguments of one acquisition: a fetch of one member, and the share-partition's state."""

    window: ShareWindow
    config: ShareConfig
    max_states: int
    member: str
    now_ms: int
    fetched: FetchedRecords
    batch_size: int
    is_strict: bool


def acquire(acquisition: Acquisition, max_records: int) -> list[AcquiredRecords]:
    """Acquire records of a fetch in order: at most `max_records`, and the rest of a batch if not strict."""
    window, fetched = acquisition.window, acquisition.fetched
    if max_records <= 0 or not fetched.base_offsets or fetched.last_offsets[-1] < window.start_offset:
        return []
    if window.delayed is not None:
        # First, because records that the log has lost may occupy the ranges that new records need.
        _archive_vanished(window, fetched.fetch_offset, fetched.base_offsets[0])
        fetched = note_fetched(window, fetched, acquisition.max_states)
        if not fetched.base_offsets:
            return []
        acquisition = acquisition._replace(fetched=fetched)
    limit, last = _limits(acquisition, max_records)
    if limit <= 0:
        return []
    base = fetched.base_offsets[0]
    _archive_vanished(window, fetched.fetch_offset, base)
    acquired = _acquire_from(acquisition, base, last, limit)
    if not acquired:
        return []
    window.note_acquired_before(acquired[-1].last_offset + 1)
    return _without_undeliverable(acquisition, acquired)


def _limits(acquisition: Acquisition, max_records: int) -> tuple[int, int]:
    """Return the number of records that may be acquired, and the last offset."""
    window, fetched = acquisition.window, acquisition.fetched
    last = fetched.last_offsets[-1]
    room = min(max_records, acquisition.config.partition_max_record_locks - window.in_flight_count())
    if room <= 0 and fetched.fetch_offset <= window.end_offset:
        # No more records may be in flight, but those that are may be acquired again.
        return min(max_records, window.end_offset - fetched.fetch_offset + 1), min(last, window.end_offset)
    return room, last


def _archive_vanished(window: ShareWindow, fetch_offset: int, base_offset: int) -> None:
    """Archive available records between the offset of a fetch and its first batch: they were compacted."""
    if fetch_offset >= base_offset:
        return
    gap = window.next_gap()
    is_gap_empty = gap is not None and fetch_offset <= gap  # the log has no records for it
    if is_gap_empty:
        window.note_nothing_before(base_offset)
    is_any_archived = window.archive(fetch_offset, base_offset - 1, _AVAILABLE_ONLY, is_counted=True)
    if is_any_archived:
        window.note_available()
    if is_any_archived or is_gap_empty:
        window.advance_start()


def _acquire_from(acquisition: Acquisition, base: int, last: int, limit: int) -> list[AcquiredRecords]:
    window, records = acquisition.window, acquisition.window.records
    floor = records.floor_batch(base)
    if floor >= 0 and records.batch_lasts[floor] >= base:
        first = records.batch_firsts[floor]
    else:
        first = max(base, window.start_offset)
    begin, end = bisect_left(records.batch_firsts, min(base, first)), records.floor_batch(last) + 1
    # Copies, since the loop adds batches between these.
    firsts, lasts = records.batch_firsts[begin:end], records.batch_lasts[begin:end]
    if not firsts:
        return _acquire_new(acquisition, first, last, limit)
    acquired: list[AcquiredRecords] = []
    count = 0
    gap_start = first
    available = -1  # the first offset that may be acquired again, as of the last search
    place = 0
    while place < len(firsts):
        batch_first, batch_last = firsts[place], lasts[place]
        place += 1
        if count >= limit or len(acquired) >= MAX_ACQUIRED_RANGES:
            return acquired
        if window.is_gap_active():
            if gap_start < batch_first:
                new = _acquire_new(acquisition, gap_start, batch_first - 1, limit - count)
                acquired += new
                count += _count(new)
                gap = None if new else window.next_gap()
                if gap is not None and gap < batch_first:
                    return acquired  # no room for the gap: if skipped, it would never be fetched again
            gap_start = batch_last + 1
            if count >= limit:
                return acquired
        first, reach = max(batch_first, base), min(batch_last, last)
        if available < first:
            index = records.next_available(records.index_at(first))
            available = max(first, records.firsts[index]) if index >= 0 else MAX_OFFSET
        if available > reach:  # skip batches without available records: there may be very many
            if not window.is_gap_active():
                place = bisect_left(lasts, available, place)
            continue
        is_throttled = _is_throttled(acquisition, first, reach)
        if is_throttled and count:
            return acquired
        size = batch_last - batch_first + 1
        again = _acquire_again(acquisition, first, reach, size, limit - count)
        acquired += again
        count += _count(again)
        if is_throttled and again:
            return acquired
    if count < limit and lasts[-1] < last:
        acquired += _acquire_new(acquisition, lasts[-1] + 1, last, limit - count)
    return acquired


# ---- records in flight


def _is_throttled(acquisition: Acquisition, first: int, last: int) -> bool:
    """Return True if an available record among these has failed so often that it is throttled."""
    records, throttled_from = acquisition.window.records, acquisition.config.throttled_from_count
    begin, end = records.span(first, last)
    index = records.next_available(begin)
    while 0 <= index < end:
        if records.counts[index] >= throttled_from:
            return True
        index = records.next_available(index + 1)
    return False


def _acquire_again(
    acquisition: Acquisition, first: int, last: int, batch_size: int, max_records: int
) -> list[AcquiredRecords]:
    """Acquire the available records from `first` to `last`, of one batch of `batch_size` records."""
    records, config = acquisition.window.records, acquisition.config
    delivery_limit, throttled_from = config.delivery_count_limit, config.throttled_from_count
    acquired: list[AcquiredRecords] = []
    taken = 0
    most_throttled: int | None = None
    while first <= last:
        index = records.next_available(records.index_at(first))
        if index < 0 or records.firsts[index] > last:
            break
        begin, end = max(first, records.firsts[index]), min(last, records.lasts[index])
        first = end + 1
        delivered = records.counts[index]
        is_last_delivery = delivery_limit > 2 and delivered == delivery_limit - 1
        if is_last_delivery and taken:
            break
        if delivered >= throttled_from and most_throttled is None:
            most_throttled = max(1, batch_size >> (delivered - throttled_from + 1))
        most = end - begin + 1
        if is_last_delivery:
            most = 1
        if acquisition.is_strict:
            most = min(most, max_records - taken)
        if most_throttled is not None and most_throttled > taken:
            most = min(most, most_throttled - taken)
        is_all = most == end - begin + 1
        end = begin + most - 1
        _hold(acquisition, begin, end, delivered + 1)
        taken += most
        before = acquired[-1] if acquired else None
        if before and before.last_offset + 1 == begin and before.delivery_count == delivered + 1:
            acquired[-1] = before._replace(last_offset=end)
        else:
            acquired.append(AcquiredRecords(begin, end, delivered + 1))
        if (
            not is_all
            or is_last_delivery
            or (acquisition.is_strict and taken == max_records)
            or taken == most_throttled
            or len(acquired) >= MAX_ACQUIRED_RANGES
        ):
            break
    return acquired


def _hold(acquisition: Acquisition, first: int, last: int, delivery_count: int) -> None:
    window, records = acquisition.window, acquisition.window.records
    begin, end = records.cut_out(first, last)
    assert end == begin + 1, (first, last)
    time_ms = acquisition.now_ms + acquisition.config.record_lock_duration_ms
    records.move(begin, ACQUIRED, acquisition.member, time_ms)
    records.counts[begin] = delivery_count
    window.highest_count = max(window.highest_count, acquisition.config.delivery_count_limit)
    window.locks.add(time_ms, first, last)
    records.merge(begin, end)


# ---- new records


def _acquire_new(acquisition: Acquisition, first: int, last: int, max_records: int) -> list[AcquiredRecords]:
    """Acquire records from `first` to `last` that are not in flight yet."""
    window, records = acquisition.window, acquisition.window.records
    first = max(first, window.start_offset)
    if first > last or not may_take_new(window, first, acquisition.max_states):
        return []
    waiting, last = _waiting_between(acquisition, first, last)
    reach = min(last, _nth_due(first, waiting, max_records))
    if reach < last:
        last = min(last, _end_of_batch(acquisition.fetched, reach))
    time_ms = acquisition.now_ms + acquisition.config.record_lock_duration_ms
    window.highest_count = max(window.highest_count, acquisition.config.delivery_count_limit)
    rest: list[AcquiredRecords] = []
    if acquisition.is_strict:
        acquired = [AcquiredRecords(first, reach, 1)]
        records.add(first, last, state=ACQUIRED, count=1, holder=acquisition.member, time_ms=time_ms)
        if reach < last:
            rest.append(AcquiredRecords(reach + 1, last, 1))
    else:
        acquired = _pieces(acquisition, first, last)
        reach = last
        for piece in acquired:
            begin, end, _ = piece
            records.add(begin, end, state=ACQUIRED, count=1, holder=acquisition.member, time_ms=time_ms)
    window.locks.add(time_ms, first, reach)
    if records.batch_firsts[0] == first:
        window.start_offset = max(window.start_offset, first)
    window.end_offset = max(window.end_offset, last)
    window.note_acquired_before(reach + 1)
    not_due, not_due_behind = _common(acquired, waiting), _common(rest, waiting)
    for begin, end in (*not_due, *not_due_behind):
        _delay(window, begin, end)
    for begin, end, _ in _without(rest, not_due_behind):
        place, _ = records.cut_out(begin, end)
        records.move(place, AVAILABLE, None, 0)
        records.counts[place] = 0
        window.note_available()
    return _without(acquired, not_due)


def _waiting_between(acquisition: Acquisition, first: int, last: int) -> tuple[list[tuple[int, int]], int]:
    """Return the ranges of new records that are not due yet, and the last offset for which they are known."""
    index = acquisition.window.delayed
    if index is None or not index:
        return [], last
    runs = index.waiting_within(first, last, MAX_PASSED_RANGES + 1)
    if len(runs) > MAX_PASSED_RANGES:
        last = runs.pop()[0] - 1
    # Records of an aborted transaction are archived at once, even if they are not due.
    spans = [AcquiredRecords(begin, end, 0) for begin, end in runs]
    never = _common(spans, acquisition.fetched.never_delivered)
    return [(begin, end) for begin, end, _ in _without(spans, never)], last


def _nth_due(first: int, waiting: Sequence[tuple[int, int]], count: int) -> int:
    """Return the offset of the `count`-th due record from `first` on."""
    for begin, end in waiting:
        if first + count <= begin:
            break
        count -= begin - first
        first = end + 1
    return first + count - 1


def _pieces(acquisition: Acquisition, first: int, last: int) -> list[AcquiredRecords]:
    """Cut new records into pieces of at least the batch size, each at the start of a batch of the log."""
    pieces: list[AcquiredRecords] = []
    size = max(acquisition.batch_size, 1)
    if last - first + 1 > size:
        bases = acquisition.fetched.base_offsets
        place = bisect_left(bases, first + size)
        while place < len(bases) and bases[place] <= last:
            pieces.append(AcquiredRecords(first, bases[place] - 1, 1))
            first = bases[place]
            place = bisect_left(bases, first + size, place)
    pieces.append(AcquiredRecords(first, last, 1))
    return pieces


def _end_of_batch(fetched: FetchedRecords, offset: int) -> int:
    """Return the last offset of the batch that has this offset, or the offset itself if none has it."""
    place = bisect_right(fetched.base_offsets, offset) - 1
    return max(offset, fetched.last_offsets[place]) if place >= 0 else offset


# ---- acquired records that are not delivered


def _without_undeliverable(
    acquisition: Acquisition, acquired: list[AcquiredRecords]
) -> list[AcquiredRecords]:
    """Remove records that are not delivered: archive those of aborted transactions, delay those not due."""
    window = acquisition.window
    if acquisition.fetched.never_delivered:
        taken_out = _common(acquired, acquisition.fetched.never_delivered)
        for first, last in taken_out:
            window.archive(first, last, _ACQUIRED_ONLY, is_counted=True)
        acquired = _without(acquired, taken_out)
        if taken_out:
            # No write is made for these. If only the next acknowledgement moved the start offset, a window
            # full of aborted records would stand still for ever.
            window.advance_start()
    not_due = waiting_of(window, acquired)
    for first, last in not_due:
        _delay(window, first, last)
    return _without(acquired, not_due)


def _delay(window: ShareWindow, first: int, last: int) -> None:
    """Let acquired records wait until they are due, and do not count this as a delivery."""
    records = window.records
    begin, end = records.cut_out(first, last)
    for index in range(begin, end):
        records.counts[index] -= 1
        window.delay(index, 0)
    records.merge(begin, end)


def _common(acquired: Sequence[AcquiredRecords], ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the intersection of acquired records and ranges, both in order."""
    common = []
    place = 0
    for first, last, _ in acquired:
        while place < len(ranges) and ranges[place][1] < first:
            place += 1
        here = place
        while here < len(ranges) and ranges[here][0] <= last:
            common.append((max(first, ranges[here][0]), min(last, ranges[here][1])))
            here += 1
    return common


def _without(
    acquired: Sequence[AcquiredRecords], taken_out: Sequence[tuple[int, int]]
) -> list[AcquiredRecords]:
    """Return acquired records without these ranges, each of which lies within one of them."""
    left = []
    place = 0
    for first, last, delivery_count in acquired:
        while place < len(taken_out) and taken_out[place][0] <= last:
            gone_first, gone_last = taken_out[place]
            if first < gone_first:
                left.append(AcquiredRecords(first, gone_first - 1, delivery_count))
            first = gone_last + 1
            place += 1
        if first <= last:
            left.append(AcquiredRecords(first, last, delivery_count))
    return left


def _count(acquired: Sequence[AcquiredRecords]) -> int:
    return sum(each.record_count for each in acquired)
