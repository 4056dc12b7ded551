"""DeleteRecords: let a partition begin at a later offset (KIP-107). 0 to 2.

Only topics with `cleanup.policy` delete can be cut: a compacted one promises the last value of each key. The
answer comes when all living replicas have cut too, so that no election brings records back. The checkpoint of
log starts is on the disk before, so what is gone stays gone when the node is killed.
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

# (topic, partition) -> how it ended, or the partition that was cut here.
_Outcomes = dict[tuple[str, int], Deletion | Partition]


async def handle(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    waiting: dict[Partition, int] = {}
    outcomes = await take_turns(_delete_all(services, context.access, request, waiting))
    await services.maintenance.checkpoint(LOG_START_OFFSET_CHECKPOINT)
    kept = {one: offset for one, offset in waiting.items() if one.log.failure is None}
    # A disk that did not take the checkpoint would have the records back after a restart.
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
    """Cut here; the partitions that were cut are put into `waiting`, each with its offset."""
    outcomes: _Outcomes = {}
    for topic in request.topics:
        is_allowed = access.allows(AclOperation.DELETE, ResourceType.TOPIC, topic.name)
        # The last wish counts for a partition that is named twice.
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
