"""AlterShareGroupOffsets (key 91): set the offsets at which a share group starts to read (KIP-932)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = schema.int32()
    start_offset: int = schema.int64()


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = schema.string()
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = schema.array(
        AlterShareGroupOffsetsRequestPartition
    )


@message(api_key=91, versions=(0, 0), flexible_since=0)
class AlterShareGroupOffsetsRequest:
    group_id: str = schema.string()
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = schema.array(AlterShareGroupOffsetsRequestTopic)


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = schema.string()
    topic_id: bytes = schema.uuid()
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = schema.array(
        AlterShareGroupOffsetsResponsePartition
    )


@message(api_key=91, versions=(0, 0), flexible_since=0)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = schema.array(
        AlterShareGroupOffsetsResponseTopic
    )
