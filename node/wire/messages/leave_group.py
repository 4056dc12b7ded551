"""LeaveGroup (key 13): members leave a classic group.

One member to version 2, several since 3 (KIP-345).
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class MemberIdentity:
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(nullable_since=0, default=None)
    reason: str | None = schema.string(since=5, nullable_since=5, default=None)


@message(api_key=13, versions=(0, 5), flexible_since=4)
class LeaveGroupRequest:
    group_id: str = schema.string()
    member_id: str = schema.string(until=2)
    members: Sequence[MemberIdentity] = schema.array(MemberIdentity, since=3)


@struct
class MemberResponse:
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(nullable_since=0)
    error_code: int = schema.int16()


@message(api_key=13, versions=(0, 5), flexible_since=4)
class LeaveGroupResponse:
    throttle_time_ms: int = schema.int32(since=1)
    error_code: int = schema.int16()
    members: Sequence[MemberResponse] = schema.array(MemberResponse, since=3)
