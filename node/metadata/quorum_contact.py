"""Since when this node has no contact to a leader of the metadata quorum: the one place that knows.

Contact is a registration or heartbeat that a leader accepted: it proves that somebody leads, with a majority,
and that the metadata of this node are as new as that. What the node shows after a silence of
`broker.session.timeout.ms` is old: others may lead, and may have changed anything. Pure: time is an argument.
"""

from typing import NamedTuple


class _Moment(NamedTuple):
    at_s: float  # by the clock of the loop, which never goes back
    wall_ms: int


class QuorumContact:
    """Written on the node's loop; may be read in any thread, since each write replaces the whole moment."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._last: _Moment | None = None

    def begin(self, now_s: float, wall_ms: int) -> None:
        """The node starts: from now on it looks for a leader."""
        if self._last is None:
            self._last = _Moment(now_s, wall_ms)

    def heard(self, sent_s: float, now_s: float, wall_ms: int) -> None:
        """A leader accepted what was sent at `sent_s`; `wall_ms` is the wall clock's time of `now_s`."""
        self._last = _Moment(sent_s, wall_ms - round((now_s - sent_s) * 1000))

    @property
    def ends_at_s(self) -> float:
        """When this node counts as cut off, unless it hears from a leader before."""
        assert self._last is not None, "nobody has begun"
        return self._last.at_s + self.limit_s

    def cut_off_since_ms(self, now_s: float) -> int | None:
        """The wall clock's time of the last contact, or of the start, if that was too long ago; else None."""
        last = self._last
        return None if last is None or now_s < last.at_s + self.limit_s else last.wall_ms
