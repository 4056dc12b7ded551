"""DeleteRecords: let a partition begin at a later offset (KIP-107). 0 to 2.

Only topics with `cleanup.policy` delete can be cut: a compacted one promises the last value of each key. The
checkpoint of log starts is on the disk before the answer, so what is gone stays gone when the node is killed.
"""

from typing import TYPE_CHECKING

from logstore.checkpoint import LOG_START_OFFSET_CHECKPOINT
from logstore.errors import ErrorCode, KafkaError
from node.kafka_api.internal_topics import is_internal_topic
from node.kafka_api.request_context import RequestContext
from node.runtime.turns import Steps, take_turns
from node.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from node.broker import Broker

NO_LOW_WATERMARK = -1


async def handle(
    broker: "Broker", context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    response = await take_turns(_answer(broker, request))
    await broker.maintenance.checkpoint(LOG_START_OFFSET_CHECKPOINT)
    return response


def _answer(broker: "Broker", request: DeleteRecordsRequest) -> Steps[DeleteRecordsResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        # The last wish counts for a partition that is named twice.
        for wanted in {one.partition_index: one for one in topic.partitions}.values():
            partitions.append(_delete(broker, topic.name, wanted))
            yield
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def _delete(broker: "Broker", topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        if is_internal_topic(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = broker.replica_manager.partition((topic, wanted.partition_index))
        partition.check_leader()
        config = partition.log.config
        if config.compact and not config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        low_watermark = partition.delete_records_before(wanted.offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)
