"""ListOffsets: the offset at a special place of a log, or the first at or after a timestamp.

1 to 11. read_committed since 2, leader epochs since 4; the special timestamps came one by one: -3 (the newest
timestamp) with 7, -4 (earliest local) with 8, -5 (latest tiered) with 9, -6 (earliest not tiered) with 11.
"""

from collections import Counter
from typing import TYPE_CHECKING

from logstore.errors import ErrorCode, KafkaError
from logstore.partition_log import FetchIsolation
from logstore.segment import TimestampAndOffset
from node.kafka_api.request_context import RequestContext
from node.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker

_CONSUMER = -1
_READ_COMMITTED = 1
# Special timestamp -> the first version that may ask for it.
_SPECIAL_SINCE = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}


def handle(broker: "Broker", context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    if request.replica_id != _CONSUMER:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level == _READ_COMMITTED:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    named = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    repeated = {place for place, count in named.items() if count > 1}
    refused: set[tuple[str, int]] = set()
    topics = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            code = ErrorCode.NONE
            found = None
            place = topic.name, wanted.partition_index
            if place in refused:
                continue
            try:
                if place in repeated:
                    refused.add(place)
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                found = _look_up(broker, context.api_version, topic.name, wanted, isolation)
            except KafkaError as error:
                code = error.code
            answers.append(_answer(wanted.partition_index, code, found))
        if answers:
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _look_up(
    broker: "Broker", version: int, topic: str, wanted: ListOffsetsPartition, isolation: FetchIsolation
) -> TimestampAndOffset | None:
    timestamp = wanted.timestamp
    if timestamp < 0 and version < _SPECIAL_SINCE.get(timestamp, 2**15):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.replica_manager.partition((topic, wanted.partition_index))
    partition.check_leader(wanted.current_leader_epoch)
    return partition.offset_for_timestamp(timestamp, isolation)


def _answer(index: int, code: ErrorCode, found: TimestampAndOffset | None) -> ListOffsetsPartitionResponse:
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )
