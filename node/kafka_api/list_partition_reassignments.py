"""ListPartitionReassignments: which partitions are moving, from where to where (KIP-455)."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.reassignment_control import OngoingReassignment, ongoing_reassignments
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, TOPIC, RequestLimits

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(of_cluster=AclOperation.DESCRIBE),
    limits=RequestLimits(MANY_PARTITIONS, {"topics.name": TOPIC}),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    image = services.metadata.image
    # A topic that is named twice is listed twice. What does not exist does not move.
    parts: list[Sequence[tuple[str, Sequence[int]]] | None] = [None]
    if request.topics is not None:
        parts = [[(topic.name, topic.partition_indexes)] for topic in request.topics]
    listed = [
        OngoingTopicReassignment(name=name, partitions=[_described(one) for one in moving])
        for part in parts
        for name, moving in groupby(ongoing_reassignments(image, part), key=lambda one: one.topic)
    ]
    return ListPartitionReassignmentsResponse(error_message=None, topics=listed)


def _described(moving: OngoingReassignment) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=moving.partition,
        replicas=moving.replicas,
        adding_replicas=moving.adding_replicas,
        removing_replicas=moving.removing_replicas,
    )
