"""DescribeGroups (key 15): state and members of classic groups.

Tags from 10000 on are Ottla's own, answered only to clients that send one; others skip them.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=15, versions=(0, 6), flexible_since=5)
class DescribeGroupsRequest:
    groups: Sequence[str] = schema.array(schema.string)
    include_authorized_operations: bool = schema.boolean(since=3)
    include_timeline: bool = schema.boolean(tag=10_000, since=5)


@struct
class RebalanceEvent:
    """A cause of a rebalance, or an event during it."""

    cause: str = schema.string()
    timestamp_ms: int = schema.int64()
    member_id: str = schema.string()
    client_id: str = schema.string()
    reason: str = schema.string()


@struct
class GroupRebalance:
    """One of the last rebalances of a group; -1 for values that were unknown when it ended."""

    began_ms: int = schema.int64()
    ended_ms: int = schema.int64()
    generation_before: int = schema.int32()
    generation_after: int = schema.int32()
    member_count: int = schema.int32()
    events: Sequence[RebalanceEvent] = schema.array(RebalanceEvent)
    events_left_out: int = schema.int32()


@struct
class DescribedGroupMember:
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(since=4, nullable_since=4, default=None)
    client_id: str = schema.string()
    client_host: str = schema.string()
    member_metadata: bytes = schema.bytes_()
    member_assignment: bytes = schema.bytes_()


@struct
class DescribedGroup:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(since=6, nullable_since=6, default=None)
    group_id: str = schema.string()
    group_state: str = schema.string()
    protocol_type: str = schema.string()
    protocol_data: str = schema.string()
    members: Sequence[DescribedGroupMember] = schema.array(DescribedGroupMember)
    authorized_operations: int = schema.int32(since=3, default=-(2**31))
    rebalances: Sequence[GroupRebalance] | None = schema.array(
        GroupRebalance, tag=10_000, since=5, nullable_since=5, default=None
    )


@message(api_key=15, versions=(0, 6), flexible_since=5)
class DescribeGroupsResponse:
    throttle_time_ms: int = schema.int32(since=1)
    groups: Sequence[DescribedGroup] = schema.array(DescribedGroup)
