"""Shows the topics of a metadata image to the group coordinator, and the changes that concern groups."""

from collections.abc import Set

from ottla.groupcoord.consumer.consumer_commands import TopicsChanged
from ottla.groupcoord.topics_view import TopicInfo
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage, TopicImage


class ImageTopics:
    """A `TopicsView` of one image. The information about a topic is made on request."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        racks = {broker_id: broker.rack for broker_id, broker in image.brokers.items()}
        self._racks = {broker_id: rack for broker_id, rack in racks.items() if rack is not None}

    @property
    def version(self) -> int:
        return self._image.version

    def by_name(self, name: str) -> TopicInfo | None:
        return self._info(self._image.topics.by_name.get(name))

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        return self._info(self._image.topics.by_id.get(topic_id))

    def names(self) -> Set[str]:
        return self._image.topics.by_name.keys()

    def _info(self, topic: TopicImage | None) -> TopicInfo | None:
        if topic is None:
            return None
        racks: tuple[tuple[str, ...], ...] = ()
        if self._racks:
            racks = tuple(
                tuple(sorted({self._racks[one] for one in partition.replicas if one in self._racks}))
                for partition in topic.partitions
            )
        return TopicInfo(topic.topic_id, topic.name, len(topic.partitions), racks if any(racks) else ())


def topics_changed(image: MetadataImage, changes: MetadataChanges) -> TopicsChanged | None:
    """Return the command for a change of topics that concerns consumer groups, None if none does.

    Topics that were created, deleted, got partitions or moved to other brokers concern them. Elections and
    changes of the ISR do not.
    """
    changed: set[str] = set()
    has_new_topics = False
    for one in changes.topics:
        before, after = one.before, one.after
        if before is None and after is not None:
            has_new_topics = True
        if before is None or after is None or _shape(before) != _shape(after):
            changed |= {topic.name for topic in (before, after) if topic is not None}
    if not changed:
        return None
    return TopicsChanged(topics=ImageTopics(image), has_new_topics=has_new_topics, changed=frozenset(changed))


def _shape(topic: TopicImage) -> tuple[bytes, list[tuple[int, ...]]]:
    return topic.topic_id, [partition.replicas for partition in topic.partitions]
