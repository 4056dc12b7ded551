"""An index of the records of a share-partition that are not due yet, in some 16 bytes a record.

Records are added in the order of offsets and removed in the order of time. They are kept in a list of blocks.
A block has its offsets in order, and its times in order, each with the place of its record. A heap has the
next time of each block. Blocks that are nearly empty are joined, so there are never more than a few objects
for a thousand records.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final

BLOCK_RECORDS: Final = 2048  # sorted again in half a millisecond; at most 65,536, as places have 16 bits
MAX_SPAN: Final = 2**32 - 1  # of the offsets of a block, which are relative to its first
FEW_RECORDS: Final = BLOCK_RECORDS // 4
_WAITS: Final = 0
_GONE: Final = 1
# This many entries of the heap are cheap to keep, however few blocks there are.
_FEW_ENTRIES: Final = 64
COMPACTED_AT_ONCE: Final = 4  # blocks, of up to half a millisecond each


class _Block:
    """A block of records in the order of offsets: those that wait, and those that were removed."""

    __slots__ = ("base", "flags", "heap_time", "next", "offsets", "places", "times", "waiting")

    def __init__(self, base: int) -> None:
        self.base = base
        self.offsets = array("I")  # relative to the base, in order
        self.flags = bytearray()  # by place in `offsets`
        self.times = array("q")  # in order; `places` has the place of each time's record
        self.places = array("H")
        self.next = 0  # an index in `times`; earlier times were taken
        self.waiting = 0
        self.heap_time: int | None = None  # the time of its valid entry in the heap

    @property
    def last_offset(self) -> int:
        return self.base + self.offsets[-1]

    def takes(self, offset: int) -> bool:
        return len(self.offsets) < BLOCK_RECORDS and offset - self.base <= MAX_SPAN

    def add(self, offsets: Sequence[int], times: Sequence[int]) -> None:
        first = len(self.offsets)
        base = self.base
        self.offsets.extend([offset - base for offset in offsets])
        self.flags.extend(bytes(len(offsets)))
        self.waiting += len(offsets)
        if len(offsets) == 1:
            place = bisect_right(self.times, times[0], self.next)
            self.times.insert(place, times[0])
            self.places.insert(place, first)
            return
        if self.next == len(self.times) or times[0] >= self.times[-1]:
            ordered_times = array("q", times)
            if list(ordered_times) == sorted(ordered_times):  # usual: all have the same delay
                self.times.extend(ordered_times)
                self.places.extend(range(first, first + len(times)))
                return
        kept = zip(self.times[self.next :], self.places[self.next :], strict=True)
        ordered = sorted([*kept, *zip(times, range(first, first + len(times)), strict=True)])
        self.times = array("q", [time for time, _ in ordered])
        self.places = array("H", [place for _, place in ordered])
        self.next = 0

    def next_time(self) -> int | None:
        """Return the time at which the next waiting record is due, None if none waits."""
        places, flags, size = self.places, self.flags, len(self.places)
        while self.next < size and flags[places[self.next]]:
            self.next += 1
        return self.times[self.next] if self.next < size else None

    def take_due(self, now_ms: int, max_records: int) -> list[int]:
        """Remove due records and return their offsets, in the order of time."""
        end = min(bisect_right(self.times, now_ms, self.next), self.next + max_records)
        due = [place for place in self.places[self.next : end] if not self.flags[place]]
        self.next = end
        for place in due:
            self.flags[place] = _GONE
        self.waiting -= len(due)
        return [self.base + self.offsets[place] for place in due]

    def drop(self, begin: int, end: int) -> int:
        """Remove the records at these places; return how many of them waited."""
        count = self.flags.count(_WAITS, begin, end)
        self.flags[begin:end] = bytes([_GONE]) * (end - begin)
        self.waiting -= count
        return count

    def left(self) -> list[tuple[int, int]]:
        """Return the waiting records as (offset, time), in the order of offsets."""
        pairs = zip(self.places[self.next :], self.times[self.next :], strict=True)
        kept = sorted([pair for pair in pairs if not self.flags[pair[0]]])
        return [(self.base + self.offsets[place], time) for place, time in kept]

    def run_at(self, place: int) -> tuple[int, int] | None:
        """Return first and last offset of the next contiguous waiting records, from this place on."""
        place = self.flags.find(_WAITS, place)
        if place < 0:
            return None
        end = self.flags.find(_GONE, place)
        end = len(self.flags) if end < 0 else end
        offsets, first = self.offsets, self.offsets[place]
        if offsets[end - 1] - first != end - 1 - place:
            ahead = first - place
            end = bisect_right(range(end), ahead, place, key=lambda one: offsets[one] - one)
        return self.base + first, self.base + offsets[end - 1]


class DelayedIndex:
    """The records of one share-partition that are not due yet."""

    __slots__ = (
        "_blocks",
        "_count",
        "_firsts",
        "_heap",
        "_sparse",
        "max_records",
        "next_offset",
        "stopped_at",
    )

    def __init__(self, max_records: int) -> None:
        assert max_records > 0
        self.max_records = max_records  # replaced when the topic's settings change
        self.next_offset = 0  # all records before it were seen
        self.stopped_at: int | None = None  # the first record for which there was no room
        self._blocks: list[_Block] = []
        self._firsts: list[int] = []  # base offsets of the blocks
        self._heap: list[tuple[int, int]] = []  # (time, base offset of a block)
        self._sparse: dict[int, None] = {}  # base offsets of blocks that may be nearly empty
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Return True if there is no room for more records until others are due."""
        return self._count >= self.max_records

    # ---- records that a fetch has read

    def add(self, offsets: Sequence[int], due_ms: Sequence[int]) -> bool:
        """Add records in the order of offsets; skip records seen before.

        Return True if there was room for all; if not, `stopped_at` is the first record left out.
        """
        self._compact_some()
        begin = bisect_left(offsets, self.next_offset)
        room = max(self.max_records - self._count, 0)
        end = min(len(offsets), begin + room)
        while begin < end:
            block = self._blocks[-1] if self._blocks else None
            if block is None or not block.takes(offsets[begin]):
                block = self._new_block(offsets[begin])
            until = min(end, begin + BLOCK_RECORDS - len(block.offsets))
            if offsets[until - 1] - block.base > MAX_SPAN:
                until = bisect_right(offsets, block.base + MAX_SPAN, begin, until)
            block.add(offsets[begin:until], due_ms[begin:until])
            self._count += until - begin
            self._put_in_heap(block)
            begin = until
        if end < len(offsets):
            self.note_seen_before(offsets[end])
            self.stopped_at = offsets[end]
            return False
        if offsets:
            self.note_seen_before(offsets[-1] + 1)
        return True

    def note_seen_before(self, offset: int) -> None:
        """Note that all records before this offset were seen."""
        self.next_offset = max(self.next_offset, offset)
        if self.stopped_at is not None and self.stopped_at < self.next_offset:
            self.stopped_at = None

    # ---- time

    def next_ms(self) -> int | None:
        """Return the time at which the next record is due, None if none waits."""
        while self._heap:
            time, base = self._heap[0]
            block = self._block_of(base, time)
            if block is not None:
                next_time = block.next_time()
                if next_time == time:
                    return time
                heappop(self._heap)
                self._put_in_heap(block)
            else:
                heappop(self._heap)
        return None

    def take_due(self, now_ms: int, max_records: int) -> list[tuple[int, int]]:
        """Remove due records, at most `max_records`; return their ranges of offsets, in order.

        If more are due, `next_ms` is not later than now.
        """
        self._compact_some()
        due: list[int] = []
        while len(due) < max_records:
            next_ms = self.next_ms()
            if next_ms is None or next_ms > now_ms:
                break
            _, base = heappop(self._heap)
            block = self._blocks[bisect_left(self._firsts, base)]
            taken = block.take_due(now_ms, max_records - len(due))
            due += taken
            self._count -= len(taken)
            block.heap_time = None
            self._shrank(block)
        if due:
            self.stopped_at = None
        return _ranges(sorted(due))

    def take_at(self, offset: int, now_ms: int) -> bool:
        """Remove this record and return True if it is due."""
        due_ms = self.due_at(offset)
        if due_ms is None or due_ms > now_ms:
            return False
        self._drop(offset, offset)
        return True

    def due_at(self, offset: int) -> int | None:
        """Return the time at which this record is due, None if it does not wait."""
        block = self._block_at(offset)
        if block is None:
            return None
        place = bisect_left(block.offsets, offset - block.base) if offset >= block.base else 0
        is_there = place < len(block.offsets) and block.base + block.offsets[place] == offset
        if not is_there or block.flags[place]:
            return None
        return block.times[block.places.index(place, block.next)]

    # ---- offsets

    def next_waiting(self, offset: int) -> tuple[int, int] | None:
        """Return first and last offset of the next contiguous waiting records, at or after an offset."""
        number = self._number_at(offset)
        found: tuple[int, int] | None = None
        while number < len(self._blocks):
            block = self._blocks[number]
            begin = max(offset - block.base, 0)
            run = block.run_at(bisect_left(block.offsets, begin) if begin <= MAX_SPAN else len(block.offsets))
            if found is not None:
                if run is None or run[0] != found[1] + 1:
                    return found
                run = found[0], run[1]
            if run is not None:
                found = run
                if run[1] < block.last_offset:
                    return found
            number += 1
        return found

    def waiting_within(self, first: int, last: int, max_ranges: int = 2**31) -> list[tuple[int, int]]:
        """Return the ranges of waiting records among these offsets, at most `max_ranges`."""
        found: list[tuple[int, int]] = []
        while first <= last and len(found) < max_ranges:
            run = self.next_waiting(first)
            if run is None or run[0] > last:
                break
            found.append((run[0], min(run[1], last)))
            first = run[1] + 1
        return found

    def drop_before(self, offset: int) -> None:
        """Remove all records before an offset: the log or the group is done with them."""
        self.note_seen_before(offset)
        number = 0
        while number < len(self._blocks) and self._blocks[number].last_offset < offset:
            self._count -= self._blocks[number].waiting
            number += 1
        if number:
            self._delete(0, number)
        if self._blocks and self._firsts[0] < offset:
            self._drop(self._firsts[0], offset - 1)
        if self._count < self.max_records:
            self.stopped_at = None

    def check_invariants(self) -> None:
        """Assert the invariants of the index."""
        assert self._count == sum(block.waiting for block in self._blocks), self._count
        assert self._firsts == [block.base for block in self._blocks], self._firsts
        entries = set(self._heap)
        before = -1
        for block in self._blocks:
            assert before < block.base + block.offsets[0], (before, block.base)
            assert list(block.offsets) == sorted(set(block.offsets)), block.base
            left = list(block.times[block.next :])
            assert left == sorted(left), block.base
            assert block.waiting == block.flags.count(_WAITS) == len(block.left()) > 0, block.base
            assert block.base in self._sparse or len(block.offsets) <= 2 * block.waiting, block.base
            assert (block.heap_time, block.base) in entries, block.base
            next_time = block.next_time()
            assert next_time is not None and block.heap_time is not None
            assert block.heap_time <= next_time, block.base
            before = block.last_offset
        assert before < self.next_offset or not self._blocks, (before, self.next_offset)
        for number in range(len(self._blocks) if not self._sparse else 0):
            assert not self._may_join(number), f"block {number} and the next should be joined"

    # ---- blocks

    def _number_at(self, offset: int) -> int:
        """Return the number of the last block that begins at or before this offset, or 0."""
        return max(bisect_right(self._firsts, offset) - 1, 0)

    def _block_at(self, offset: int) -> _Block | None:
        return self._blocks[self._number_at(offset)] if self._blocks else None

    def _block_of(self, base: int, time: int) -> _Block | None:
        """Return the block of an entry of the heap, None if the entry is stale."""
        number = bisect_left(self._firsts, base)
        if number == len(self._firsts) or self._firsts[number] != base:
            return None
        block = self._blocks[number]
        return block if block.heap_time == time else None

    def _new_block(self, offset: int) -> _Block:
        block = _Block(offset)
        if self._firsts:
            self._sparse[self._firsts[-1]] = None
        self._blocks.append(block)
        self._firsts.append(offset)
        return block

    def _put_in_heap(self, block: _Block) -> None:
        time = block.next_time()
        if time is None or time == block.heap_time:
            return
        block.heap_time = time
        heappush(self._heap, (time, block.base))
        if len(self._heap) > 2 * len(self._blocks) + _FEW_ENTRIES:
            times = ((each.heap_time, each.base) for each in self._blocks)
            self._heap = [(time, base) for time, base in times if time is not None]
            heapify(self._heap)

    def _drop(self, first: int, last: int) -> None:
        """Remove records of one block."""
        block = self._block_at(first)
        if block is None:
            return
        begin = bisect_left(block.offsets, max(first - block.base, 0))
        end = bisect_right(block.offsets, last - block.base)
        self._count -= block.drop(begin, end)
        self._shrank(block)

    def _shrank(self, block: _Block) -> None:
        """Update the index after records of a block were removed."""
        if not block.waiting:
            number = bisect_left(self._firsts, block.base)
            self._delete(number, number + 1)
            if number:
                self._sparse[self._firsts[number - 1]] = None
            return
        self._put_in_heap(block)
        if len(block.offsets) > 2 * block.waiting or block.waiting <= FEW_RECORDS:
            self._sparse[block.base] = None

    def _compact_some(self) -> None:
        """Rebuild some nearly empty blocks, each joined with a neighbour if that is nearly empty, too."""
        for _ in range(COMPACTED_AT_ONCE):
            if not self._sparse:
                return
            base, _ = self._sparse.popitem()
            number = bisect_left(self._firsts, base)
            if number == len(self._firsts) or self._firsts[number] != base:
                continue
            if self._may_join(number):
                self._rebuild_blocks(number, number + 2)
            elif number and self._may_join(number - 1):
                number -= 1
                self._rebuild_blocks(number, number + 2)
            elif len(self._blocks[number].offsets) > 2 * self._blocks[number].waiting:
                self._rebuild_blocks(number, number + 1)
            else:
                continue
            self._sparse[self._firsts[number]] = None

    def _may_join(self, number: int) -> bool:
        """Return True if a block and the next one are so empty that they can be joined."""
        if number + 1 >= len(self._blocks):
            return False
        one, two = self._blocks[number : number + 2]
        return one.waiting + two.waiting <= FEW_RECORDS and two.last_offset - one.base <= MAX_SPAN

    def _rebuild_blocks(self, begin: int, end: int) -> None:
        left = [pair for block in self._blocks[begin:end] for pair in block.left()]
        self._delete(begin, end)
        made = _Block(left[0][0])
        made.add([offset for offset, _ in left], [time for _, time in left])
        self._blocks.insert(begin, made)
        self._firsts.insert(begin, made.base)
        self._put_in_heap(made)

    def _delete(self, begin: int, end: int) -> None:
        del self._blocks[begin:end]
        del self._firsts[begin:end]


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return ordered offsets as ranges of contiguous offsets."""
    found: list[tuple[int, int]] = []
    begin = 0
    while begin < len(offsets):
        end = bisect_right(
            range(len(offsets)), offsets[begin] - begin, begin, key=lambda one: offsets[one] - one
        )
        found.append((offsets[begin], offsets[end - 1]))
        begin = end
    return found
