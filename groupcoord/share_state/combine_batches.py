"""Combines the batches of two states into one list without overlaps (D60).

Where batches overlap, the higher delivery count holds, and among equal counts the higher delivery state: a
record is delivered ever more often, and stays acknowledged or archived. Adjacent batches with the same count
and state become one. Records before the start offset are left out.

A write is small compared with the known state, so only the batches that it touches are looked at.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise, starmap
from operator import attrgetter

from ottla.groupcoord.share_state.share_state_words import NOT_GIVEN, StateBatch

Batches = tuple[StateBatch, ...]

_first_offset = attrgetter("first_offset")
_last_offset = attrgetter("last_offset")


def combine_batches(known: Batches, written: Iterable[StateBatch], start_offset: int) -> Batches:
    """Return the combined batches from `start_offset` on (-1: from the first).

    `known` must be in order and must not overlap; `written` may be in any order.
    """
    known = _from(known, start_offset)
    added = list(written)
    is_ordered = is_in_order(added)
    if is_ordered:
        added = list(_from(tuple(added), start_offset))
    else:
        added = [cut for batch in added for cut in _from((batch,), start_offset)]
    if not added:
        return known
    if is_ordered:
        first_offset, last_offset = added[0].first_offset, added[-1].last_offset
    else:
        first_offset, last_offset = min(map(_first_offset, added)), max(map(_last_offset, added))
    # Include batches that are only adjacent, as they may have the same state.
    begin = bisect_left(known, first_offset - 1, key=_last_offset)
    end = bisect_right(known, last_offset + 1, lo=begin, key=_first_offset)
    touched = known[begin:end]
    swept = _merged(touched, added) if is_ordered else _swept([*touched, *added])
    return (*known[:begin], *swept, *known[end:])


def is_in_order(batches: Sequence[StateBatch]) -> bool:
    """Return True if the batches are in order and do not overlap."""
    return all(one.last_offset < next_.first_offset for one, next_ in pairwise(batches))


def _from(batches: Batches, start_offset: int) -> Batches:
    if start_offset == NOT_GIVEN or not batches or batches[0].first_offset >= start_offset:
        return batches
    batches = batches[bisect_left(batches, start_offset, key=_last_offset) :]
    if batches and batches[0].first_offset < start_offset:
        return (batches[0]._replace(first_offset=start_offset), *batches[1:])
    return batches


def _merged(left: Sequence[StateBatch], right: Sequence[StateBatch]) -> list[StateBatch]:
    """Merge two lists, each of which is in order: in a third of the time that `_swept` takes."""
    merged: list[StateBatch] = []
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None and other is not None:
        if one[0] > other[0]:
            one, other, lefts, rights = other, one, rights, lefts
        first, last, state, count = one
        begin, end, other_state, other_count = other
        if last < begin:
            _add(merged, one)
            one = next(lefts, None)
            continue
        if first == begin and last == end:  # most often: records that were acknowledged one by one
            _add(merged, other if (other_count, other_state) > (count, state) else one)
            one, other = next(lefts, None), next(rights, None)
            continue
        if first < begin:
            _add(merged, StateBatch(first, begin - 1, state, count))
        both = min(last, end)
        if (other_count, other_state) > (count, state):
            state, count = other_state, other_count
        _add(merged, StateBatch(begin, both, state, count))
        one = next(lefts, None) if last == both else StateBatch(both + 1, *one[1:])
        other = next(rights, None) if end == both else StateBatch(both + 1, *other[1:])
    for batch, batches in ((one, lefts), (other, rights)):
        if batch is None:
            continue
        _add(merged, batch)
        rest = list(batches)
        if (rest and _can_combine(merged[-1], rest[0])) or any(starmap(_can_combine, pairwise(rest))):
            for each in rest:
                _add(merged, each)
        else:
            merged += rest
    return merged


def _can_combine(before: StateBatch, after: StateBatch) -> bool:
    """Return True if two adjacent batches have the same count and state."""
    return before[3] == after[3] and before[2] == after[2] and before[1] + 1 == after[0]


def _swept(batches: list[StateBatch]) -> list[StateBatch]:
    """Combine batches in one sweep over the offsets: of those that cover an offset the highest holds."""
    batches.sort()
    begun: list[tuple[int, int, int]] = []  # a heap: the highest count first, then the highest state
    swept: list[StateBatch] = []
    offset, index = 0, 0
    while index < len(batches) or begun:
        if not begun:
            offset = max(offset, batches[index].first_offset)
        while index < len(batches) and batches[index].first_offset <= offset:
            batch = batches[index]
            heapq.heappush(begun, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            index += 1
        while begun and begun[0][2] < offset:
            heapq.heappop(begun)
        if not begun:
            continue
        count, state, last_offset = begun[0]
        if index < len(batches):
            last_offset = min(last_offset, batches[index].first_offset - 1)
        _add(swept, StateBatch(offset, last_offset, -state, -count))
        offset = last_offset + 1
    return swept


def _add(swept: list[StateBatch], batch: StateBatch) -> None:
    if swept:
        before = swept[-1]
        if before[3] == batch[3] and before[2] == batch[2] and before[1] + 1 == batch[0]:
            swept[-1] = StateBatch(before[0], *batch[1:])
            return
    swept.append(batch)
