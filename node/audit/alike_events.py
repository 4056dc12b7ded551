"""Gathers alike events, so that a client which is refused ten thousand times a second costs few lines.

A window begins with an event. The first event of its kind within the window is a line at once; further ones,
equal in everything, are counted, and told as one line when the window ends. Each address has so many
different lines in a window, and all together so many; what is beyond that is counted by address. So there
are at most twice as many lines in a window as `Limits.total`, and some for what was left out.
"""

from typing import Final, NamedTuple, TypeAlias

from ottla.node.audit.audit_event import Event, Kind

WINDOW_MS: Final = 10_000
MAX_LEFT_OUT_ADDRESSES: Final = 100  # that are told apart; the rest is told together


class Limits(NamedTuple):
    """The number of different events that a window tells, of one address and in all."""

    per_address: int
    total: int


class EventLine(NamedTuple):
    """Alike events, the first and the last of them at these times."""

    event: Event
    events: int
    first_ms: int
    last_ms: int


class LeftOutLine(NamedTuple):
    """The number of events that are in no other line; without an address, those of several."""

    kind: Kind
    address: str
    events: int
    last_ms: int


Line: TypeAlias = EventLine | LeftOutLine


class _Repeated:
    """The events of one content since its line was told."""

    __slots__ = ("count", "first_ms", "last_ms")

    def __init__(self) -> None:
        self.count = 0
        self.first_ms = self.last_ms = 0


class AlikeEvents:
    """The events of one kind in the present window; times are arguments."""

    def __init__(self, kind: Kind, limits: Limits) -> None:
        self.kind = kind
        self.limits = limits
        self.ends_ms: int | None = None  # None: no window is open
        self._repeated: dict[Event, _Repeated] = {}
        self._lines_of: dict[str, int] = {}  # by address
        self._left_out: dict[str, int] = {}  # by address, "" for those that are not told apart
        self._last_ms = 0

    def add(self, event: Event, now_ms: int, count: int = 1) -> EventLine | None:
        """Take an event, or several that are alike; return the line that is to be told at once."""
        if self.ends_ms is None:
            self.ends_ms = now_ms + WINDOW_MS
        self._last_ms = now_ms
        repeated = self._repeated.get(event)
        if repeated is not None:
            if not repeated.count:
                repeated.first_ms = now_ms
            repeated.count += count
            repeated.last_ms = now_ms
            return None
        lines = self._lines_of.get(event.address, 0)
        if lines >= self.limits.per_address or len(self._repeated) >= self.limits.total:
            self.leave_out(event.address, count, now_ms)
            return None
        self._lines_of[event.address] = lines + 1
        self._repeated[event] = _Repeated()
        return EventLine(event, count, now_ms, now_ms)

    def leave_out(self, address: str, count: int, now_ms: int) -> None:
        """Count events of an address that get no line of their own."""
        if self.ends_ms is None:
            self.ends_ms = now_ms + WINDOW_MS
        self._last_ms = now_ms
        left_out = self._left_out
        if address not in left_out and len(left_out) >= MAX_LEFT_OUT_ADDRESSES:
            address = ""
        left_out[address] = left_out.get(address, 0) + count

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the window is over, also where the clock was set back."""
        return self.ends_ms is not None and not self.ends_ms - WINDOW_MS <= now_ms < self.ends_ms

    def end(self) -> list[Line]:
        """End the window; return the lines of what was only counted in it."""
        lines: list[Line] = [
            EventLine(event, one.count, one.first_ms, one.last_ms)
            for event, one in self._repeated.items()
            if one.count
        ]
        lines += [
            LeftOutLine(self.kind, address, count, self._last_ms) for address, count in self._left_out.items()
        ]
        self.ends_ms = None
        self._repeated, self._lines_of, self._left_out = {}, {}, {}
        return lines

    def check_invariants(self) -> None:
        """Assert that the window holds no more than it may."""
        assert len(self._repeated) <= self.limits.total
        assert sum(self._lines_of.values()) == len(self._repeated)
        assert all(count <= self.limits.per_address for count in self._lines_of.values())
        assert len(self._left_out) <= MAX_LEFT_OUT_ADDRESSES + 1
        if self.ends_ms is None:
            assert not self._repeated and not self._left_out
