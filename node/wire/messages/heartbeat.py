"""Heartbeat (key 12): a member of a classic group is alive; the answer tells it to rejoin."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=12, versions=(0, 4), flexible_since=4)
class HeartbeatRequest:
    group_id: str = schema.string()
    generation_id: int = schema.int32()
    member_id: str = schema.string()
    group_instance_id: str | None = schema.string(since=3, nullable_since=3, default=None)


@message(api_key=12, versions=(0, 4), flexible_since=4)
class HeartbeatResponse:
    throttle_time_ms: int = schema.int32(since=1)
    error_code: int = schema.int16()
