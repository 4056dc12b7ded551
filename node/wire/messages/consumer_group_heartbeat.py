"""ConsumerGroupHeartbeat (key 68): the one request of the new group protocol (KIP-848)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class TopicPartitions:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[int] = schema.array(schema.int32)


@message(api_key=68, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str = schema.string()
    member_id: str = schema.string()
    member_epoch: int = schema.int32()
    instance_id: str | None = schema.string(nullable_since=0, default=None)
    rack_id: str | None = schema.string(nullable_since=0, default=None)
    rebalance_timeout_ms: int = schema.int32(default=-1)
    subscribed_topic_names: Sequence[str] | None = schema.array(schema.string, nullable_since=0, default=None)
    subscribed_topic_regex: str | None = schema.string(since=1, nullable_since=1, default=None)
    server_assignor: str | None = schema.string(nullable_since=0, default=None)
    topic_partitions: Sequence[TopicPartitions] | None = schema.array(
        TopicPartitions, nullable_since=0, default=None
    )


@struct
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = schema.array(TopicPartitions)


@message(api_key=68, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    member_id: str | None = schema.string(nullable_since=0, default=None)
    member_epoch: int = schema.int32()
    heartbeat_interval_ms: int = schema.int32()
    assignment: Assignment | None = schema.struct_(Assignment, nullable_since=0, default=None)
