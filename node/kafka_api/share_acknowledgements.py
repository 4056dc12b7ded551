"""Validates and authorizes the acknowledgements in ShareAcknowledge and ShareFetch, and passes them on."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.share.share_partition_manager import AcknowledgeResult, Answers
from ottla.node.share.share_sessions import SessionKey, TopicIdPartition
from ottla.node.share.share_words import AcknowledgementBatch
from ottla.node.wire.acknowledge_type import AcknowledgeType
from ottla.node.wire.messages.share_acknowledge import AcknowledgeTopic
from ottla.node.wire.messages.share_fetch import FetchTopic

MAX_MEMBER_ID_LENGTH: Final = 36
# From this version of both APIs on members may renew their acquisition locks (KIP-1222).
FIRST_VERSION_WITH_RENEW: Final = 2
_RENEW: Final = int(AcknowledgeType.RENEW)


class _Batch(Protocol):
    """An acknowledgement batch of either API."""

    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def acknowledge_types(self) -> Sequence[int]: ...


def is_member_id(member: str | None) -> bool:
    """Return True if the text is a valid member id."""
    return bool(member) and member is not None and len(member) <= MAX_MEMBER_ID_LENGTH


def acknowledge(
    services: Services,
    context: RequestContext,
    key: SessionKey,
    topics: Sequence[FetchTopic] | Sequence[AcknowledgeTopic],
    *,
    is_renew: bool,
) -> Answers:
    """Pass a member's acknowledgements to the share-partitions; return the answer for each of them.

    As in Apache Kafka, partitions without batches are answered only if another partition has batches.
    """
    access, image = context.access, services.metadata.image
    max_type = (
        AcknowledgeType.RENEW if context.api_version >= FIRST_VERSION_WITH_RENEW else AcknowledgeType.REJECT
    )
    answers: Answers = {}
    empty: list[TopicIdPartition] = []
    interested: dict[TopicIdPartition, Sequence[AcknowledgementBatch]] = {}
    for topic in topics:
        known = image.topics.by_id.get(topic.topic_id)
        is_allowed = known is not None and access.allows(AclOperation.READ, ResourceType.TOPIC, known.name)
        for one in topic.partitions:
            topic_id_partition = TopicIdPartition(topic.topic_id, one.partition_index)
            batches = one.acknowledgement_batches
            if known is None:
                answers[topic_id_partition] = AcknowledgeResult(ErrorCode.UNKNOWN_TOPIC_ID)
            elif (joined := joined_batches(batches, max_type, is_renew=is_renew)) is None:
                answers[topic_id_partition] = AcknowledgeResult(ErrorCode.INVALID_REQUEST)
            elif not is_allowed:
                answers[topic_id_partition] = AcknowledgeResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not 0 <= topic_id_partition.partition < len(known.partitions):
                answers[topic_id_partition] = AcknowledgeResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif not joined:
                empty.append(topic_id_partition)
            else:
                interested[topic_id_partition] = joined
    if interested:
        answers |= services.shares.acknowledge(key, interested)
        answers |= dict.fromkeys(empty, AcknowledgeResult())
    return answers


def joined_batches(
    batches: Sequence[_Batch], max_type: int, *, is_renew: bool
) -> list[AcknowledgementBatch] | None:
    """Return the batches, or None if they are invalid. Adjacent batches with a type per record are merged.

    Batches are invalid if they are not in order, or have a type above `max_type`, or RENEW unless `is_renew`.
    librdkafka sends a batch for each record, so there is much to merge. If several records may not be
    acknowledged, the error of merged batches may be that of a later record than with one after the other:
    INVALID_REQUEST for offsets that were never acquired instead of INVALID_RECORD_STATE.
    """
    joined: list[AcknowledgementBatch] = []
    types_of_run: list[int] = []  # of adjacent batches with a type per record, from `begin` on
    begin, end = 0, -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        count = len(types)
        if first > last or first < end or not count or (count > 1 and last - first != count - 1):
            return None
        if min(types) < 0 or max(types) > max_type or (not is_renew and _RENEW in types):
            return None
        has_type_per_record = count == last - first + 1
        if types_of_run and has_type_per_record and first == end + 1:
            types_of_run += types
        else:
            if types_of_run:
                joined.append(AcknowledgementBatch(begin, end, tuple(types_of_run)))
            begin, types_of_run = first, list(types) if has_type_per_record else []
            if not has_type_per_record:
                joined.append(AcknowledgementBatch(first, last, tuple(types)))
        end = last
    if types_of_run:
        joined.append(AcknowledgementBatch(begin, end, tuple(types_of_run)))
    return joined


def count_failures(services: Services, answers: Mapping[TopicIdPartition, AcknowledgeResult]) -> None:
    """Count a failed acknowledgement for each topic that has one."""
    by_id = services.metadata.image.topics.by_id
    failed = {
        topic_id_partition.topic_id
        for topic_id_partition, one in answers.items()
        if one.error is not ErrorCode.NONE
    }
    if failed:
        services.shares.count_failed(by_id[one].name for one in failed if one in by_id)
