"""ReadShareGroupState (key 84): a share partition's state is loaded (KIP-932, between brokers)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class PartitionData:
    partition: int = schema.int32()
    leader_epoch: int = schema.int32()


@struct
class ReadStateData:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@message(api_key=84, versions=(0, 0), flexible_since=0)
class ReadShareGroupStateRequest:
    group_id: str = schema.string()
    topics: Sequence[ReadStateData] = schema.array(ReadStateData)


@struct
class StateBatch:
    first_offset: int = schema.int64()
    last_offset: int = schema.int64()
    delivery_state: int = schema.int8()
    delivery_count: int = schema.int16()


@struct
class PartitionResult:
    partition: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    state_epoch: int = schema.int32()
    start_offset: int = schema.int64()
    state_batches: Sequence[StateBatch] = schema.array(StateBatch)
    dead_letters: bytes = schema.bytes_(
        tag=10_000
    )  # Ottla's own: the dead letters that a leader was about to produce
    incarnation: int = schema.int64(tag=10_001, default=-1)  # Ottla's own: to be sent with writes


@struct
class ReadStateResult:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionResult] = schema.array(PartitionResult)


@message(api_key=84, versions=(0, 0), flexible_since=0)
class ReadShareGroupStateResponse:
    results: Sequence[ReadStateResult] = schema.array(ReadStateResult)
