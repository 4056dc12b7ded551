"""Finds the topic and partition of a share group's dead letters, by the rules of KIP-1191."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import MetadataImage


class Destination(NamedTuple):
    """A partition for dead letters."""

    topic: str
    topic_id: bytes
    partition: int
    max_message_bytes: int


class TopicRules(NamedTuple):
    """The settings of the cluster for topics of dead letters."""

    name_prefix: str
    may_create: bool


def find_destination(
    image: MetadataImage,
    log_config: Callable[[str], LogConfig],
    rules: TopicRules,
    *,
    group: str,
    topic: str,
    source_partition: int,
) -> Destination | None:
    """Return the destination of the dead letters of a partition, None if the topic must be created first.

    Raises KafkaError with INVALID_CONFIG if the topic must not get dead letters: otherwise producers of the
    source could write to topics that they are not authorized for.
    """
    if topic.startswith("__"):
        raise _refused(
            f"Configured DLQ topic name in share group: {group} cannot start with __, topic: {topic}."
        )
    found = image.topics.by_name.get(topic)
    config = log_config(topic) if found is not None else None
    if config is not None and not config.errors_deadletterqueue_group_enable:
        raise _refused(f"DLQ is not enabled on configured DLQ topic for share group: {group}, topic: {topic}")
    if not topic.startswith(rules.name_prefix):
        raise _refused(
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: "
            f"{group}, topic: {topic}, prefix: {rules.name_prefix}"
        )
    if found is None or config is None:
        if not rules.may_create:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "DLQ topic does not exist and auto create is disabled on cluster for share group: "
                f"{group}, topic: {topic}.",
            )
        return None
    partition = source_partition % len(found.partitions)
    return Destination(topic, found.topic_id, partition, config.max_message_bytes)


def _refused(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, detail)
