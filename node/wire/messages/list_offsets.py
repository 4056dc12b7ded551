"""ListOffsets (key 2): the first offset at or after a timestamp, or a special offset of a log.

Since 4 the leader epoch is sent with the offset (KIP-320).
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class ListOffsetsPartition:
    partition_index: int = schema.int32()
    current_leader_epoch: int = schema.int32(since=4, default=-1)
    timestamp: int = schema.int64()


@struct
class ListOffsetsTopic:
    name: str = schema.string()
    partitions: Sequence[ListOffsetsPartition] = schema.array(ListOffsetsPartition)


@message(api_key=2, versions=(1, 11), flexible_since=6)
class ListOffsetsRequest:
    replica_id: int = schema.int32()
    isolation_level: int = schema.int8(since=2)
    topics: Sequence[ListOffsetsTopic] = schema.array(ListOffsetsTopic)
    timeout_ms: int = schema.int32(since=10)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    timestamp: int = schema.int64(default=-1)
    offset: int = schema.int64(default=-1)
    leader_epoch: int = schema.int32(since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = schema.string()
    partitions: Sequence[ListOffsetsPartitionResponse] = schema.array(ListOffsetsPartitionResponse)


@message(api_key=2, versions=(1, 11), flexible_since=6)
class ListOffsetsResponse:
    throttle_time_ms: int = schema.int32(since=2)
    topics: Sequence[ListOffsetsTopicResponse] = schema.array(ListOffsetsTopicResponse)
