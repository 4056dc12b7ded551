"""InitializeShareGroupState (key 83): a share partition's state is set up (KIP-932, between brokers)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class PartitionData:
    partition: int = schema.int32()
    state_epoch: int = schema.int32()
    start_offset: int = schema.int64()


@struct
class InitializeStateData:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@message(api_key=83, versions=(0, 0), flexible_since=0)
class InitializeShareGroupStateRequest:
    group_id: str = schema.string()
    topics: Sequence[InitializeStateData] = schema.array(InitializeStateData)


@struct
class PartitionResult:
    partition: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@struct
class InitializeStateResult:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionResult] = schema.array(PartitionResult)


@message(api_key=83, versions=(0, 0), flexible_since=0)
class InitializeShareGroupStateResponse:
    results: Sequence[InitializeStateResult] = schema.array(InitializeStateResult)
