"""ConsumerGroupDescribe (key 69): state, members and assignments of KIP-848 groups.

Tags from 10000 on are Ottla's own, as in DescribeGroups.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct
from ottla.node.wire.messages.describe_groups import GroupRebalance


@message(api_key=69, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeRequest:
    group_ids: Sequence[str] = schema.array(schema.string)
    include_authorized_operations: bool = schema.boolean()
    include_timeline: bool = schema.boolean(tag=10_000)


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
    instance_id: str | None = schema.string(nullable_since=0, default=None)
    rack_id: str | None = schema.string(nullable_since=0, default=None)
    member_epoch: int = schema.int32()
    client_id: str = schema.string()
    client_host: str = schema.string()
    subscribed_topic_names: Sequence[str] = schema.array(schema.string)
    subscribed_topic_regex: str | None = schema.string(nullable_since=0, default=None)
    assignment: Assignment = schema.struct_(Assignment)
    target_assignment: Assignment = schema.struct_(Assignment)
    member_type: int = schema.int8(since=1, default=-1)


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
    rebalances: Sequence[GroupRebalance] | None = schema.array(
        GroupRebalance, tag=10_000, nullable_since=0, default=None
    )


@message(api_key=69, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = schema.int32()
    groups: Sequence[DescribedGroup] = schema.array(DescribedGroup)
