"""A timer for each share-partition, which fires when a lock ends or a delayed record is due, by two clocks.

Locks end by a clock that only goes forward. Records are due by the wall clock, which may be set, or jumps
after the machine slept. All timers run by the loop's clock, so while records wait the two clocks are compared
once a second, and the timers are set again if the difference has changed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.share.share_partition import SharePartition

# The time between two comparisons of the clocks. One costs microseconds, however many records wait.
CLOCK_LOOK_MS: Final = 1_000
# The clocks may drift this far apart before timers are set again: a slewed clock drifts by 1 ms in 2 s.
CLOCK_DRIFT_MS: Final = 20
# Timers that are set again in one turn of the loop: some 5 us each.
MAX_RESET: Final = 256
_CLOCK: Final = "clock"  # the name of the timer for the next comparison


class ShareTimers:
    """The timers of the share-partitions of a node. For the event loop only."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        expire: Callable[[SharePartitionKey], None],
        queue: Callable[[], TimerQueue] = TimerQueue,
    ) -> None:
        """`expire` is called with a share-partition that has records to free."""
        self._make_queue = queue
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._expire = expire
        self._queue: TimerQueue | None = None  # made on the loop, by the first timer
        self._delayed: dict[SharePartitionKey, SharePartition] = {}  # with records that are not due yet
        self._wall_ahead_ms = 0  # the clocks' difference when all timers of delayed records were right

    def __len__(self) -> int:
        """Return the number of timers, including the one for the next comparison of the clocks."""
        return 0 if self._queue is None else len(self._queue)

    def start(self, core: SharePartition) -> None:
        """Start the timer of a share-partition, for the end of its next lock or for its next due record."""
        lock_ms, due_ms = core.next_expiry(), core.next_due()
        if due_ms is None:
            self._delayed.pop(core.key, None)
            if lock_ms is None:
                return
        if self._queue is None:
            self._queue = self._make_queue()
        waits_ms = [] if lock_ms is None else [lock_ms - self._now_ms()]
        if due_ms is not None:
            waits_ms.append(due_ms - self._wall_ms())
            if not self._delayed:
                self._wall_ahead_ms = self._wall_ms() - self._now_ms()
                self._queue.start(_CLOCK, CLOCK_LOOK_MS, self._look)
            self._delayed[core.key] = core
        self._queue.start(core.key, max(0, min(waits_ms)), partial(self._expire, core.key))

    def cancel(self, key: SharePartitionKey) -> None:
        """Cancel the timer of a share-partition."""
        self._delayed.pop(key, None)
        if self._queue is not None:
            self._queue.cancel(key)

    def close(self) -> None:
        """Cancel all timers."""
        self._delayed.clear()
        if self._queue is not None:
            self._queue.close()

    def _look(self) -> None:
        """Set the timers of delayed records again if the wall clock has jumped; compare again later."""
        ahead_ms = self._wall_ms() - self._now_ms()
        if abs(ahead_ms - self._wall_ahead_ms) > CLOCK_DRIFT_MS:
            self._wall_ahead_ms = ahead_ms
            self._reset_timers(list(self._delayed.values()))
        elif self._delayed:
            assert self._queue is not None
            self._queue.start(_CLOCK, CLOCK_LOOK_MS, self._look)

    def _reset_timers(self, cores: Sequence[SharePartition]) -> None:
        """Set timers again, some in each turn of the loop."""
        for core in cores[:MAX_RESET]:
            if self._delayed.get(core.key) is core:
                self.start(core)
        if self._delayed:
            assert self._queue is not None
            rest = cores[MAX_RESET:]
            again = partial(self._reset_timers, rest) if rest else self._look
            self._queue.start(_CLOCK, 0 if rest else CLOCK_LOOK_MS, again)
