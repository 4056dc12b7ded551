"""Counters of one topic, over the partitions that the node hosts, with the names of Apache Kafka's meters.

The loop increments them, once for each partition of a request; other threads read. A deleted topic's counters
disappear, as in Kafka, but stay in the sum over all topics: a total that fell would look like a counter that
was reset, and all of it like new traffic.
"""

from collections.abc import Collection, Mapping
from typing import Final

DELETED_TOPICS: Final = ""  # no topic can have this name; the sums of deleted topics


class TopicCounters:
    """The counters of a topic since the node has hosted it."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "failed_share_acknowledge_requests",
        "failed_share_fetch_requests",
        "messages_in",
        "replication_bytes_in",
        "replication_bytes_out",
        "total_fetch_requests",
        "total_produce_requests",
        "total_share_acknowledge_requests",
        "total_share_fetch_requests",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0  # to consumers
        self.bytes_rejected = 0  # of batches that were too large
        self.failed_fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_share_acknowledge_requests = 0
        self.failed_share_fetch_requests = 0
        self.messages_in = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.total_fetch_requests = 0  # partitions of fetches by consumers and followers
        self.total_produce_requests = 0  # batches, as Kafka counts them
        self.total_share_acknowledge_requests = (
            0  # requests with partitions of the topic; so do the next ones
        )
        self.total_share_fetch_requests = 0

    def add(self, other: "TopicCounters") -> None:
        """Add the counts of another one."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def without_topics(counters: Mapping[str, TopicCounters], gone: Collection[str]) -> dict[str, TopicCounters]:
    """Return the counters without those of deleted topics, which are added to `DELETED_TOPICS`.

    The dict is a new one, so that a thread that reads the old one sees each count once.
    """
    past = TopicCounters()
    for name in (DELETED_TOPICS, *gone):
        if name in counters:
            past.add(counters[name])
    return {name: one for name, one in counters.items() if name not in gone} | {DELETED_TOPICS: past}
