"""The time of this node's last contact with a leader of the metadata quorum. No other module keeps it.

Contact is a registration or a heartbeat that a leader accepted. It proves that a controller leads with a
majority. Without contact for `broker.session.timeout.ms` the node is cut off: another controller may lead and
may have changed anything, so the metadata that this node shows may be old. Pure: time is an argument.
"""

from typing import NamedTuple


class _Moment(NamedTuple):
    at_s: float  # by the clock of the loop, which never goes back
    wall_ms: int


class QuorumContact:
    """The last contact, written on the node's loop and read in any thread: a write replaces it as a whole."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._last: _Moment | None = None

    def begin(self, now_s: float, wall_ms: int) -> None:
        """Count the silence from the start of the node, unless a leader has answered already."""
        if self._last is None:
            self._last = _Moment(now_s, wall_ms)

    def heard(self, sent_s: float, now_s: float, wall_ms: int) -> None:
        """Record that a leader accepted a request of `sent_s`; `wall_ms` is the wall clock at `now_s`."""
        self._last = _Moment(sent_s, wall_ms - round((now_s - sent_s) * 1000))

    @property
    def ends_at_s(self) -> float:
        """The time at which this node counts as cut off if no leader answers it before."""
        assert self._last is not None, "the node has not begun"
        return self._last.at_s + self.limit_s

    def cut_off_since_ms(self, now_s: float) -> int | None:
        """Return the wall clock's time of the last contact (or start) if this node is cut off, else None."""
        last = self._last
        return None if last is None or now_s < last.at_s + self.limit_s else last.wall_ms
