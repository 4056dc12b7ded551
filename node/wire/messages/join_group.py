"""JoinGroup (key 11): become or stay a member of a group while it rebalances.

Static members since 5 (KIP-345).
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class JoinGroupRequestProtocol:
    name: str = schema.string()
    metadata: bytes = schema.bytes_()


@message(api_key=11, versions=(0, 9), flexible_since=6)
class JoinGroupRequest:
    group_id: str = schema.string()
    session_timeout_ms: int = schema.int32()
    rebalance_timeout_ms: int = schema.int32(since=1, default=-1)
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(since=5, nullable_since=5, default=None)
    protocol_type: str = schema.string()
    protocols: Sequence[JoinGroupRequestProtocol] = schema.array(JoinGroupRequestProtocol)
    reason: str | None = schema.string(since=8, nullable_since=8, default=None)


@struct
class JoinGroupResponseMember:
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(since=5, nullable_since=5, default=None)
    metadata: bytes = schema.bytes_()


@message(api_key=11, versions=(0, 9), flexible_since=6)
class JoinGroupResponse:
    throttle_time_ms: int = schema.int32(since=2)
    error_code: int = schema.int16()
    generation_id: int = schema.int32(default=-1)
    protocol_type: str | None = schema.string(since=7, nullable_since=7, default=None)
    protocol_name: str | None = schema.string(nullable_since=7)
    leader: str = schema.string()
    skip_assignment: bool = schema.boolean(since=9)
    member_id: str = schema.string()
    members: Sequence[JoinGroupResponseMember] = schema.array(JoinGroupResponseMember)
