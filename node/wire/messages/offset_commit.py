"""OffsetCommit (key 8): commit the offsets up to which a group has processed records.

From 9 on `generation_id_or_member_epoch` may be a member epoch (KIP-848); topic ids since 10.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: int = schema.int32()
    committed_offset: int = schema.int64()
    committed_leader_epoch: int = schema.int32(since=6, default=-1)
    committed_metadata: str | None = schema.string(nullable_since=0)


@struct
class OffsetCommitRequestTopic:
    name: str = schema.string(until=9)
    topic_id: bytes = schema.uuid(since=10)
    partitions: Sequence[OffsetCommitRequestPartition] = schema.array(OffsetCommitRequestPartition)


@message(api_key=8, versions=(2, 10), flexible_since=8)
class OffsetCommitRequest:
    group_id: str = schema.string()
    generation_id_or_member_epoch: int = schema.int32(default=-1)
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(since=7, nullable_since=7, default=None)
    retention_time_ms: int = schema.int64(until=4, default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = schema.array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()


@struct
class OffsetCommitResponseTopic:
    name: str = schema.string(until=9)
    topic_id: bytes = schema.uuid(since=10)
    partitions: Sequence[OffsetCommitResponsePartition] = schema.array(OffsetCommitResponsePartition)


@message(api_key=8, versions=(2, 10), flexible_since=8)
class OffsetCommitResponse:
    throttle_time_ms: int = schema.int32(since=3)
    topics: Sequence[OffsetCommitResponseTopic] = schema.array(OffsetCommitResponseTopic)
