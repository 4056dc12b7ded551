"""What a node counts of one topic, over the partitions that it hosts; the names are Apache Kafka's meters.

The loop adds, once a request and partition; other threads read. A topic that is deleted takes its own counts
along, as in Kafka, and they stay in the sum over all topics: a counter that fell would be taken for one that
began anew, and all of it for new traffic.
"""

from collections.abc import Collection, Mapping
from typing import Final

DELETED_TOPICS: Final = ""  # no topic's name; under it stands what those that are gone had counted


class TopicCounters:
    """Since the node has the topic."""

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
        self.bytes_rejected = 0  # of batches that are too large
        self.failed_fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_share_acknowledge_requests = 0
        self.failed_share_fetch_requests = 0
        self.messages_in = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.total_fetch_requests = 0  # partitions looked up for a fetch, by consumers and followers
        self.total_produce_requests = 0  # batches, as Kafka counts them
        self.total_share_acknowledge_requests = 0  # requests with partitions of the topic, as the following
        self.total_share_fetch_requests = 0

    def add(self, other: "TopicCounters") -> None:
        """Count what the other has counted, too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def without_topics(counters: Mapping[str, TopicCounters], gone: Collection[str]) -> dict[str, TopicCounters]:
    """The counters without those of topics that are gone, whose counts move to `DELETED_TOPICS`.

    A new dict, so that whoever reads the old one in another thread sees each count once.
    """
    past = TopicCounters()
    for name in (DELETED_TOPICS, *gone):
        if name in counters:
            past.add(counters[name])
    return {name: one for name, one in counters.items() if name not in gone} | {DELETED_TOPICS: past}
