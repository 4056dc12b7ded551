"""AlterShareGroupOffsets (KIP-932): sets the start offsets of a share group without members."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from ottla.groupcoord.share.share_commands import AlterShareGroupOffsets, NewStart
from ottla.groupcoord.share.share_results import AlteredTopic, AlterShareGroupOffsetsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import ZERO_UUID
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.node.wire.request_limits import GROUP, MANY_CHANGED, TOPIC, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP), (AclOperation.READ, ResourceType.TOPIC))),
    limits=RequestLimits(MANY_CHANGED, {"group_id": GROUP, "topics.topic_name": TOPIC}),
)

DENIED_TEXT: Final = "Topic authorization failed."  # Kafka's words


def handle(
    services: Services, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Result[AlterShareGroupOffsetsResponse]:
    if not services.serves_share_groups:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    allowed = context.access.allows_each(
        AclOperation.READ, ResourceType.TOPIC, [topic.topic_name for topic in request.topics]
    )
    if context.is_large:
        return _alter_many(services, request, allowed)
    return _alter(services, request, list(allowed))


async def _alter_many(
    services: Services, request: AlterShareGroupOffsetsRequest, allowed: Iterable[bool]
) -> Result[AlterShareGroupOffsetsResponse]:
    return _alter(services, request, await listed(allowed, is_large=True))


def _alter(
    services: Services, request: AlterShareGroupOffsetsRequest, may_read: Sequence[bool]
) -> Result[AlterShareGroupOffsetsResponse]:
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    denied = [
        _refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED, DENIED_TEXT)
        for topic, is_allowed in zip(request.topics, may_read, strict=True)
        if not is_allowed
    ]
    starts = {
        topic.topic_name: [NewStart(one.partition_index, one.start_offset) for one in topic.partitions]
        for topic in compress(request.topics, may_read)
    }

    def make(token: int) -> AlterShareGroupOffsets:
        return AlterShareGroupOffsets(token=token, group_id=request.group_id, topics=list(starts.items()))

    def build(answer: AlterShareGroupOffsetsResult | KafkaError) -> AlterShareGroupOffsetsResponse:
        if isinstance(answer, KafkaError):
            return AlterShareGroupOffsetsResponse(error_code=answer.code, error_message=answer.detail or None)
        return AlterShareGroupOffsetsResponse(responses=[*denied, *map(_topic, answer.topics)])

    return services.groups.ask(request.group_id, make, build)


def _topic(topic: AlteredTopic) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition, error_code=one.error, error_message=one.detail
            )
            for one in topic.partitions
        ],
    )


def _refused(
    topic: AlterShareGroupOffsetsRequestTopic, error: ErrorCode, text: str
) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index, error_code=error, error_message=text
            )
            for one in topic.partitions
        ],
    )
