"""OffsetForLeaderEpoch: the end offset of a leader epoch, from which a client detects a diverging log.

Versions 2 to 4. Only the leader answers. An epoch that it does not know is answered with -1, -1 and no error.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, in_turns

API: Final = ApiDescription(
    versions=(2, 4),
    asks=Asks(
        by_handler=(
            (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
            (AclOperation.DESCRIBE, ResourceType.TOPIC),
        )
    ),
    limits=RequestLimits(MANY_PARTITIONS, {"topics.topic": TOPIC}),
    echoes=(Echo("topics", "topics", ("topic",), Echo("partitions", "partitions", ("partition",))),),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Result[OffsetForLeaderEpochResponse]:
    return in_turns(_answer(services, context.access, request), is_large=context.is_large)


def _answer(
    services: Services, access: Access, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    is_replica = access.allows_of_cluster(AclOperation.CLUSTER_ACTION, log_if_denied=False)
    topics = []
    for topic in request.topics:
        is_allowed = is_replica or access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        partitions = []
        for wanted in topic.partitions:
            if is_allowed:
                partitions.append(_end_of_epoch(services, topic.topic, wanted))
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                partitions.append(EpochEndOffset(partition=wanted.partition, error_code=code))
            yield
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of_epoch(services: Services, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = services.replica_manager.partition((topic, wanted.partition))
        partition.check_leader(wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    found = partition.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(
        partition=wanted.partition, leader_epoch=found.leader_epoch, end_offset=found.end_offset
    )
