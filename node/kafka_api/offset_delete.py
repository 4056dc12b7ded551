"""OffsetDelete (KIP-496): deletes offsets of topics that the group's consumers do not subscribe to."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from ottla.groupcoord.offsets.offset_commands import OffsetDelete
from ottla.groupcoord.offsets.offset_results import OffsetDeleteResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.node.wire.request_limits import GROUP, MANY_PARTITIONS, TOPIC, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 0),
    asks=Asks(
        by_handler=((AclOperation.DELETE, ResourceType.GROUP), (AclOperation.READ, ResourceType.TOPIC))
    ),
    limits=RequestLimits(MANY_PARTITIONS, {"group_id": GROUP, "topics.name": TOPIC}),
    old_ids=("group_id",),
)


def handle(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> Result[OffsetDeleteResponse]:
    context.access.check(AclOperation.DELETE, ResourceType.GROUP, request.group_id)
    allowed = context.access.allows_each(
        AclOperation.READ, ResourceType.TOPIC, [topic.name for topic in request.topics]
    )
    if context.is_large:
        return _delete_many(services, request, allowed)
    return _delete(services, request, list(allowed))


async def _delete_many(
    services: Services, request: OffsetDeleteRequest, allowed: Iterable[bool]
) -> Result[OffsetDeleteResponse]:
    return _delete(services, request, await listed(allowed, is_large=True))


def _delete(
    services: Services, request: OffsetDeleteRequest, may_read: Sequence[bool]
) -> Result[OffsetDeleteResponse]:
    topics = services.metadata.image.topics
    wanted = {
        topic.name: list(dict.fromkeys(each.partition_index for each in topic.partitions))
        for topic in request.topics
    }
    denied = wanted.keys() - {topic.name for topic in compress(request.topics, may_read)}
    existing = {
        name: [each for each in partitions if topics.partition(TopicPartition(name, each)) is not None]
        for name, partitions in wanted.items()
        if name not in denied
    }

    def make(token: int) -> OffsetDelete:
        named = [(name, partitions) for name, partitions in existing.items() if partitions]
        return OffsetDelete(token=token, group_id=request.group_id, topics=named)

    def absent(name: str) -> ErrorCode:
        is_denied = name in denied
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def build(answer: OffsetDeleteResult | KafkaError) -> OffsetDeleteResponse:
        if isinstance(answer, KafkaError):
            return OffsetDeleteResponse(error_code=answer.code)
        errors = {(name, index): error for name, partitions in answer.topics for index, error in partitions}
        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=index,
                            error_code=errors.get((name, index), absent(name)),
                        )
                        for index in partitions
                    ],
                )
                for name, partitions in wanted.items()
            ]
        )

    return services.groups.ask(request.group_id, make, build)
