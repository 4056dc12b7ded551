"""The lag of a query in time: how long records have waited, by the ends of logs that its progress reported.

The next record to read came between two moments: when the log was seen to end before it, and when after it.
Records in between are assumed to have come at a constant rate. Records that were there when the log was first
seen have waited at least since then.
"""

from dataclasses import dataclass
from typing import Final

# For one partition. Beyond it every second end is forgotten: less exact, but memory is bounded.
MAX_KNOWN_ENDS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnd:
    """The end of a log at a moment."""

    at_ms: int
    end: int


KnownEnds = tuple[KnownEnd, ...]


def with_end(known: KnownEnds, seen: KnownEnd, read: int) -> KnownEnds:
    """Return the ends in order with `seen` added, without those that are not needed by a query at `read`."""
    if known and (seen.end < known[-1].end or seen.at_ms < known[-1].at_ms):
        known = ()  # the topic was created again, or the clock set back: earlier ends are of no use
    if len(known) > 1 and known[-2].end == known[-1].end == seen.end:
        known = known[:-1]  # the log is idle: its first and its last moment are enough
    known = (*known, seen)
    first = max((at for at, one in enumerate(known) if one.end <= read), default=0)
    # If the log is idle at `read`, the next record came after the last such moment; the first is not needed.
    known = known[first:]
    return known if len(known) <= MAX_KNOWN_ENDS else (*known[:-1:2], known[-1])


def waited_ms(known: KnownEnds, read: int, now_ms: int) -> float:
    """Return an estimate of how long the record at `read` has waited; 0 if it has not come yet.

    It is the least possible time if the log ended after the record already when it was first seen.
    """
    before: KnownEnd | None = None
    for one in known:
        if one.end > read:
            arrived_ms: float = one.at_ms
            if before is not None:
                part = (read - before.end) / (one.end - before.end)
                arrived_ms = before.at_ms + (one.at_ms - before.at_ms) * part
            return max(now_ms - arrived_ms, 0)
        before = one
    return 0
