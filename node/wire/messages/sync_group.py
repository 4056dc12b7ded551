"""SyncGroup (key 14): the leader of a group sends all assignments, each member receives its own."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = schema.string()
    assignment: bytes = schema.bytes_()


@message(api_key=14, versions=(0, 5), flexible_since=4)
class SyncGroupRequest:
    group_id: str = schema.string()
    generation_id: int = schema.int32()
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(since=3, nullable_since=3, default=None)
    protocol_type: str | None = schema.string(since=5, nullable_since=5, default=None)
    protocol_name: str | None = schema.string(since=5, nullable_since=5, default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = schema.array(SyncGroupRequestAssignment)


@message(api_key=14, versions=(0, 5), flexible_since=4)
class SyncGroupResponse:
    throttle_time_ms: int = schema.int32(since=1)
    error_code: int = schema.int16()
    protocol_type: str | None = schema.string(since=5, nullable_since=5, default=None)
    protocol_name: str | None = schema.string(since=5, nullable_since=5, default=None)
    assignment: bytes = schema.bytes_()
