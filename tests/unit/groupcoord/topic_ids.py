"""Topic ids that are made of the names of topics, so that assignments can be shown by name."""

from collections.abc import Iterable, Mapping

from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.share.share_results import ShareGroupHeartbeatResult


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"-")[:16]


def topic_name(topic_id: bytes) -> str:
    return topic_id.rstrip(b"-").decode()


def named(partitions: Mapping[bytes, Iterable[int]]) -> dict[str, list[int]]:
    """Return the partitions by the names of their topics, also of topics that are gone."""
    return {topic_name(topic): sorted(numbers) for topic, numbers in partitions.items()}


def partitions_in(
    answer: ConsumerGroupHeartbeatResult | ShareGroupHeartbeatResult,
) -> dict[str, list[int]] | None:
    """Return the assignment in an answer, by the names of its topics."""
    if answer.assignment is None:
        return None
    return {topic_name(topic): list(partitions) for topic, partitions in answer.assignment}
