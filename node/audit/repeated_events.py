"""Merges equal events, so that a client that is rejected ten thousand times a second costs few lines.

An event opens a window. The first event of its kind in the window becomes a line at once; later events that
are equal in every field are counted, and become one line when the window ends. The number of different lines
in a window is limited over all sources; events beyond it are counted by source. So a window has at most twice
`Limits.total` lines, plus those that count what was left out.

A source is a principal at an address, or an address without an authenticated principal. A source gets a new
line only while it has fewer than half as many lines as are free, and a principal at all its addresses only
while it has fewer than are free. So one source takes at most a third, two take half, and later ones still
find free lines.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from ottla.node.audit.audit_event import Event, Kind, proven

WINDOW_MS: Final = 10_000
MAX_LEFT_OUT_SOURCES: Final = 100  # that have lines of their own; the rest share one


class Limits(NamedTuple):
    """The number of different lines in a window, for one source and in all."""

    per_source: int
    total: int


class Source(NamedTuple):
    """The origin of events; the principal is empty if the client is not authenticated or anonymous."""

    principal: str
    address: str


SEVERAL: Final = Source("", "")


class EventLine(NamedTuple):
    """Equal events, with the times of the first and the last."""

    event: Event
    events: int
    first_ms: int
    last_ms: int


class LeftOutLine(NamedTuple):
    """The number of events without a line of their own; without an address, of several sources."""

    kind: Kind
    source: Source
    events: int
    last_ms: int


Line: TypeAlias = EventLine | LeftOutLine


class _Repeated:
    """Events equal to a line that was already written."""

    __slots__ = ("count", "first_ms", "last_ms")

    def __init__(self) -> None:
        self.count = 0
        self.first_ms = self.last_ms = 0


class RepeatedEvents:
    """The events of one kind in the current window; times are arguments."""

    def __init__(
        self, kind: Kind, limits: Limits, network_of: Callable[[str], str] = lambda address: address
    ) -> None:
        """`network_of` returns the part of an address that identifies a host."""
        self.kind = kind
        self._network_of = network_of
        self.limits = limits
        self.ends_ms: int | None = None  # None: no window is open
        self._repeated: dict[Event, _Repeated] = {}
        self._lines_of: dict[Source, int] = {}
        self._lines_of_principal: dict[str, int] = {}
        self._left_out: dict[Source, int] = {}  # `SEVERAL` counts those without a line of their own
        self._last_ms = 0

    def add(self, event: Event, now_ms: int, count: int = 1) -> EventLine | None:
        """Add an event, or several equal ones; return the line to write at once, if any."""
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
        source = self._source(event.proven_principal, event.address)
        if not self._has_room_for(source):
            self._leave_out(source, count)
            return None
        self._lines_of[source] = self._lines_of.get(source, 0) + 1
        if source.principal:
            lines = self._lines_of_principal.get(source.principal, 0)
            self._lines_of_principal[source.principal] = lines + 1
        self._repeated[event] = _Repeated()
        return EventLine(event, count, now_ms, now_ms)

    def leave_out(self, principal: str, address: str, count: int, now_ms: int) -> None:
        """Count events of a source that get no line of their own."""
        if self.ends_ms is None:
            self.ends_ms = now_ms + WINDOW_MS
        self._last_ms = now_ms
        self._leave_out(self._source(proven(principal), address), count)

    def _source(self, principal: str, address: str) -> Source:
        return Source(principal, self._network_of(address))

    def _has_room_for(self, source: Source) -> bool:
        free = self.limits.total - len(self._repeated)
        lines = self._lines_of.get(source, 0)
        return (
            lines < self.limits.per_source
            and 2 * lines < free
            and self._lines_of_principal.get(source.principal, 0) < free
        )

    def _leave_out(self, source: Source, count: int) -> None:
        left_out = self._left_out
        if source not in left_out and len(left_out) >= MAX_LEFT_OUT_SOURCES:
            source = SEVERAL
        left_out[source] = left_out.get(source, 0) + count

    def has_ended(self, now_ms: int) -> bool:
        """Return True if the window is over, or if the clock was set back."""
        return self.ends_ms is not None and not self.ends_ms - WINDOW_MS <= now_ms < self.ends_ms

    def end(self) -> list[Line]:
        """End the window; return the lines for the events that were only counted."""
        lines: list[Line] = [
            EventLine(event, one.count, one.first_ms, one.last_ms)
            for event, one in self._repeated.items()
            if one.count
        ]
        lines += [
            LeftOutLine(self.kind, source, count, self._last_ms) for source, count in self._left_out.items()
        ]
        self.ends_ms = None
        self._repeated, self._left_out = {}, {}
        self._lines_of, self._lines_of_principal = {}, {}
        return lines

    def check_invariants(self) -> None:
        """Assert that the window is within its limits."""
        assert len(self._repeated) <= self.limits.total
        assert sum(self._lines_of.values()) == len(self._repeated)
        assert all(count <= self.limits.per_source for count in self._lines_of.values())
        assert sum(self._lines_of_principal.values()) <= len(self._repeated)
        assert len(self._left_out) <= MAX_LEFT_OUT_SOURCES + 1
        if self.ends_ms is None:
            assert not self._repeated and not self._left_out
