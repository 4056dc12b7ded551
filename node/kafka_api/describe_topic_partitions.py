"""DescribeTopicPartitions: topics by name in pages (KIP-966).

A page has at most as many partitions as the request and `max.request.partition.size.limit` allow; the cursor
is the topic and partition at which the next page begins. Topics are sorted by name; those that the client may
not describe follow, on each page.
"""

from collections.abc import Iterable
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.image import INTERNAL_TOPICS, MetadataImage, PartitionImage
from ottla.node.authorization.access import Access
from ottla.node.kafka_api import authorized_operations
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.node.wire.request_limits import MANY_CHANGED, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, distinct, one_turn_at_once, ordered, take_turns

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(by_handler=((AclOperation.DESCRIBE, ResourceType.TOPIC),)),
    limits=RequestLimits(MANY_CHANGED, {"topics.name": TOPIC, "cursor.topic_name": TOPIC}),
    echoes=(Echo("topics", "topics", ("name",)),),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Result[DescribeTopicPartitionsResponse]:
    steps = _answer(services, context.access, request)
    return take_turns(steps) if context.is_large else one_turn_at_once(steps)


def _answer(
    services: Services, access: Access, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    image, cursor = services.metadata.image, request.cursor
    # An empty list stands for all topics.
    is_all = not request.topics
    named: Iterable[str] = image.topics.by_name if is_all else (one.name for one in request.topics)
    wanted, _ = yield from distinct(named)
    hidden: set[str] = set()
    for name in () if access.is_open or is_all else wanted:
        yield
        if not access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            hidden.add(name)
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    for name in (yield from ordered(hidden)):
        yield
        refused.append(_hidden(name))
    names = yield from ordered(
        name for name in wanted if name not in hidden and (cursor is None or name >= cursor.topic_name)
    )
    problem = None
    if cursor is not None and not is_all and cursor.topic_name not in wanted:
        problem = "the list of topics does not contain the topic of the cursor."
    if cursor is not None and cursor.partition_index < 0:
        problem = "the partition of the cursor is negative."
    if problem is not None:
        return _refused(request, problem)
    room = max(1, min(services.config.max_request_partition_size_limit, request.response_partition_limit))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        yield
        if is_all and not access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=False):
            continue
        if room == 0:
            return DescribeTopicPartitionsResponse(
                topics=[*topics, *refused], next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        topic = image.topics.by_name.get(name)
        if topic is None:
            topics.append(_unknown(access, name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        partitions = topic.partitions[first : first + room]
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=[_partition(image, partition) for partition in partitions],
                topic_authorized_operations=authorized_operations.of_topic(access, name),
            )
        )
        room -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            return DescribeTopicPartitionsResponse(
                topics=[*topics, *refused],
                next_cursor=Cursor(topic_name=name, partition_index=first + len(partitions)),
            )
    return DescribeTopicPartitionsResponse(topics=[*topics, *refused])


def _refused(request: DescribeTopicPartitionsRequest, problem: str) -> DescribeTopicPartitionsResponse:
    """Return the error for each topic, since the response has no error of its own.

    Without topics in the request this closes the connection.
    """
    if not request.topics:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations.NOT_REQUESTED,
    )


def _unknown(access: Access, name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as bad_name:
        error = bad_name.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations.of_topic(access, name),
    )


def _partition(image: MetadataImage, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    offline = image.offline_replicas(partition)
    has_leader = partition.has_leader and partition.leader not in offline
    # No error where Metadata has LEADER_NOT_AVAILABLE: Apache Kafka shows it by the leader only.
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.partition,
        leader_id=partition.leader if has_leader else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=offline,
    )
