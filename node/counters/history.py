"""The history of a node's counters, for charts: the last 360 samples of a few numbers.

It has no counters of its own: `note` takes the present values of others, and stores by how much each grew per
second since the previous sample. A sample belongs to a slot of the wall clock, so that samples of several
nodes can be added up.

The memory for it is a part of the node's budget. When it is full, a topic or group that changes takes the
place of one that has not changed for `QUIET_SLOTS`; if there is none, it gets no history.
"""

import sys
from array import array
from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import nan
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words.latency import BOUNDS_S

SLOTS: Final = 360  # an hour, with a sample every ten seconds
QUIET_SLOTS: Final = 30
# A busy node may miss up to so many slots in a row: they get the next sample, whose rates cover their time.
# After a longer gap they are NaN.
MISSED_SLOTS: Final = 3
BUCKETS: Final = len(BOUNDS_S) + 1
VALUE_BYTES: Final = 4  # single precision is exact enough for a line in a chart
RING_BYTES: Final = 600  # of a topic, a group or the node besides the samples: its name and last values
LEFT_OUT_BYTES: Final = 250  # of a topic or group without a history: its name and last values
LEFT_OUT_SHARE: Final = 8  # of the memory, an eighth is for topics and groups without a history
_FLOATS: Final = "f"


class Kind(IntEnum):
    """The kinds of objects that have a history. The numbers are sent to other nodes."""

    NODE = 0
    TOPIC = 1
    GROUP = 2


class Column(NamedTuple):
    """One number of each sample. If the number only `grows`, the sample stores its growth per second."""

    name: str
    grows: bool = True


def latency_column(api: str, bucket: int) -> str:
    """Return the name of the column that counts the requests in one bucket of `LatencyHistogram`."""
    return f"{api}_latency_{bucket}"


PRODUCE: Final = "produce"
FETCH: Final = "fetch"
NO_REQUESTS: Final = (0,) * BUCKETS
METERS: Final = ("bytes_in", "bytes_out", "messages_in", "replication_bytes_in", "replication_bytes_out")
TOPIC_METERS: Final = METERS[:3]
SIZE: Final = Column("size_bytes", grows=False)
COLUMNS: Final[Mapping[Kind, Sequence[Column]]] = {
    Kind.NODE: (
        *map(Column, METERS),
        Column("produce_requests"),
        Column("fetch_requests"),
        SIZE,
        *(Column(latency_column(api, bucket)) for api in (PRODUCE, FETCH) for bucket in range(BUCKETS)),
    ),
    Kind.TOPIC: (*map(Column, TOPIC_METERS), SIZE),
    Kind.GROUP: (Column("lag", grows=False),),
}

Key: TypeAlias = tuple[Kind, str]
Floats: TypeAlias = "array[float]"


class Samples(NamedTuple):
    """The samples of a topic, a group or a node, oldest first, row after row; NaN where nothing is known."""

    columns: Sequence[str]
    values: Floats
    end_ms: int  # when the slot of the last row began
    interval_ms: int

    @property
    def begin_ms(self) -> int:
        """Return when the slot of the first row began."""
        return self.end_ms - (len(self.values) // max(len(self.columns), 1) - 1) * self.interval_ms


class _Ring:
    """The ring of samples of a topic, a group or the node."""

    __slots__ = ("before", "changed_slot", "first_slot", "last_slot", "noted_s", "values")

    def __init__(self, kind: Kind, slot: int) -> None:
        self.values: Floats = array(_FLOATS, [nan]) * (SLOTS * len(COLUMNS[kind]))
        self.first_slot = self.changed_slot = slot
        self.last_slot = slot - 1
        self.before: tuple[float, ...] | None = None
        self.noted_s = 0.0


class History:
    """The history that one node keeps. It belongs to the event loop of the node."""

    def __init__(self, *, limit_bytes: int, interval_ms: int) -> None:
        self.limit_bytes = limit_bytes
        self.interval_ms = interval_ms
        self._rings: dict[Key, _Ring] = {}  # those that changed last are last
        self._rings_bytes = 0
        self._most_left_out = limit_bytes // LEFT_OUT_SHARE // (2 * LEFT_OUT_BYTES)  # of two samples
        self._left_out: dict[Key, tuple[float, ...]] = {}
        self._left_out_before: dict[Key, tuple[float, ...]] = {}
        self._slot = 0
        self._now_s = 0.0

    @property
    def used_bytes(self) -> int:
        """Return about how many bytes of memory the history takes."""
        left_out = len(self._left_out) + len(self._left_out_before)
        return self._rings_bytes + left_out * LEFT_OUT_BYTES

    @property
    def has_begun(self) -> bool:
        """Return True if there was a sample."""
        return self._slot > 0

    def begin(self, now_ms: int, now_s: float) -> bool:
        """Begin the sample of the slot of `now_ms`; return False if it has one. `now_s` is monotonic time.

        If the wall clock was set back, the history starts over.
        """
        slot = now_ms // self.interval_ms
        if slot == self._slot:
            return False
        if slot < self._slot:
            self._rings, self._rings_bytes = {}, 0
        self._slot, self._now_s = slot, now_s
        self._left_out, self._left_out_before = {}, self._left_out
        return True

    def note(self, kind: Kind, name: str, values: Sequence[float]) -> None:
        """Put the present values of all columns of a topic, a group or the node into this sample."""
        key, now, columns = (kind, name), tuple(values), COLUMNS[kind]
        ring = self._rings.get(key) or self._admit(key, now)
        if ring is None:
            return
        before = ring.before
        if before is None:
            row = [nan if column.grows else value for column, value in zip(columns, now, strict=True)]
        else:
            passed_s = max(self._now_s - ring.noted_s, 0.001)
            row = [
                # The counters of a topic that was deleted and created again begin at 0.
                max(0.0, value - earlier) / passed_s if column.grows else value
                for column, value, earlier in zip(columns, now, before, strict=True)
            ]
        self._put(ring, array(_FLOATS, row))
        if kind is Kind.NODE or now != before:
            ring.changed_slot = self._slot
            self._rings[key] = self._rings.pop(key)
        ring.before, ring.noted_s, ring.last_slot = now, self._now_s, self._slot

    def read(self, kind: Kind, name: str) -> Samples:
        """Return the samples of a topic, a group or the node; none if it has no history.

        They end at the previous slot if the present one has no sample yet.
        """
        columns = COLUMNS[kind]
        width, names = len(columns), [one.name for one in columns]
        values: Floats = array(_FLOATS)
        ring = self._rings.get((kind, name))
        end, oldest = self._slot, self._slot - SLOTS + 1
        if ring is not None and ring.last_slot >= oldest:
            for slot in range(max(ring.first_slot, oldest), ring.last_slot + 1):
                place = slot % SLOTS * width
                values.extend(ring.values[place : place + width])
            end = end if ring.last_slot < end - 1 else ring.last_slot
            values.extend([nan] * (width * (end - ring.last_slot)))
        return Samples(names, values, end * self.interval_ms, self.interval_ms)

    def _put(self, ring: _Ring, row: Floats) -> None:
        """Write the row into the present slot, and into the missed slots before it if they are few."""
        missed = self._slot - ring.last_slot - 1
        skipped = row if missed <= MISSED_SLOTS else array(_FLOATS, [nan]) * len(row)
        for slot in range(max(ring.last_slot + 1, self._slot - SLOTS + 1), self._slot + 1):
            place = slot % SLOTS * len(row)
            ring.values[place : place + len(row)] = row if slot == self._slot else skipped

    def _admit(self, key: Key, now: tuple[float, ...]) -> _Ring | None:
        """Give a topic, a group or the node a ring; return None while there is no memory for it."""
        size = _size_of(key[0])
        if not self._has_room(size):
            before = self._left_out_before.get(key)
            if before is None or before == now or not self._make_room(size):
                if len(self._left_out) < self._most_left_out:
                    self._left_out[key] = now
                return None
        ring = self._rings[key] = _Ring(key[0], self._slot)
        self._rings_bytes += size
        return ring

    def _has_room(self, size: int) -> bool:
        return self._rings_bytes + size <= self.limit_bytes - self.limit_bytes // LEFT_OUT_SHARE

    def _make_room(self, size: int) -> bool:
        """Remove the rings unchanged for longest, until there is room; return False if there is none."""
        while not self._has_room(size):
            key, ring = next(iter(self._rings.items()))
            if self._slot - ring.changed_slot < QUIET_SLOTS:
                return False
            del self._rings[key]
            self._rings_bytes -= _size_of(key[0])
        return True


def _size_of(kind: Kind) -> int:
    return RING_BYTES + VALUE_BYTES * SLOTS * len(COLUMNS[kind])


def packed(values: Floats) -> bytes:
    """Return the values as they are sent: floats of four bytes, little-endian."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def unpacked(content: bytes) -> Floats:
    """Return the values that another node has sent; an incomplete value at the end is ignored."""
    values: Floats = array(_FLOATS)
    values.frombytes(content[: len(content) // VALUE_BYTES * VALUE_BYTES])
    if sys.byteorder == "big":
        values.byteswap()
    return values
