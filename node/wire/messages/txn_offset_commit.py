"""TxnOffsetCommit (key 28): a group's offsets, which take effect when the transaction commits."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = schema.int32()
    committed_offset: int = schema.int64()
    committed_leader_epoch: int = schema.int32(since=2, default=-1)
    committed_metadata: str | None = schema.string(nullable_since=0)


@struct
class TxnOffsetCommitRequestTopic:
    name: str = schema.string(until=5)
    topic_id: bytes = schema.uuid(since=6)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = schema.array(TxnOffsetCommitRequestPartition)


@message(api_key=28, versions=(0, 6), flexible_since=3)
class TxnOffsetCommitRequest:
    transactional_id: str = schema.string()
    group_id: str = schema.string()
    producer_id: int = schema.int64()
    producer_epoch: int = schema.int16()
    generation_id_or_member_epoch: int = schema.int32(since=3, default=-1)
    member_id: str = schema.string(since=3)
    group_instance_id: str | None = schema.string(since=3, nullable_since=3, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = schema.array(TxnOffsetCommitRequestTopic)


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()


@struct
class TxnOffsetCommitResponseTopic:
    name: str = schema.string(until=5)
    topic_id: bytes = schema.uuid(since=6)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = schema.array(TxnOffsetCommitResponsePartition)


@message(api_key=28, versions=(0, 6), flexible_since=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: int = schema.int32()
    topics: Sequence[TxnOffsetCommitResponseTopic] = schema.array(TxnOffsetCommitResponseTopic)
