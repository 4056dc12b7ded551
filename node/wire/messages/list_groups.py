"""ListGroups (key 16): the groups that a broker coordinates, by state (4) and by type (5)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=16, versions=(0, 5), flexible_since=3)
class ListGroupsRequest:
    states_filter: Sequence[str] = schema.array(schema.string, since=4)
    types_filter: Sequence[str] = schema.array(schema.string, since=5)


@struct
class ListedGroup:
    group_id: str = schema.string()
    protocol_type: str = schema.string()
    group_state: str = schema.string(since=4)
    group_type: str = schema.string(since=5)


@message(api_key=16, versions=(0, 5), flexible_since=3)
class ListGroupsResponse:
    throttle_time_ms: int = schema.int32(since=1)
    error_code: int = schema.int16()
    groups: Sequence[ListedGroup] = schema.array(ListedGroup)
