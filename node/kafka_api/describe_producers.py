"""DescribeProducers: the producers that are active in partitions, as this replica knows them (KIP-664). 0.

Followers answer, too: what hangs on one broker is found by asking that one.
"""

from typing import TYPE_CHECKING, Any

from logstore.errors import KafkaError
from logstore.producer_state import ProducerEntry
from logstore.topic_partition import check_topic_name
from node.kafka_api.request_context import RequestContext
from node.runtime.turns import Steps, in_turns
from node.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: DescribeProducersRequest) -> Any:
    return in_turns(_answer(broker, request), is_large=context.is_large)


def _answer(broker: "Broker", request: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(_describe(broker, topic.name, index))
            yield
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _describe(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = broker.replica_manager.partition((topic, index))
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
