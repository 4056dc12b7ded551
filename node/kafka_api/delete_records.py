"""DeleteRecords: moves the log start offset of partitions (KIP-107). Versions 0 to 2.

Only topics with `cleanup.policy` delete can be trimmed: a compacted topic promises the last value of each
key. The response is sent when all live replicas have moved their log start offset, so that no election brings
records back. The checkpoint of log start offsets is written first, so deleted records stay deleted if the
node is killed.
"""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.checkpoint import LOG_START_OFFSET_CHECKPOINT
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import PARTITIONS, ApiDescription, Asks, Echo
from ottla.node.kafka_api.internal_topics import is_internal_topic
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.replica.delayed_delete import Deletion
from ottla.node.replica.partition import Partition
from ottla.node.services import Services
from ottla.node.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.node.wire.request_limits import MANY_PARTITIONS, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, take_turns

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(by_handler=((AclOperation.DELETE, ResourceType.TOPIC),)),
    limits=RequestLimits(MANY_PARTITIONS, {"topics.name": TOPIC}),
    echoes=(Echo("topics", "topics", ("name",), PARTITIONS),),
)

NO_LOW_WATERMARK = -1

# (topic, partition) -> the result, or the partition whose records were deleted on this node.
_Outcomes = dict[tuple[str, int], Deletion | Partition]


async def handle(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    waiting: dict[Partition, int] = {}
    outcomes = await take_turns(_delete_all(services, context.access, request, waiting))
    await services.maintenance.checkpoint(LOG_START_OFFSET_CHECKPOINT)
    kept = {one: offset for one, offset in waiting.items() if one.log.failure is None}
    # Without the checkpoint on disk the records would be back after a restart.
    deleted = dict.fromkeys(waiting, Deletion(ErrorCode.KAFKA_STORAGE_ERROR, NO_LOW_WATERMARK))
    if kept:
        deleted |= await services.replica_manager.delay_delete(kept, request.timeout_ms)
    return await take_turns(_answer(request, outcomes, deleted))


def _answer(
    request: DeleteRecordsRequest, outcomes: _Outcomes, deleted: Mapping[Partition, Deletion]
) -> Steps[DeleteRecordsResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for index in {one.partition_index: None for one in topic.partitions}:
            yield
            outcome = outcomes[topic.name, index]
            partitions.append(_result(index, deleted[outcome] if isinstance(outcome, Partition) else outcome))
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def _delete_all(
    services: Services, access: Access, request: DeleteRecordsRequest, waiting: dict[Partition, int]
) -> Steps[_Outcomes]:
    """Delete on this node; add each partition to `waiting` with its new log start offset."""
    outcomes: _Outcomes = {}
    for topic in request.topics:
        is_allowed = access.allows(AclOperation.DELETE, ResourceType.TOPIC, topic.name)
        # If a partition is named twice, the last offset counts.
        for wanted in {one.partition_index: one for one in topic.partitions}.values():
            outcomes[topic.name, wanted.partition_index] = (
                _delete(services, topic.name, wanted, waiting)
                if is_allowed
                else Deletion(ErrorCode.TOPIC_AUTHORIZATION_FAILED, NO_LOW_WATERMARK)
            )
            yield
    return outcomes


def _delete(
    services: Services, topic: str, wanted: DeleteRecordsPartition, waiting: dict[Partition, int]
) -> Deletion | Partition:
    try:
        if is_internal_topic(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = services.replica_manager.partition((topic, wanted.partition_index))
        partition.check_leader()
        config = partition.log.config
        if config.compact and not config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        offset = partition.delete_records_before(wanted.offset)
    except KafkaError as error:
        return Deletion(error.code, NO_LOW_WATERMARK)
    waiting[partition] = max(offset, waiting.get(partition, 0))
    return partition


def _result(index: int, deletion: Deletion) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=deletion.low_watermark, error_code=deletion.code
    )
