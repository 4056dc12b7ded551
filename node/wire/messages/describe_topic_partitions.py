"""DescribeTopicPartitions (key 75): topics in pages, with eligible leader replicas (KIP-966)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class TopicRequest:
    name: str = schema.string()


@struct
class Cursor:
    topic_name: str = schema.string()
    partition_index: int = schema.int32()


@message(api_key=75, versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsRequest:
    topics: Sequence[TopicRequest] = schema.array(TopicRequest)
    response_partition_limit: int = schema.int32(default=2000)
    cursor: Cursor | None = schema.struct_(Cursor, nullable_since=0, default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = schema.int16()
    partition_index: int = schema.int32()
    leader_id: int = schema.int32()
    leader_epoch: int = schema.int32(default=-1)
    replica_nodes: Sequence[int] = schema.array(schema.int32)
    isr_nodes: Sequence[int] = schema.array(schema.int32)
    eligible_leader_replicas: Sequence[int] | None = schema.array(
        schema.int32, nullable_since=0, default=None
    )
    last_known_elr: Sequence[int] | None = schema.array(schema.int32, nullable_since=0, default=None)
    offline_replicas: Sequence[int] = schema.array(schema.int32)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = schema.int16()
    name: str | None = schema.string(nullable_since=0)
    topic_id: bytes = schema.uuid()
    is_internal: bool = schema.boolean()
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = schema.array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = schema.int32(default=-(2**31))


@message(api_key=75, versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = schema.int32()
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = schema.array(
        DescribeTopicPartitionsResponseTopic
    )
    next_cursor: Cursor | None = schema.struct_(Cursor, nullable_since=0, default=None)
