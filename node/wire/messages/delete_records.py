"""DeleteRecords (key 21): move the start of partitions up to an offset (KIP-107)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DeleteRecordsPartition:
    partition_index: int = schema.int32()
    offset: int = schema.int64()


@struct
class DeleteRecordsTopic:
    name: str = schema.string()
    partitions: Sequence[DeleteRecordsPartition] = schema.array(DeleteRecordsPartition)


@message(api_key=21, versions=(0, 2), flexible_since=2)
class DeleteRecordsRequest:
    topics: Sequence[DeleteRecordsTopic] = schema.array(DeleteRecordsTopic)
    timeout_ms: int = schema.int32()


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = schema.int32()
    low_watermark: int = schema.int64()
    error_code: int = schema.int16()


@struct
class DeleteRecordsTopicResult:
    name: str = schema.string()
    partitions: Sequence[DeleteRecordsPartitionResult] = schema.array(DeleteRecordsPartitionResult)


@message(api_key=21, versions=(0, 2), flexible_since=2)
class DeleteRecordsResponse:
    throttle_time_ms: int = schema.int32()
    topics: Sequence[DeleteRecordsTopicResult] = schema.array(DeleteRecordsTopicResult)
