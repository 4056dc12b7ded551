"""How long records have waited for a query: from the ends of logs as its progress has told them.

The next record to read came between two moments: when the log ended before it, and when it ended behind it.
Between them records are taken to have come evenly. Of what was there when the log was first seen nothing
more is known than that it has waited since.
"""

from dataclasses import dataclass
from typing import Final

# Of one partition. Beyond it every other one is forgotten: the time is less exact, but no memory grows.
MAX_KNOWN_ENDS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnd:
    """Where a log ended at a moment."""

    at_ms: int
    end: int


KnownEnds = tuple[KnownEnd, ...]


def with_end(known: KnownEnds, seen: KnownEnd, read: int) -> KnownEnds:
    """Return the ends in their order, with `seen`, and without those that a query at `read` is past."""
    if known and (seen.end < known[-1].end or seen.at_ms < known[-1].at_ms):
        known = ()  # a topic that was made anew, or a clock that was set back: what was known is of no use
    if len(known) > 1 and known[-2].end == known[-1].end == seen.end:
        known = known[:-1]  # it rests: the first and the last moment say so
    known = (*known, seen)
    first = max((at for at, one in enumerate(known) if one.end <= read), default=0)
    # A log that rests at `read` is asked about from its last moment on; its first one is not needed.
    known = known[first:]
    return known if len(known) <= MAX_KNOWN_ENDS else (*known[:-1:2], known[-1])


def waited_ms(known: KnownEnds, read: int, now_ms: int) -> float:
    """Return how long the record at `read` has waited, or at least has; 0 where it has not come yet."""
    before: KnownEnd | None = None
    for one in known:
        if one.end > read:
            came_ms: float = one.at_ms
            if before is not None:
                part = (read - before.end) / (one.end - before.end)
                came_ms = before.at_ms + (one.at_ms - before.at_ms) * part
            return max(now_ms - came_ms, 0)
        before = one
    return 0
