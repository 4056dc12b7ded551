"""The topics that may have dead letters, and Kafka's errors for others."""

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.share.dead_letter_topic import Destination, TopicRules, find_destination

TOPIC_ID = bytes(range(16))


def found(
    topic: str, *, prefix: str = "dlq.", may_create: bool = False, is_enabled: bool = True, partition: int = 0
) -> Destination | None:
    """Find a destination in a cluster with the topics dlq.three, of three partitions, __dlq and orders."""
    topics = [
        TopicImage(name, TOPIC_ID, tuple(PartitionImage(index, (1,), (1,), 1, 0, 0) for index in range(3)))
        for name in ("dlq.three", "__dlq", "orders")
    ]
    image = MetadataImage(topics=TopicsImage(by_name={one.name: one for one in topics}))
    config = LogConfig(errors_deadletterqueue_group_enable=is_enabled, max_message_bytes=77)
    return find_destination(
        image,
        lambda _: config,
        TopicRules(prefix, may_create),
        group="g",
        topic=topic,
        source_partition=partition,
    )


@pytest.mark.parametrize(("partition", "index"), [(0, 0), (2, 2), (3, 0), (7, 1)])
def test_the_destination_of_a_partition_follows_from_its_number(partition: int, index: int) -> None:
    assert found("dlq.three", partition=partition) == Destination("dlq.three", TOPIC_ID, index, 77)


@pytest.mark.parametrize(
    ("topic", "settings", "code", "words"),
    [
        ("__dlq", {"prefix": ""}, ErrorCode.INVALID_CONFIG, "cannot start with __"),
        ("orders", {}, ErrorCode.INVALID_CONFIG, "does not comply with the DLQ topic prefix"),
        ("dlq.three", {"is_enabled": False}, ErrorCode.INVALID_CONFIG, "DLQ is not enabled"),
        ("dlq.none", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "auto create is disabled"),
        ("none", {"may_create": True}, ErrorCode.INVALID_CONFIG, "does not comply"),
    ],
)
def test_other_topics_may_not_have_dead_letters(
    topic: str, settings: dict[str, object], code: ErrorCode, words: str
) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        found(topic, **settings)  # type: ignore[arg-type]

    assert refused.value.code is code


def test_the_prefix_may_be_changed_or_empty() -> None:
    assert found("orders", prefix="") is not None
    assert found("orders", prefix="ord") is not None


def test_a_missing_topic_may_be_created() -> None:
    assert found("dlq.none", may_create=True) is None
