"""ShareGroupHeartbeat (key 76): a member of a share group is alive, and its assignment (KIP-932)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=76, versions=(1, 1), flexible_since=0)
class ShareGroupHeartbeatRequest:
    group_id: str = schema.string()
    member_id: str = schema.string()
    member_epoch: int = schema.int32()
    rack_id: str | None = schema.string(nullable_since=0, default=None)
    subscribed_topic_names: Sequence[str] | None = schema.array(schema.string, nullable_since=0, default=None)


@struct
class TopicPartitions:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = schema.array(TopicPartitions)


@message(api_key=76, versions=(1, 1), flexible_since=0)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    member_id: str | None = schema.string(nullable_since=0, default=None)
    member_epoch: int = schema.int32()
    heartbeat_interval_ms: int = schema.int32()
    assignment: Assignment | None = schema.struct_(Assignment, nullable_since=0, default=None)
