"""OffsetCommit: stores the committed offsets of a group.

Versions 2 to 4 may have a retention of their own; since 6 the leader epoch (KIP-320); since 7 static members;
since 9 an unknown group is GROUP_ID_NOT_FOUND; since 10 topics have ids instead of names, and an unknown id
is UNKNOWN_TOPIC_ID. Topics and partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION, each on its own.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetToCommit, PackedOffsets
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.image import MetadataImage, TopicImage
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import PARTITIONS, ApiDescription, Asks, Echo
from ottla.node.kafka_api.packed_commit import (
    FIRST_TOPIC_ID_VERSION,
    PackedCommit,
    encode_answer,
    packing_decoder,
)
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, EncodedBody, Result
from ottla.node.services import Services
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.node.wire.request_limits import COMMITTED_OFFSETS, MANY, MEMBER_OF_GROUP, RequestLimits

API: Final = ApiDescription(
    versions=(2, 10),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP), (AclOperation.READ, ResourceType.TOPIC))),
    limits=RequestLimits(MANY, {**MEMBER_OF_GROUP, **COMMITTED_OFFSETS}),
    decoder_of=packing_decoder,
    echoes=(Echo("topics", "topics", ("name", "topic_id"), PARTITIONS),),
)

FIRST_GROUP_ID_NOT_FOUND_VERSION = 9


class Checked(NamedTuple):
    """The topics of a request as the cluster has them, with an error for each partition.

    `offsets` are those to commit.
    """

    topics: list[tuple[OffsetCommitRequestTopic, TopicImage | None, Sequence[ErrorCode]]]
    offsets: list[OffsetToCommit]


def handle(
    services: Services, context: RequestContext, request: OffsetCommitRequest | PackedCommit
) -> Result[OffsetCommitResponse]:
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    if isinstance(request, PackedCommit):
        offsets = _packed_offsets(services.metadata.image, context, request)
        if offsets is not None:
            return _commit_packed(services, context, request, offsets)
        request = request.opened()
    if context.is_large:
        return _commit_large(services, context, request)
    return _commit(services, context, request, _check(services.metadata.image, context, request))


async def _commit_large(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> Result[OffsetCommitResponse]:
    image = services.metadata.image
    checked = await services.in_thread(lambda: _check(image, context, request))
    return _commit(services, context, request, checked)


def _check(image: MetadataImage, context: RequestContext, request: OffsetCommitRequest) -> Checked:
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    topics = [
        (topic, *_check_topic(image, topic, context.access, by_id=by_id))
        for topic in request.topics
        if topic.partitions  # Kafka's response leaves out a topic without partitions
    ]
    return Checked(topics, list(_offsets(topics)))


def _commit(
    services: Services, context: RequestContext, request: OffsetCommitRequest, checked: Checked
) -> Result[OffsetCommitResponse]:
    offsets = checked.offsets

    def build(answer: OffsetCommitResult | KafkaError) -> OffsetCommitResponse:
        if isinstance(answer, KafkaError):
            committed = iter([answer.code] * len(offsets))
        else:
            committed = iter(answer.errors)
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=partition.partition_index, error_code=error or next(committed)
                        )
                        for partition, error in zip(topic.partitions, errors, strict=True)
                    ],
                )
                for topic, _, errors in checked.topics
            ]
        )

    def finish(answer: OffsetCommitResult | KafkaError) -> Result[OffsetCommitResponse]:
        return BuiltInThread(lambda: build(answer)) if context.is_large else build(answer)

    if not offsets:
        # The client may commit no offset of an existing partition: the group is not looked up.
        return finish(OffsetCommitResult(errors=()))

    make = _command_maker(context, request, offsets, request.retention_time_ms)
    return services.groups.ask(request.group_id, make, finish)


def _commit_packed(
    services: Services, context: RequestContext, request: PackedCommit, offsets: Sequence[PackedOffsets]
) -> Result[OffsetCommitResponse]:
    """Commit offsets without metadata of partitions that all exist: all get the same error code."""

    def build(answer: OffsetCommitResult | KafkaError) -> EncodedBody:
        error = answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
        return EncodedBody([encode_answer(context.api_version, request, error)], error)

    return services.groups.ask(request.group_id, _command_maker(context, request, offsets), build)


def _command_maker(
    context: RequestContext,
    request: OffsetCommitRequest | PackedCommit,
    offsets: Sequence[OffsetToCommit | PackedOffsets],
    retention_time_ms: int = -1,
) -> Callable[[int], OffsetCommit]:
    """Return a function that makes the command; versions of packed requests have no retention."""

    def make(token: int) -> OffsetCommit:
        return OffsetCommit(
            token=token,
            group_id=request.group_id,
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            retention_time_ms=retention_time_ms,
            offsets=offsets,
            unknown_group_is_illegal_generation=context.api_version < FIRST_GROUP_ID_NOT_FOUND_VERSION,
        )

    return make


def _packed_offsets(
    image: MetadataImage, context: RequestContext, request: PackedCommit
) -> list[PackedOffsets] | None:
    """Return the offsets to commit.

    Return None if the cluster lacks a topic or a partition of the request, or if the client may not read one.
    """
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    access = context.access
    offsets = []
    for topic in request.topics:
        known = image.topics.by_id.get(topic.topic_id) if by_id else image.topics.by_name.get(topic.name)
        if known is None or min(topic.partitions) < 0 or max(topic.partitions) >= len(known.partitions):
            return None
        if not access.allows(AclOperation.READ, ResourceType.TOPIC, known.name):
            return None
        offsets.append(topic.offsets_to_commit(known.name, known.topic_id))
    return offsets


def _check_topic(
    image: MetadataImage, topic: OffsetCommitRequestTopic, access: Access, *, by_id: bool
) -> tuple[TopicImage | None, Sequence[ErrorCode]]:
    """Return the topic as the cluster has it, and an error for each partition of the request."""
    known = image.topics.by_id.get(topic.topic_id) if by_id else image.topics.by_name.get(topic.name)
    if known is None and by_id:
        return None, [ErrorCode.UNKNOWN_TOPIC_ID] * len(topic.partitions)
    name = topic.name if known is None else known.name
    if not access.allows(AclOperation.READ, ResourceType.TOPIC, name):
        return None, [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * len(topic.partitions)
    if known is None:
        return None, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(topic.partitions)
    count = len(known.partitions)
    return known, [
        ErrorCode.NONE if 0 <= each.partition_index < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for each in topic.partitions
    ]


def _offsets(
    checked: Sequence[tuple[OffsetCommitRequestTopic, TopicImage | None, Sequence[ErrorCode]]],
) -> Iterator[OffsetToCommit]:
    for topic, known, errors in checked:
        if known is None:
            continue
        for partition, error in zip(topic.partitions, errors, strict=True):
            if error is ErrorCode.NONE:
                yield OffsetToCommit(
                    known.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    known.topic_id,
                )
