"""ListPartitionReassignments: the ongoing reassignments of partitions (KIP-455)."""

from collections.abc import Sequence
from typing import Final

from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.reassignment_control import OngoingReassignment, ongoing_reassignments
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, one_turn_at_once, ordered

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(of_cluster=AclOperation.DESCRIBE),
    limits=RequestLimits(MANY_PARTITIONS, {"topics.name": TOPIC}),
    changes_nothing=True,
)
AT_ONCE: Final = 16  # partitions checked in one step, at some 0.5 us each


def handle(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Result[ListPartitionReassignmentsResponse]:
    return one_turn_at_once(_answer(services.metadata.image, request))


def _answer(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Steps[ListPartitionReassignmentsResponse]:
    """Return the ongoing reassignments; a small request may ask for all partitions of the cluster."""
    listed = []
    # A topic that is named twice is listed twice. Unknown partitions are not being reassigned.
    for name, indexes in (yield from _requested(image, request)):
        moving: list[OngoingPartitionReassignment] = []
        for start in range(0, len(indexes), AT_ONCE):
            some = [(name, indexes[start : start + AT_ONCE])]
            moving += [_described(one) for one in ongoing_reassignments(image, some)]
            yield
        if moving:
            listed.append(OngoingTopicReassignment(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=listed)


def _requested(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Steps[list[tuple[str, Sequence[int]]]]:
    if request.topics is not None:
        return [(topic.name, topic.partition_indexes) for topic in request.topics]
    by_name = image.topics.by_name
    requested: list[tuple[str, Sequence[int]]] = []
    for name in (yield from ordered(by_name)):
        requested.append((name, range(len(by_name[name].partitions))))
        yield
    return requested


def _described(moving: OngoingReassignment) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=moving.partition,
        replicas=moving.replicas,
        adding_replicas=moving.adding_replicas,
        removing_replicas=moving.removing_replicas,
    )
