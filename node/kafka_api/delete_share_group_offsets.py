"""DeleteShareGroupOffsets (KIP-932): deletes the offsets of topics in a share group without members."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from ottla.groupcoord.share.share_commands import DeleteShareGroupOffsets
from ottla.groupcoord.share.share_results import DeleteShareGroupOffsetsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.alter_share_group_offsets import DENIED_TEXT
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.node.wire.request_limits import GROUP, MANY, TOPIC, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(
        by_handler=((AclOperation.DELETE, ResourceType.GROUP), (AclOperation.READ, ResourceType.TOPIC))
    ),
    limits=RequestLimits(MANY, {"group_id": GROUP, "topics.topic_name": TOPIC}),
    old_ids=("group_id",),
)


def handle(
    services: Services, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Result[DeleteShareGroupOffsetsResponse]:
    if not services.serves_share_groups:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    context.access.check(AclOperation.DELETE, ResourceType.GROUP, request.group_id)
    allowed = context.access.allows_each(
        AclOperation.READ, ResourceType.TOPIC, [topic.topic_name for topic in request.topics]
    )
    if context.is_large:
        return _delete_many(services, request, allowed)
    return _delete(services, request, list(allowed))


async def _delete_many(
    services: Services, request: DeleteShareGroupOffsetsRequest, allowed: Iterable[bool]
) -> Result[DeleteShareGroupOffsetsResponse]:
    return _delete(services, request, await listed(allowed, is_large=True))


def _delete(
    services: Services, request: DeleteShareGroupOffsetsRequest, may_read: Sequence[bool]
) -> Result[DeleteShareGroupOffsetsResponse]:
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    requested = list(dict.fromkeys(topic.topic_name for topic in compress(request.topics, may_read)))
    denied = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=DENIED_TEXT,
        )
        for topic, is_allowed in zip(request.topics, may_read, strict=True)
        if not is_allowed
    ]

    def make(token: int) -> DeleteShareGroupOffsets:
        return DeleteShareGroupOffsets(token=token, group_id=request.group_id, topics=requested)

    def build(answer: DeleteShareGroupOffsetsResult | KafkaError) -> DeleteShareGroupOffsetsResponse:
        if isinstance(answer, KafkaError):
            return DeleteShareGroupOffsetsResponse(
                error_code=answer.code, error_message=answer.detail or None
            )
        return DeleteShareGroupOffsetsResponse(
            responses=[
                *denied,
                *(
                    DeleteShareGroupOffsetsResponseTopic(
                        topic_name=one.name,
                        topic_id=one.topic_id,
                        error_code=one.error,
                        error_message=one.detail,
                    )
                    for one in answer.topics
                ),
            ]
        )

    return services.groups.ask(request.group_id, make, build)
