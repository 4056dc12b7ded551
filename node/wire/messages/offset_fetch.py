"""OffsetFetch (key 9): the offsets that groups have committed.

Versions up to 7 are for one group, from 8 on for several (KIP-709). Tags from 10000 on are Ottla's own,
answered only to clients that send one; others skip them.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class OffsetFetchRequestTopic:
    name: str = schema.string()
    partition_indexes: Sequence[int] = schema.array(schema.int32)


@struct
class OffsetFetchRequestTopics:
    name: str = schema.string(until=9)
    topic_id: bytes = schema.uuid(since=10)
    partition_indexes: Sequence[int] = schema.array(schema.int32)


@struct
class OffsetFetchRequestGroup:
    group_id: str = schema.string()
    member_id: str | None = schema.string(since=9, nullable_since=9, default=None)
    member_epoch: int = schema.int32(since=9, default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = schema.array(
        OffsetFetchRequestTopics, nullable_since=0
    )


@message(api_key=9, versions=(1, 10), flexible_since=6)
class OffsetFetchRequest:
    group_id: str = schema.string(until=7)
    topics: Sequence[OffsetFetchRequestTopic] | None = schema.array(
        OffsetFetchRequestTopic, until=7, nullable_since=2
    )
    groups: Sequence[OffsetFetchRequestGroup] = schema.array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = schema.boolean(since=7)
    include_lag: bool = schema.boolean(tag=10_000, since=8)


@struct
class OffsetFetchResponsePartition:
    partition_index: int = schema.int32()
    committed_offset: int = schema.int64()
    committed_leader_epoch: int = schema.int32(since=5, default=-1)
    metadata: str | None = schema.string(nullable_since=0)
    error_code: int = schema.int16()


@struct
class OffsetFetchResponseTopic:
    name: str = schema.string()
    partitions: Sequence[OffsetFetchResponsePartition] = schema.array(OffsetFetchResponsePartition)


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = schema.int32()
    committed_offset: int = schema.int64()
    committed_leader_epoch: int = schema.int32(default=-1)
    metadata: str | None = schema.string(nullable_since=0)
    error_code: int = schema.int16()
    log_end_offset: int = schema.int64(tag=10_000, since=8, default=-1)  # the high watermark; -1: not known
    lag_ms: int = schema.int64(tag=10_001, since=8, default=-1)  # age of the oldest uncommitted record


@struct
class OffsetFetchResponseTopics:
    name: str = schema.string(until=9)
    topic_id: bytes = schema.uuid(since=10)
    partitions: Sequence[OffsetFetchResponsePartitions] = schema.array(OffsetFetchResponsePartitions)


@struct
class OffsetFetchResponseGroup:
    group_id: str = schema.string()
    topics: Sequence[OffsetFetchResponseTopics] = schema.array(OffsetFetchResponseTopics)
    error_code: int = schema.int16()
    has_lag: bool = schema.boolean(tag=10_000, since=8)  # whether partitions without a lag have no known one


@message(api_key=9, versions=(1, 10), flexible_since=6)
class OffsetFetchResponse:
    throttle_time_ms: int = schema.int32(since=3)
    topics: Sequence[OffsetFetchResponseTopic] = schema.array(OffsetFetchResponseTopic, until=7)
    error_code: int = schema.int16(since=2, until=7)
    groups: Sequence[OffsetFetchResponseGroup] = schema.array(OffsetFetchResponseGroup, since=8)
