"""DescribeProducers (key 61): the producers that are active in partitions (KIP-664)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class TopicRequest:
    name: str = schema.string()
    partition_indexes: Sequence[int] = schema.array(schema.int32)


@message(api_key=61, versions=(0, 0), flexible_since=0)
class DescribeProducersRequest:
    topics: Sequence[TopicRequest] = schema.array(TopicRequest)


@struct
class ProducerState:
    producer_id: int = schema.int64()
    producer_epoch: int = schema.int32()
    last_sequence: int = schema.int32(default=-1)
    last_timestamp: int = schema.int64(default=-1)
    coordinator_epoch: int = schema.int32()
    current_txn_start_offset: int = schema.int64(default=-1)


@struct
class PartitionResponse:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    active_producers: Sequence[ProducerState] = schema.array(ProducerState)


@struct
class TopicResponse:
    name: str = schema.string()
    partitions: Sequence[PartitionResponse] = schema.array(PartitionResponse)


@message(api_key=61, versions=(0, 0), flexible_since=0)
class DescribeProducersResponse:
    throttle_time_ms: int = schema.int32()
    topics: Sequence[TopicResponse] = schema.array(TopicResponse)
