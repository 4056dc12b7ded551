"""DeleteGroups (key 42): remove empty groups with their offsets."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=42, versions=(0, 3), flexible_since=2)
class DeleteGroupsRequest:
    groups_names: Sequence[str] = schema.array(schema.string)


@struct
class DeletableGroupResult:
    group_id: str = schema.string()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(since=3, nullable_since=3, default=None)


@message(api_key=42, versions=(0, 3), flexible_since=2)
class DeleteGroupsResponse:
    throttle_time_ms: int = schema.int32()
    results: Sequence[DeletableGroupResult] = schema.array(DeletableGroupResult)
