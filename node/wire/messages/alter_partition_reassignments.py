"""AlterPartitionReassignments (key 45): move partitions to other replicas, or cancel that (KIP-455)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class ReassignablePartition:
    partition_index: int = schema.int32()
    replicas: Sequence[int] | None = schema.array(schema.int32, nullable_since=0, default=None)


@struct
class ReassignableTopic:
    name: str = schema.string()
    partitions: Sequence[ReassignablePartition] = schema.array(ReassignablePartition)


@message(api_key=45, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = schema.int32(default=60000)
    allow_replication_factor_change: bool = schema.boolean(since=1, default=True)
    topics: Sequence[ReassignableTopic] = schema.array(ReassignableTopic)


@struct
class ReassignablePartitionResponse:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)


@struct
class ReassignableTopicResponse:
    name: str = schema.string()
    partitions: Sequence[ReassignablePartitionResponse] = schema.array(ReassignablePartitionResponse)


@message(api_key=45, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = schema.int32()
    allow_replication_factor_change: bool = schema.boolean(since=1, default=True)
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    responses: Sequence[ReassignableTopicResponse] = schema.array(ReassignableTopicResponse)
