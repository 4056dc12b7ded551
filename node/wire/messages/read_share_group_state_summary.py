"""ReadShareGroupStateSummary (key 87): start offset and epochs of share partitions (between brokers)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class PartitionData:
    partition: int = schema.int32()
    leader_epoch: int = schema.int32()


@struct
class ReadStateSummaryData:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@message(api_key=87, versions=(0, 1), flexible_since=0)
class ReadShareGroupStateSummaryRequest:
    group_id: str = schema.string()
    topics: Sequence[ReadStateSummaryData] = schema.array(ReadStateSummaryData)


@struct
class PartitionResult:
    partition: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    state_epoch: int = schema.int32()
    leader_epoch: int = schema.int32()
    start_offset: int = schema.int64()
    delivery_complete_count: int = schema.int32(since=1, default=-1)


@struct
class ReadStateSummaryResult:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionResult] = schema.array(PartitionResult)


@message(api_key=87, versions=(0, 1), flexible_since=0)
class ReadShareGroupStateSummaryResponse:
    results: Sequence[ReadStateSummaryResult] = schema.array(ReadStateSummaryResult)
