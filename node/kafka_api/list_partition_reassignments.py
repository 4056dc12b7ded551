"""ListPartitionReassignments: which partitions are moving, from where to where (KIP-455)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from metadata_raft.image import TopicImage
from node.kafka_api.request_context import RequestContext
from node.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from node.broker import Broker


def handle(
    broker: "Broker", context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    topics = broker.metadata.image.topics.by_name
    found: list[tuple[TopicImage, Sequence[int]]] = []
    if request.topics is None:
        for _, topic in sorted(topics.items()):
            found.append((topic, range(len(topic.partitions))))
    else:
        # What does not exist does not move; Apache Kafka says no more about it.
        found = [(topics[one.name], one.partition_indexes) for one in request.topics if one.name in topics]
    listed = [
        OngoingTopicReassignment(name=topic.name, partitions=list(_moving(topic, indexes)))
        for topic, indexes in found
    ]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[topic for topic in listed if topic.partitions]
    )


def _moving(topic: TopicImage, indexes: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    for index in indexes:
        partition = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
