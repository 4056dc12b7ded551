"""Finds the differences between two images without a delta between them, as after loading a snapshot.

Parts that both images share are skipped by identity; the rest is compared.
"""

from collections.abc import Mapping
from typing import TypeVar

from ottla.metadata_raft.delta import ChangedTopic, MetadataChanges
from ottla.metadata_raft.image import MetadataImage

K = TypeVar("K")
V = TypeVar("V")


def changes_between(before: MetadataImage, after: MetadataImage) -> MetadataChanges:
    """Return the changes from `before` to `after`, for a listener that knows `before`.

    A topic that was deleted and created again under its name is listed twice, the deletion first.
    """
    old, new = before.topics.by_id, after.topics.by_id
    deleted = [ChangedTopic(topic, None) for topic_id, topic in old.items() if topic_id not in new]
    changed = [
        ChangedTopic(old.get(topic_id), topic)
        for topic_id, topic in new.items()
        if old.get(topic_id) is not topic and old.get(topic_id) != topic
    ]
    return MetadataChanges(
        topics=(*deleted, *changed),
        configs=_different(before.configs.by_resource, after.configs.by_resource),
        brokers=_different(before.brokers, after.brokers),
        features=before.features != after.features,
        voters=before.voters != after.voters,
        acls=before.acls is not after.acls and before.acls != after.acls,
        client_quotas=_different(before.client_quotas, after.client_quotas),
        scram_credentials=_different(before.scram_credentials, after.scram_credentials),
    )


def _different(before: Mapping[K, V], after: Mapping[K, V]) -> frozenset[K]:
    if before is after:
        return frozenset()
    return frozenset(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
