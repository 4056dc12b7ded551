"""The topics that a list has details of, and their order."""

from ottla.node.rest_api.topics_overview import natural_sort_key, within_partitions
from ottla.node.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


def topic(name: str, partitions: int) -> MetadataResponseTopic:
    parts = [MetadataResponsePartition(partition_index=one) for one in range(partitions)]
    return MetadataResponseTopic(name=name, partitions=parts)


def test_names_are_in_the_order_in_which_people_count() -> None:
    names = ["topic-10", "topic-2", "topic", "10", "9a", "topic-2-b", "a"]

    ordered = sorted(names, key=natural_sort_key)

    assert ordered == ["9a", "10", "a", "topic", "topic-2", "topic-2-b", "topic-10"]


def test_details_end_before_there_are_too_many_partitions() -> None:
    topics = [topic("a", 3), topic("b", 2), topic("c", 2), topic("d", 1)]

    assert [one.name for one in within_partitions(topics, 6)] == ["a", "b"]
