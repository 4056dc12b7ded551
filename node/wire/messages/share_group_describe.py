"""ShareGroupDescribe (key 77): state and members of share groups (KIP-932)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=77, versions=(1, 1), flexible_since=0)
class ShareGroupDescribeRequest:
    group_ids: Sequence[str] = schema.array(schema.string)
    include_authorized_operations: bool = schema.boolean()


@struct
class TopicPartitions:
    topic_id: bytes = schema.uuid()
    topic_name: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = schema.array(TopicPartitions)


@struct
class Member:
    member_id: str = schema.string()
    rack_id: str | None = schema.string(nullable_since=0, default=None)
    member_epoch: int = schema.int32()
    client_id: str = schema.string()
    client_host: str = schema.string()
    subscribed_topic_names: Sequence[str] = schema.array(schema.string)
    assignment: Assignment = schema.struct_(Assignment)


@struct
class DescribedGroup:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    group_id: str = schema.string()
    group_state: str = schema.string()
    group_epoch: int = schema.int32()
    assignment_epoch: int = schema.int32()
    assignor_name: str = schema.string()
    members: Sequence[Member] = schema.array(Member)
    authorized_operations: int = schema.int32(default=-(2**31))


@message(api_key=77, versions=(1, 1), flexible_since=0)
class ShareGroupDescribeResponse:
    throttle_time_ms: int = schema.int32()
    groups: Sequence[DescribedGroup] = schema.array(DescribedGroup)
