"""A share-partition as simple as possible: a dictionary of records, each with its state, and loops over all.

It executes the lines of share_sessions.py, and shares no code with the share-partition that is compared with
it.
"""

from dataclasses import dataclass
from typing import Final

from ottla.logstore.record_batch import iterate_headers

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
TERMINAL: Final = (ACKNOWLEDGED, ARCHIVED)
MOVE_TO: Final = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}
RENEW: Final = 4


class Rejected(Exception):
    """The request is rejected with the error of this name."""


@dataclass
class InFlight:
    state: int
    count: int
    member: str
    lock_ms: int
    batch: tuple[int, int]
    is_moving: bool = False

    @property
    def is_free(self) -> bool:
        return self.state == AVAILABLE and not self.is_moving


class ShareModel:
    """The state of one session."""

    def __init__(self) -> None:
        self.records: dict[int, InFlight] = {}
        self.waiting: list[dict[int, InFlight]] = []
        self.start = self.end = self.now_ms = 0
        self.gap: tuple[int, int] | None = None  # the end offset that was read, and where the gap may begin

    def answer(self, line: str) -> str:
        verb, *words = line.split(" ")
        try:
            result = getattr(self, f"_{verb}")(*words)
        except Rejected as rejected:
            result = str(rejected)
        complete = sum(
            1 for offset, each in self.records.items() if offset >= self.start and each.state in TERMINAL
        )
        following = self.following
        if self.is_gap_active and not self.gaps:
            self.gap = None  # all records are known
        fields = [result, self.start, self.end, following, str(self.may_acquire).lower(), complete]
        return " ".join([*map(str, fields), self.states(self.start)])

    def states(self, start: int) -> str:
        shown = {
            offset: f"{each.state}:{each.count}:{each.member if each.state == ACQUIRED else ''}"
            for offset, each in self.records.items()
            if offset >= start
        }
        return as_ranges(shown)

    # ---- the records to fetch

    @property
    def is_gap_active(self) -> bool:
        return self.gap is not None and self.gap[0] == self.end

    @property
    def following(self) -> int:
        offsets = sorted(self.records)
        if not offsets or self.start > offsets[-1]:
            return self.end
        free = [offset for offset in offsets if self.records[offset].is_free]
        return min([*free, *self.gaps, self.end + 1])

    @property
    def gaps(self) -> list[int]:
        if self.gap is None or not self.is_gap_active:
            return []
        known = {offset for first, last in self.batches for offset in range(first, last + 1)}
        return [offset for offset in range(self.gap[1], self.end + 1) if offset not in known]

    @property
    def batches(self) -> list[tuple[int, int]]:
        return sorted({each.batch for each in self.records.values()})

    @property
    def in_flight(self) -> int:
        return self.end - self.start + 1 if self.records else 0

    @property
    def may_acquire(self) -> bool:
        return self.following != self.end + 1 or self.in_flight < self.max_locks

    # ---- verbs

    def _new(self, locks: str, limit: str, lock_ms: str, start: str, states: str) -> str:
        self.max_locks, self.limit, self.lock_duration_ms = int(locks), int(limit), int(lock_ms)
        self.start = self.end = int(start)
        before = self.start - 1
        for offsets, state, count in (each.split(":") for each in listed(states)):
            first, last = map(int, offsets.split("-"))
            if first > before + 1 and self.gap is None:
                self.gap = (-1, before + 1)
            before = last
            for offset in range(first, last + 1):
                self.records[offset] = InFlight(int(state), int(count), "", 0, (first, last))
        if self.records:
            self.end = before
            if self.gap is not None:
                self.gap = (self.end, self.gap[1])
            self.advance()
        return "new"

    def _acquire(
        self, member: str, mode: str, size: str, most: str, fetch: str, content: str, aborted: str
    ) -> str:
        taken = self.take(
            member, mode == "strict", int(size), int(most), int(fetch), bytes.fromhex(content), aborted
        )
        return "acquired=" + "".join(f"{first}-{last}:{count}," for first, last, count in taken)

    def take(
        self, member: str, is_strict: bool, size: int, most: int, fetch: int, content: bytes, aborted: str
    ) -> list[tuple[int, int, int]]:
        log = [(header.base_offset, header.last_offset) for _, header in iterate_headers(content)]
        base, last = log[0][0], log[-1][1]
        if most <= 0 or last < self.start:
            return []
        room = min(most, self.max_locks - self.in_flight)
        if room <= 0 and fetch <= self.end:
            room, last = min(most, self.end - fetch + 1), min(last, self.end)
        if room <= 0:
            return []
        for offset in range(fetch, base):
            if offset in self.records and self.records[offset].state == AVAILABLE:
                self.records[offset].state = ARCHIVED
        if fetch < base:
            if self.gaps and fetch <= self.gaps[0]:
                self.pass_gaps(base)
            self.advance()
        gone = {each.split(":")[1] for each in listed(aborted)}
        never = {offset for batch in log if str(batch[0]) in gone for offset in range(batch[0], batch[1] + 1)}
        pieces = self.take_from(member, is_strict, size, room, base, last, log)
        if not pieces:
            return []
        self.seen_to(pieces[-1][1] + 1)
        shown: list[tuple[int, int, int]] = []
        for first, last, count in pieces:
            is_new = True
            for offset in range(first, last + 1):
                if offset in never:
                    self.records[offset].state = ARCHIVED
                    is_new = True
                elif is_new:
                    shown.append((offset, offset, count))
                    is_new = False
                else:
                    shown[-1] = (shown[-1][0], offset, count)
        if any(offset in never for first, last, _ in pieces for offset in range(first, last + 1)):
            self.advance()
        return shown

    def take_from(
        self,
        member: str,
        is_strict: bool,
        size: int,
        room: int,
        base: int,
        last: int,
        log: list[tuple[int, int]],
    ) -> list[tuple[int, int, int]]:
        batches = self.batches
        first = max(base, self.start)
        for batch in batches:
            if batch[0] <= base <= batch[1]:
                first = batch[0]
        batches = [batch for batch in batches if min(base, first) <= batch[0] <= last]
        if not batches:
            return self.take_new(member, is_strict, size, room, first, last, log)
        pieces: list[tuple[int, int, int]] = []
        gap_start = first
        for batch in batches:
            count = sum(end - begin + 1 for begin, end, _ in pieces)
            if count >= room:
                return pieces
            if self.is_gap_active:
                if gap_start < batch[0]:
                    pieces += self.take_new(
                        member, is_strict, size, room - count, gap_start, batch[0] - 1, log
                    )
                    count = sum(end - begin + 1 for begin, end, _ in pieces)
                gap_start = batch[1] + 1
                if count >= room:
                    return pieces
            offsets = [
                offset
                for offset in range(max(batch[0], base), min(batch[1], last) + 1)
                if offset in self.records and self.records[offset].is_free
            ]
            failed = max((self.records[offset].count for offset in offsets), default=0)
            is_throttled = failed >= max(2, -(-self.limit // 2))
            if is_throttled and count:
                return pieces
            again = self.take_again(member, offsets, batch, room - count if is_strict else len(offsets))
            pieces += again
            if is_throttled and again:
                return pieces
        count = sum(end - begin + 1 for begin, end, _ in pieces)
        if count < room and batches[-1][1] < last:
            pieces += self.take_new(member, is_strict, size, room - count, batches[-1][1] + 1, last, log)
        return pieces

    def take_again(
        self, member: str, offsets: list[int], batch: tuple[int, int], most: int
    ) -> list[tuple[int, int, int]]:
        threshold = max(2, -(-self.limit // 2))
        pieces: list[tuple[int, int, int]] = []
        most_throttled = -1
        for taken, offset in enumerate(offsets):
            each = self.records[offset]
            is_last = self.limit > 2 and each.count == self.limit - 1
            if is_last and taken:
                break
            if each.count >= threshold and most_throttled < 0:
                most_throttled = max(1, (batch[1] - batch[0] + 1) >> (each.count - threshold + 1))
            each.state, each.member, each.count = ACQUIRED, member, each.count + 1
            each.lock_ms = self.now_ms + self.lock_duration_ms
            if pieces and pieces[-1][1] + 1 == offset and pieces[-1][2] == each.count:
                pieces[-1] = (pieces[-1][0], offset, each.count)
            else:
                pieces.append((offset, offset, each.count))
            if is_last or taken + 1 in (most, most_throttled):
                break
        return pieces

    def take_new(
        self,
        member: str,
        is_strict: bool,
        size: int,
        most: int,
        first: int,
        last: int,
        log: list[tuple[int, int]],
    ) -> list[tuple[int, int, int]]:
        first = max(first, self.start)
        if first > last:
            return []
        if most < last - first + 1:
            wanted = first + most - 1
            ends = [end for begin, end in log if begin <= wanted <= end]
            last = min(last, *ends) if ends else wanted
        cuts = [first]
        if not is_strict:
            for begin, _ in log:
                if begin <= last and begin - cuts[-1] >= size:
                    cuts.append(begin)
        batches = list(zip(cuts, [*(cut - 1 for cut in cuts[1:]), last], strict=True))
        for batch in batches:
            for offset in range(batch[0], batch[1] + 1):
                is_held = not is_strict or offset < first + most
                self.records[offset] = InFlight(
                    ACQUIRED if is_held else AVAILABLE,
                    1 if is_held else 0,
                    member if is_held else "",
                    self.now_ms + self.lock_duration_ms if is_held else 0,
                    batch,
                )
        reach = min(last, first + most - 1) if is_strict else last
        if min(self.records) == first:
            self.start = max(self.start, first)
        self.end = max(self.end, last)
        self.seen_to(reach + 1)
        return [(first, reach, 1)] if is_strict else [(*batch, 1) for batch in batches]

    def seen_to(self, offset: int) -> None:
        if self.gap is not None:
            is_inside = self.is_gap_active and offset <= self.gap[0]
            self.gap = (self.gap[0], max(self.gap[1], offset)) if is_inside else None

    def pass_gaps(self, offset: int) -> None:
        if self.gap is not None:
            self.gap = (self.gap[0], max(self.gap[1], offset))

    def _ack(self, member: str, words: str) -> str:
        moved: dict[int, InFlight] = {}
        try:
            for offsets, types in (each.split(":") for each in listed(words)):
                first, last = map(int, offsets.split("-"))
                self.acknowledge(moved, member, first, last, [int(kind) for kind in types.split(".")])
        except Rejected:
            self.roll_back(moved)
            raise
        return self.written(moved)

    def acknowledge(
        self, moved: dict[int, InFlight], member: str, first: int, last: int, types: list[int]
    ) -> None:
        if last < self.start:
            return
        batches = self.batches
        floor = [batch for batch in batches if batch[0] <= first]
        if not floor and first < self.start:
            floor = [batch for batch in batches if batch[0] <= self.start]
        if not floor:
            raise Rejected("INVALID_RECORD_STATE")
        if max(batch[1] for batch in batches if batch[0] <= last) < last:
            raise Rejected("INVALID_REQUEST")
        for offset in range(max(first, self.start), last + 1):
            if offset not in self.records:
                continue
            each = self.records[offset]
            if each.state != ACQUIRED or each.member != member:
                raise Rejected("INVALID_RECORD_STATE")
            kind = types[offset - first] if len(types) > 1 else types[0]
            if kind == RENEW:
                each.lock_ms = self.now_ms + self.lock_duration_ms
            else:
                self.begin(moved, offset, MOVE_TO[kind])

    def begin(self, moved: dict[int, InFlight], offset: int, state: int) -> None:
        each = self.records[offset]
        each.state = ARCHIVED if state == AVAILABLE and each.count >= self.limit else state
        each.is_moving = True
        moved[offset] = each

    def written(self, moved: dict[int, InFlight]) -> str:
        if not moved:
            return "nothing"
        self.waiting.append(moved)
        complete = sum(
            1 for offset, each in self.records.items() if offset >= self.start and each.state in TERMINAL
        )
        states = as_ranges({offset: f"{each.state}:{each.count}" for offset, each in moved.items()})
        return f"written={self.start}/{complete}/{states}"

    def roll_back(self, moved: dict[int, InFlight]) -> None:
        for offset, each in moved.items():
            each.is_moving = False
            if each.member == "":
                continue  # archived, which is final
            if each.lock_ms > self.now_ms:
                each.state = ACQUIRED
            else:
                is_over = each.count >= self.limit or offset < self.start
                each.state, each.member = ARCHIVED if is_over else AVAILABLE, ""

    def _release(self, member: str) -> str:
        moved: dict[int, InFlight] = {}
        for offset, each in sorted(self.records.items()):
            if each.state == ACQUIRED and each.member == member:
                self.begin(moved, offset, ARCHIVED if offset < self.start else AVAILABLE)
        return self.written(moved)

    def _tick(self, duration_ms: str) -> str:
        self.now_ms += int(duration_ms)
        expired = {}
        for offset, each in self.records.items():
            if each.state == ACQUIRED and each.lock_ms <= self.now_ms:
                is_over = each.count >= self.limit or offset < self.start
                each.state, each.member = ARCHIVED if is_over else AVAILABLE, ""
                expired[offset] = f"{each.state}:{each.count}"
        if expired:
            self.advance()
        return f"expired={as_ranges(expired)}"

    def _settle(self, number: str, outcome: str) -> str:
        moved = self.waiting.pop(int(number))
        if outcome == "ok":
            for each in moved.values():
                each.is_moving, each.member = False, ""
            self.advance()
        else:
            self.roll_back(moved)
        return "settled"

    def _log(self, offset: str) -> str:
        if int(offset) > self.start:
            for each in [each for at, each in self.records.items() if at < int(offset)]:
                if each.state == AVAILABLE:
                    each.state, each.member = ARCHIVED, ""
            self.start = int(offset)
            self.pass_gaps(self.start)
            self.end = max(self.end, self.start)
            self.advance()
        return "moved"

    def advance(self) -> None:
        """Drop the records that are finished, and move the start offset past them."""
        done = []
        for offset, each in sorted(self.records.items()):
            if each.is_moving or each.state not in TERMINAL:
                break
            if self.gaps and offset > self.gaps[0]:
                break
            done.append(offset)
        if not done:
            return
        gaps = self.gaps
        if self.gap is not None and self.is_gap_active:
            # Dropped records are not a gap.
            self.gap = (self.end, gaps[0]) if gaps else None
        for offset in done:
            del self.records[offset]
        if not self.records:
            self.start = self.end = max(self.start, done[-1] + 1)
            return
        self.start = max(self.start, min([*self.records, *gaps]))


def as_ranges(states: dict[int, str]) -> str:
    """Return the states as text, with adjacent offsets in the same state as one range."""
    ranges: list[tuple[int, int, str]] = []
    for offset, words in sorted(states.items()):
        if ranges and ranges[-1][1] + 1 == offset and ranges[-1][2] == words:
            ranges[-1] = (ranges[-1][0], offset, words)
        else:
            ranges.append((offset, offset, words))
    return "".join(f"{first}-{last}:{words}," for first, last, words in ranges) or "-"


def listed(words: str) -> list[str]:
    return [] if words == "-" else words.split(",")
