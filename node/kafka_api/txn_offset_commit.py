"""TxnOffsetCommit: commits offsets of a group as part of a producer's transaction (KIP-98).

Since 3 the producer sends its member id and generation (KIP-447); since 5 the partition of the group need not
have been added to the transaction before (KIP-890); since 6 topics have ids instead of names, and an unknown
group or a stale epoch has its own error (KIP-1319).

Clients of 0 and 1 would end at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from ottla.groupcoord.offsets.offset_commands import OffsetToCommit, Producer, TxnOffsetCommit
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult
from ottla.groupcoord.request_token import Token
from ottla.logstore.verification import Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.image import MetadataImage
from ottla.node.coordinators.group_runtime import TransactionPart
from ottla.node.kafka_api.api_description import PARTITIONS, ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, Result
from ottla.node.services import Services
from ottla.node.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.node.wire.request_limits import COMMITTED_OFFSETS, MANY, MEMBER_OF_GROUP, NAME, RequestLimits
from ottla.node.work.turns import Steps, in_turns

API: Final = ApiDescription(
    versions=(0, 6),
    asks=Asks(
        by_handler=(
            (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.READ, ResourceType.GROUP),
            (AclOperation.READ, ResourceType.TOPIC),
        )
    ),
    limits=RequestLimits(MANY, {"transactional_id": NAME, **MEMBER_OF_GROUP, **COMMITTED_OFFSETS}),
    echoes=(Echo("topics", "topics", ("name", "topic_id"), PARTITIONS),),
)

FIRST_LOADING_VERSION = 2
FIRST_ABORTABLE_VERSION = 4
FIRST_ADDING_VERSION = 5
FIRST_TOPIC_ID_VERSION = 6

# A topic of the request, and an error for each of its partitions.
_Checked: TypeAlias = tuple[TxnOffsetCommitRequestTopic, list[ErrorCode]]


def handle(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> Result[TxnOffsetCommitResponse]:
    access = context.access
    access.check(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    return in_turns(_steps(services, context, request), is_large=context.is_large)


def _steps(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> Steps[Result[TxnOffsetCommitResponse]]:
    version = context.api_version
    checked: list[_Checked] = []
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        errors = yield from _check(services.metadata.image, context, topic, offsets)
        checked.append((topic, errors))

    def build(answer: OffsetCommitResult | KafkaError) -> Result[TxnOffsetCommitResponse]:
        if context.is_large:
            return BuiltInThread(lambda: _response(checked, len(offsets), answer, version))
        return _response(checked, len(offsets), answer, version)

    if not offsets:
        # The client may commit no offset of an existing partition: the group is not looked up.
        return build(OffsetCommitResult(errors=()))
    if not request.group_id:
        return build(KafkaError(ErrorCode.INVALID_GROUP_ID))
    producer = Producer(request.producer_id, request.producer_epoch)

    def make(guard: Guard | None, token: Token) -> TxnOffsetCommit:
        return TxnOffsetCommit(
            token=token,
            group_id=request.group_id,
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=offsets,
            producer=producer,
            guard=guard,
            all_is_illegal_generation=version < FIRST_TOPIC_ID_VERSION,
        )

    adds = version >= FIRST_ADDING_VERSION
    is_verified = adds or services.config.transaction_partition_verification_enable
    return services.groups.ask_in_transaction(
        request.group_id,
        TransactionPart(request.transactional_id, producer, adds, context.connection.number),
        services.txn_gate if is_verified else None,
        make,
        build,
    )


def _code_for_client(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code that a client of this version understands."""
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < FIRST_ABORTABLE_VERSION:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.NETWORK_EXCEPTION:
            return _code_for_client(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
        case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version < FIRST_LOADING_VERSION:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _check(
    image: MetadataImage,
    context: RequestContext,
    topic: TxnOffsetCommitRequestTopic,
    offsets: list[OffsetToCommit],
) -> Steps[list[ErrorCode]]:
    """Return an error for each partition; add those that exist to `offsets`, with their topic's name."""
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    known = image.topics.by_id.get(topic.topic_id) if by_id else image.topics.by_name.get(topic.name)
    count = 0 if known is None else len(known.partitions)
    is_unknown_id = known is None and by_id
    refused = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = topic.name if known is None else known.name
    if not is_unknown_id and not context.access.allows(AclOperation.READ, ResourceType.TOPIC, name):
        count, refused = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    errors: list[ErrorCode] = []
    for partition in topic.partitions:
        yield
        if known is None or not 0 <= partition.partition_index < count:
            errors.append(refused)
            continue
        errors.append(ErrorCode.NONE)
        offsets.append(
            OffsetToCommit(
                known.name,
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
                known.topic_id,
            )
        )
    return errors


def _response(
    checked: Sequence[_Checked], count: int, answer: OffsetCommitResult | KafkaError, version: int
) -> TxnOffsetCommitResponse:
    """Return the result of each partition.

    `answer` is that of the group for the `count` partitions that exist.
    """
    if isinstance(answer, KafkaError):
        committed = iter([_code_for_client(answer.code, version)] * count)
    else:
        committed = iter(answer.errors)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error or next(committed)
                    )
                    for partition, error in zip(topic.partitions, errors, strict=True)
                ],
            )
            for topic, errors in checked
            if topic.partitions
        ]
    )
