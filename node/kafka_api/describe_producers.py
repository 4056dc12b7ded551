"""DescribeProducers: the producers that are active in partitions, as their leader knows them (KIP-664). 0."""

from typing import TYPE_CHECKING

from logstore.errors import KafkaError
from logstore.producer_state import ProducerEntry
from logstore.topic_partition import check_topic_name
from node.kafka_api.request_context import RequestContext
from node.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker


def handle(
    broker: "Broker", context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = broker.replica_manager.partition((topic, index))
        partition.check_leader()
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.detail or None
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[_state(entry) for entry in partition.log.active_producers()],
    )


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
