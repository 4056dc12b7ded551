"""DeleteTopics (key 20): remove topics by name, from 6 on also by id."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DeleteTopicState:
    name: str | None = schema.string(nullable_since=0, default=None)
    topic_id: bytes = schema.uuid()


@message(api_key=20, versions=(1, 6), flexible_since=4)
class DeleteTopicsRequest:
    topics: Sequence[DeleteTopicState] = schema.array(DeleteTopicState, since=6)
    topic_names: Sequence[str] = schema.array(schema.string, until=5)
    timeout_ms: int = schema.int32()


@struct
class DeletableTopicResult:
    name: str | None = schema.string(nullable_since=6)
    topic_id: bytes = schema.uuid(since=6)
    error_code: int = schema.int16()
    error_message: str | None = schema.string(since=5, nullable_since=5, default=None)


@message(api_key=20, versions=(1, 6), flexible_since=4)
class DeleteTopicsResponse:
    throttle_time_ms: int = schema.int32()
    responses: Sequence[DeletableTopicResult] = schema.array(DeletableTopicResult)
