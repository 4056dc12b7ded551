"""DescribeLogDirs (key 35): the disks of a broker and the size of each replica (KIP-113)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DescribableLogDirTopic:
    topic: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(api_key=35, versions=(1, 5), flexible_since=2)
class DescribeLogDirsRequest:
    topics: Sequence[DescribableLogDirTopic] | None = schema.array(DescribableLogDirTopic, nullable_since=0)


@struct
class DescribeLogDirsPartition:
    partition_index: int = schema.int32()
    partition_size: int = schema.int64()
    offset_lag: int = schema.int64()
    is_future_key: bool = schema.boolean()


@struct
class DescribeLogDirsTopic:
    name: str = schema.string()
    partitions: Sequence[DescribeLogDirsPartition] = schema.array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    error_code: int = schema.int16()
    log_dir: str = schema.string()
    topics: Sequence[DescribeLogDirsTopic] = schema.array(DescribeLogDirsTopic)
    total_bytes: int = schema.int64(since=4, default=-1)
    usable_bytes: int = schema.int64(since=4, default=-1)
    is_cordoned: bool = schema.boolean(since=5)


@message(api_key=35, versions=(1, 5), flexible_since=2)
class DescribeLogDirsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16(since=3)
    results: Sequence[DescribeLogDirsResult] = schema.array(DescribeLogDirsResult)
