"""Counters of share groups at the leaders of their partitions and at share coordinators, by Kafka's names."""

from ottla.logstore.words.latency import LatencyHistogram


class ShareCounters:
    """Since the node began. The loop adds; other threads read."""

    __slots__ = (
        "acknowledged",
        "expired_fetches",
        "load_times",
        "lock_timeouts",
    )

    def __init__(self) -> None:
        self.acknowledged = [0, 0, 0, 0, 0]  # records, by the number of the acknowledge type
        self.expired_fetches = 0  # that waited for as long as they were allowed to
        self.load_times = LatencyHistogram()  # of the states of share-partitions
        self.lock_timeouts = 0  # records whose lock ended before their member said anything


class ShareCoordinatorCounters:
    """Since the node began. The loop adds; other threads read."""

    __slots__ = ("write_times", "writes")

    def __init__(self) -> None:
        self.writes = 0  # of states, that succeeded
        self.write_times = LatencyHistogram()  # of requests to write, until the records were committed
