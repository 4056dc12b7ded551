"""WriteShareGroupState (key 85): a share partition's state is saved (KIP-932, between brokers)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class StateBatch:
    first_offset: int = schema.int64()
    last_offset: int = schema.int64()
    delivery_state: int = schema.int8()
    delivery_count: int = schema.int16()


@struct
class PartitionData:
    partition: int = schema.int32()
    state_epoch: int = schema.int32()
    leader_epoch: int = schema.int32()
    start_offset: int = schema.int64()
    delivery_complete_count: int = schema.int32(since=1, default=-1)
    state_batches: Sequence[StateBatch] = schema.array(StateBatch)
    # Ottla's own: the dead letters that the leader is about to produce; null keeps the known ones.
    dead_letters: bytes | None = schema.bytes_(tag=10_000, nullable_since=0, default=None)
    # Ottla's own: the incarnation of the state that the leader has read; -1 is not compared.
    incarnation: int = schema.int64(tag=10_001, default=-1)


@struct
class WriteStateData:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@message(api_key=85, versions=(0, 1), flexible_since=0)
class WriteShareGroupStateRequest:
    group_id: str = schema.string()
    topics: Sequence[WriteStateData] = schema.array(WriteStateData)


@struct
class PartitionResult:
    partition: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@struct
class WriteStateResult:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionResult] = schema.array(PartitionResult)


@message(api_key=85, versions=(0, 1), flexible_since=0)
class WriteShareGroupStateResponse:
    results: Sequence[WriteStateResult] = schema.array(WriteStateResult)
