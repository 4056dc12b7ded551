"""DescribeLag (key 30004, ours): a coordinator asks a leader for the lag of groups in its partitions."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class LagPartition:
    partition_index: int = schema.int32()
    committed_offset: int = schema.int64(default=-1)  # -1: nothing is committed


@struct
class LagTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[LagPartition] = schema.array(LagPartition)


@message(api_key=30_004, versions=(0, 0), flexible_since=0)
class DescribeLagRequest:
    timeout_ms: int = schema.int32()  # for all of it; results that are not known by then are left out
    topics: Sequence[LagTopic] = schema.array(LagTopic)


@struct
class LagPartitionResult:
    """The lag in a partition that this node leads; partitions without a known lag are left out."""

    partition_index: int = schema.int32()
    committed_offset: int = schema.int64(default=-1)
    log_end_offset: int = schema.int64()
    lag_ms: int = schema.int64(default=-1)


@struct
class LagTopicResult:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[LagPartitionResult] = schema.array(LagPartitionResult)


@message(api_key=30_004, versions=(0, 0), flexible_since=0)
class DescribeLagResponse:
    error_code: int = schema.int16()
    topics: Sequence[LagTopicResult] = schema.array(LagTopicResult)
