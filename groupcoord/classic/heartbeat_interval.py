"""The heartbeat interval of a member of a classic group, which no request of that protocol contains."""

from dataclasses import dataclass

# The share of its interval for which a heartbeat is held. An answer after the next heartbeat is due would
# change when the member sends that one; the rest is for the network, and for busy machines.
HELD_SHARE = 0.9
# A shorter hold gains nothing.
MIN_HOLD_MS = 100


@dataclass(slots=True)
class HeartbeatInterval:
    """The interval as learned from the arrival of heartbeats, in milliseconds of any clock. Soft state."""

    interval_ms: int = 0  # 0: not known
    _last_ms: int = -1
    _held_ms: int = 0  # for how long the last heartbeat was held

    def note_arrival(self, now_ms: int) -> None:
        """Learn from a heartbeat that has just arrived.

        Most clients count the interval from when they sent the last heartbeat, or send at fixed times; some
        count from its answer. So if the last answer came at once, the gap is the interval. If it came late,
        the gap is the interval only if it is shorter than the known one, or if the heartbeat came soon after
        the answer. A heartbeat that came neither soon after the answer nor an interval later shows that the
        client skipped one: its last was held for too long, so the interval is shortened.
        """
        gap_ms = now_ms - self._last_ms
        idle_ms = gap_ms - self._held_ms
        is_measurable = self._last_ms >= 0 and gap_ms > 0 and idle_ms >= 0
        if is_measurable and (not self._held_ms or gap_ms < self.interval_ms or idle_ms < gap_ms // 4):
            self.interval_ms = gap_ms
        elif is_measurable and gap_ms * 4 > self.interval_ms * 5 and idle_ms * 10 < self.interval_ms * 9:
            self.interval_ms = self.interval_ms * 19 // 20
        self._last_ms, self._held_ms = now_ms, 0

    def note_answer(self, now_ms: int) -> None:
        """Note that the last heartbeat was answered after it was held."""
        self._held_ms = max(now_ms - self._last_ms, 0)

    def skip_next(self) -> None:
        """Learn nothing from the next gap: the member does other things before its next heartbeat."""
        self._last_ms = -1

    def hold_ms(self, limit_ms: int) -> int:
        """Return for how long a heartbeat may be held; 0 while the interval is not known."""
        hold_ms = min(int(self.interval_ms * HELD_SHARE), limit_ms)
        return hold_ms if hold_ms >= MIN_HOLD_MS else 0
