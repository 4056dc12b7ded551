"""Counters of share groups at the leaders of their partitions and at share coordinators, by Kafka's names."""

from typing import Final

from ottla.logstore.words.latency import LatencyHistogram

# Groups with a counter of their own for dead letters; all others share one.
MAX_COUNTED_GROUPS: Final = 1_000
OTHER_GROUPS: Final = ""


class DeadLetterCounts:
    """The dead letters of one group."""

    __slots__ = ("failed_produces", "ignored", "produces", "records")

    def __init__(self) -> None:
        self.records = 0
        self.produces = 0  # attempts
        self.failed_produces = 0  # abandoned
        self.ignored = 0  # records without a letter because the level of share.version forbids it


class ShareCounters:
    """Totals since the node started. The loop increments them; other threads read."""

    __slots__ = (
        "acknowledged",
        "dead_letters",
        "expired_fetches",
        "load_times",
        "lock_timeouts",
    )

    def __init__(self) -> None:
        self.acknowledged = [0, 0, 0, 0, 0]  # records by acknowledge type
        self.expired_fetches = 0  # fetches that waited until their timeout
        self.load_times = LatencyHistogram()  # of states of share-partitions
        self.lock_timeouts = 0  # records whose lock expired before an acknowledgement
        self.dead_letters: dict[str, DeadLetterCounts] = {}

    def dead_letters_of(self, group: str) -> DeadLetterCounts:
        """Return the counters of a group, or those shared by all others if there are too many."""
        found = self.dead_letters.get(group)
        if found is None:
            if len(self.dead_letters) >= MAX_COUNTED_GROUPS:
                group = OTHER_GROUPS
            found = self.dead_letters.setdefault(group, DeadLetterCounts())
        return found


class ShareCoordinatorCounters:
    """Totals since the node started. The loop increments them; other threads read."""

    __slots__ = ("write_times", "writes")

    def __init__(self) -> None:
        self.writes = 0  # successful writes of states
        self.write_times = LatencyHistogram()  # from a write request until its records were committed
