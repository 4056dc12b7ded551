"""OffsetForLeaderEpoch (key 23): the end of a leader epoch in the leader's log (KIP-101, KIP-320)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class OffsetForLeaderPartition:
    partition: int = schema.int32()
    current_leader_epoch: int = schema.int32(default=-1)
    leader_epoch: int = schema.int32()


@struct
class OffsetForLeaderTopic:
    topic: str = schema.string()
    partitions: Sequence[OffsetForLeaderPartition] = schema.array(OffsetForLeaderPartition)


@message(api_key=23, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochRequest:
    replica_id: int = schema.int32(since=3, default=-2)
    topics: Sequence[OffsetForLeaderTopic] = schema.array(OffsetForLeaderTopic)


@struct
class EpochEndOffset:
    error_code: int = schema.int16()
    partition: int = schema.int32()
    leader_epoch: int = schema.int32(default=-1)
    end_offset: int = schema.int64(default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = schema.string()
    partitions: Sequence[EpochEndOffset] = schema.array(EpochEndOffset)


@message(api_key=23, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = schema.int32()
    topics: Sequence[OffsetForLeaderTopicResult] = schema.array(OffsetForLeaderTopicResult)
