"""DeleteShareGroupState (key 86): a share partition's state is dropped (KIP-932, between brokers)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class PartitionData:
    partition: int = schema.int32()


@struct
class DeleteStateData:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionData] = schema.array(PartitionData)


@message(api_key=86, versions=(0, 0), flexible_since=0)
class DeleteShareGroupStateRequest:
    group_id: str = schema.string()
    topics: Sequence[DeleteStateData] = schema.array(DeleteStateData)


@struct
class PartitionResult:
    partition: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@struct
class DeleteStateResult:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[PartitionResult] = schema.array(PartitionResult)


@message(api_key=86, versions=(0, 0), flexible_since=0)
class DeleteShareGroupStateResponse:
    results: Sequence[DeleteStateResult] = schema.array(DeleteStateResult)
