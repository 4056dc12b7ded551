"""Counters of share groups at the leaders of their partitions and at share coordinators, by Kafka's names."""

from typing import Final

from ottla.logstore.words.latency import LatencyHistogram

# Groups whose dead letters are counted one by one; those of all others are counted together.
MAX_COUNTED_GROUPS: Final = 1_000
OTHER_GROUPS: Final = ""


class DeadLetterCounts:
    """Dead letters of one group."""

    __slots__ = ("failed_produces", "produces", "records", "unobeyed")

    def __init__(self) -> None:
        self.records = 0
        self.produces = 0  # attempts
        self.failed_produces = 0  # given up
        self.unobeyed = 0  # records that were to have letters, which the level of share.version forbids


class ShareCounters:
    """Since the node began. The loop adds; other threads read."""

    __slots__ = (
        "acknowledged",
        "dead_letters",
        "expired_fetches",
        "load_times",
        "lock_timeouts",
    )

    def __init__(self) -> None:
        self.acknowledged = [0, 0, 0, 0, 0]  # records, by the number of the acknowledge type
        self.expired_fetches = 0  # that waited for as long as they were allowed to
        self.load_times = LatencyHistogram()  # of the states of share-partitions
        self.lock_timeouts = 0  # records whose lock ended before their member said anything
        self.dead_letters: dict[str, DeadLetterCounts] = {}

    def dead_letters_of(self, group: str) -> DeadLetterCounts:
        """Return the counts of a group, or those of all others where there are too many."""
        found = self.dead_letters.get(group)
        if found is None:
            if len(self.dead_letters) >= MAX_COUNTED_GROUPS:
                group = OTHER_GROUPS
            found = self.dead_letters.setdefault(group, DeadLetterCounts())
        return found


class ShareCoordinatorCounters:
    """Since the node began. The loop adds; other threads read."""

    __slots__ = ("write_times", "writes")

    def __init__(self) -> None:
        self.writes = 0  # of states, that succeeded
        self.write_times = LatencyHistogram()  # of requests to write, until the records were committed
