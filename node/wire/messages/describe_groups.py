"""DescribeGroups (key 15): state and members of classic groups."""

from collections.abc import Sequence

from logstore import schema
from logstore.schema import message, struct


@message(api_key=15, versions=(0, 6), flexible_since=5)
class DescribeGroupsRequest:
    groups: Sequence[str] = schema.array(schema.string)
    include_authorized_operations: bool = schema.boolean(since=3)


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


@message(api_key=15, versions=(0, 6), flexible_since=5)
class DescribeGroupsResponse:
    throttle_time_ms: int = schema.int32(since=1)
    groups: Sequence[DescribedGroup] = schema.array(DescribedGroup)
