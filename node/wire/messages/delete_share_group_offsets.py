"""DeleteShareGroupOffsets (key 92): delete a share group's offsets of topics (KIP-932)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = schema.string()


@message(api_key=92, versions=(0, 0), flexible_since=0)
class DeleteShareGroupOffsetsRequest:
    group_id: str = schema.string()
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = schema.array(DeleteShareGroupOffsetsRequestTopic)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = schema.string()
    topic_id: bytes = schema.uuid()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=92, versions=(0, 0), flexible_since=0)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = schema.array(
        DeleteShareGroupOffsetsResponseTopic
    )
