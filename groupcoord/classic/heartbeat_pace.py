"""How often a member of a classic group heartbeats: it knows, and does not say."""

from dataclasses import dataclass

# Of its interval: an answer that comes later than its next heartbeat is due would change its pace; the
# rest is for the way there, and for machines that are busy.
HELD_SHARE = 0.9
# Sooner than this nobody needs to wait.
MIN_HOLD_MS = 100


@dataclass(slots=True)
class HeartbeatPace:
    """Learned from when its heartbeats come, milliseconds of any clock. Soft."""

    interval_ms: int = 0  # 0: not known
    _last_ms: int = -1
    _held_ms: int = 0  # for how long the last one was held

    def beat(self, now_ms: int) -> None:
        """One came.

        Most clients count from when they sent the last one, or have a fixed beat; some from its answer. So a
        gap tells the interval if the last answer came at once. If that came late, the gap does only if it is
        shorter than what is known, or if the client came soon after the answer. One that came neither soon
        after it nor an interval later has left out a beat: it was kept for too long.
        """
        gap_ms = now_ms - self._last_ms
        idle_ms = gap_ms - self._held_ms
        is_sound = self._last_ms >= 0 and gap_ms > 0 and idle_ms >= 0
        if is_sound and (not self._held_ms or gap_ms < self.interval_ms or idle_ms < gap_ms // 4):
            self.interval_ms = gap_ms
        elif is_sound and gap_ms * 4 > self.interval_ms * 5 and idle_ms * 10 < self.interval_ms * 9:
            self.interval_ms = self.interval_ms * 19 // 20
        self._last_ms, self._held_ms = now_ms, 0

    def answered(self, now_ms: int) -> None:
        """The last one was, after it was held."""
        self._held_ms = max(now_ms - self._last_ms, 0)

    def pause(self) -> None:
        """It has other things to do before its next heartbeat."""
        self._last_ms = -1

    def hold_ms(self, limit_ms: int) -> int:
        """For how long it may wait; 0 while its pace is not known."""
        hold_ms = min(int(self.interval_ms * HELD_SHARE), limit_ms)
        return hold_ms if hold_ms >= MIN_HOLD_MS else 0
