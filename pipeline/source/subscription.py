"""The partitions that a source reads: those that its subscription names and the cluster has now."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.source.source_options import Assigned, Subscription, TopicPattern, Topics
from ottla.pipeline.words import OptionError

_ANY: Final = re.compile(r".*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The existing partitions, the ids of their topics, and the names of those that do not exist."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, bytes]
    missing: tuple[str, ...] = ()  # "topic t", "partition t-0"
    option: str

    def check(self) -> None:
        """Raise OptionError if a named topic or partition does not exist."""
        if self.missing:
            raise OptionError(
                self.option, f"names topics or partitions that do not exist: {', '.join(self.missing)}"
            )


def find_subscribed(cluster: Cluster, subscription: Subscription) -> Subscribed:
    """Return the partitions that exist now, by one request."""
    missing: list[str] = []
    match subscription:
        case Topics(names=names):
            option = "subscribe"
            topics = cluster.topics(names)
            missing = [f"topic {name}" for name in names if name not in topics]
        case TopicPattern(pattern=pattern):
            option = "subscribePattern"
            # As in the connector, a pattern is found anywhere in a name; Java's consumer matches the whole
            # name.
            topics = {
                name: topic for name, topic in cluster.topics_matching(_ANY).items() if pattern.search(name)
            }
        case Assigned(partitions=assigned):
            option = "assign"
            topics = cluster.topics(sorted({partition.topic for partition in assigned}))
    partitions = [TopicPartition(name, number) for name in topics for number in topics[name].leaders]
    if isinstance(subscription, Assigned):
        missing = [f"partition {one}" for one in sorted(subscription.partitions - set(partitions))]
        partitions = [one for one in partitions if one in subscription.partitions]
    return Subscribed(
        partitions=tuple(sorted(partitions)),
        topic_ids={name: topic.topic_id for name, topic in topics.items()},
        missing=tuple(missing),
        option=option,
    )
