"""OffsetDelete (key 47): delete a group's committed offsets of some partitions (KIP-496)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = schema.int32()


@struct
class OffsetDeleteRequestTopic:
    name: str = schema.string()
    partitions: Sequence[OffsetDeleteRequestPartition] = schema.array(OffsetDeleteRequestPartition)


@message(api_key=47, versions=(0, 0))
class OffsetDeleteRequest:
    group_id: str = schema.string()
    topics: Sequence[OffsetDeleteRequestTopic] = schema.array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = schema.int32()
    error_code: int = schema.int16()


@struct
class OffsetDeleteResponseTopic:
    name: str = schema.string()
    partitions: Sequence[OffsetDeleteResponsePartition] = schema.array(OffsetDeleteResponsePartition)


@message(api_key=47, versions=(0, 0))
class OffsetDeleteResponse:
    error_code: int = schema.int16()
    throttle_time_ms: int = schema.int32()
    topics: Sequence[OffsetDeleteResponseTopic] = schema.array(OffsetDeleteResponseTopic)
