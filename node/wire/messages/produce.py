"""Produce (key 0): record batches for partitions, and the offsets that they were assigned.

Topic ids since 13 (KIP-516), the leader's endpoint on an error since 10 (KIP-951). Versions 0 to 2 are
advertised and never served; see the handler.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class PartitionProduceData:
    index: int = schema.int32()
    records: schema.Buffer | None = schema.records(nullable_since=0)


@struct
class TopicProduceData:
    name: str = schema.string(until=12)
    topic_id: bytes = schema.uuid(since=13)
    partition_data: Sequence[PartitionProduceData] = schema.array(PartitionProduceData)


@message(api_key=0, versions=(3, 13), flexible_since=9)
class ProduceRequest:
    transactional_id: str | None = schema.string(nullable_since=0, default=None)
    acks: int = schema.int16()
    timeout_ms: int = schema.int32()
    topic_data: Sequence[TopicProduceData] = schema.array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = schema.int32()
    batch_index_error_message: str | None = schema.string(nullable_since=0, default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = schema.int32(default=-1)
    leader_epoch: int = schema.int32(default=-1)


@struct
class PartitionProduceResponse:
    index: int = schema.int32()
    error_code: int = schema.int16()
    base_offset: int = schema.int64()
    log_append_time_ms: int = schema.int64(default=-1)
    log_start_offset: int = schema.int64(since=5, default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = schema.array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = schema.string(since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch = schema.struct_(LeaderIdAndEpoch, tag=0, since=10)


@struct
class TopicProduceResponse:
    name: str = schema.string(until=12)
    topic_id: bytes = schema.uuid(since=13)
    partition_responses: Sequence[PartitionProduceResponse] = schema.array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    node_id: int = schema.int32()
    host: str = schema.string()
    port: int = schema.int32()
    rack: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=0, versions=(3, 13), flexible_since=9)
class ProduceResponse:
    responses: Sequence[TopicProduceResponse] = schema.array(TopicProduceResponse)
    throttle_time_ms: int = schema.int32()
    node_endpoints: Sequence[NodeEndpoint] = schema.array(NodeEndpoint, tag=0, since=10)
