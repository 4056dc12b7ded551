"""/v1/groups: resets, deletion of groups and offsets, and the rebalance timeline of consumer groups."""

from collections.abc import Mapping
from typing import Any, Final

from ottla.node.client import group_admin, group_as_json, group_reset
from ottla.node.client.group_offsets import LogBound, ShiftBy, Target, ToOffset
from ottla.node.client.moments import parse_duration, parse_moment
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.operation_words import (
    GIVEN_TOPICS,
    GROUP_ID,
    NULL_INT64,
    NULL_STRING,
    TOPIC,
    listed,
    record,
    topics_of,
)
from ottla.node.rest_api.rest_error import bad_request
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    INT64,
    STRING,
    Answer,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: groups"
LOG_BOUNDS: Final = tuple(one.value for one in LogBound)
OFFSET, SHIFT, DATETIME, DURATION = "offset", "shift", "datetime", "duration"
MAX_OFFSET: Final = 2**63 - 1
_GROUP: Final[Mapping[str, Schema]] = {"group_id": GROUP_ID}

_RESET: Final = record(
    {
        "to": {"type": "string", "enum": [*LOG_BOUNDS, OFFSET, SHIFT, DATETIME, DURATION]},
        "value": {
            "type": ["integer", "string"],
            "minimum": -MAX_OFFSET,
            "maximum": MAX_OFFSET,
            "maxLength": 64,
        },
        "topics": GIVEN_TOPICS,
        "dry_run": BOOLEAN,
    },
    title="GroupResetRequest",
    optional=["value", "topics", "dry_run"],
)
_CHANGES: Final = record(
    {
        "dry_run": BOOLEAN,
        "changes": listed(
            record(
                {
                    "group": STRING,
                    "topic": STRING,
                    "partition": INT32,
                    "offset": NULL_INT64,
                    "new_offset": INT64,
                    "warning": NULL_STRING,
                },
                title="OffsetChange",
            )
        ),
    },
    title="GroupReset",
)
_EVENT: Final = record(
    {
        "cause": STRING,
        "at_ms": {"type": "integer", "format": "int64"},
        "member": NULL_STRING,
        "client": NULL_STRING,
        "reason": NULL_STRING,
    },
    title="RebalanceEvent",
)
_TIMELINE: Final = record(
    {
        "group_id": STRING,
        "state": STRING,
        "rebalances": {
            "type": ["array", "null"],
            "items": record(
                {
                    "began_ms": {"type": "integer", "format": "int64"},
                    "duration_ms": NULL_INT64,
                    "generation_before": {"type": "integer"},
                    "generation_after": {"type": ["integer", "null"]},
                    "members": {"type": ["integer", "null"]},
                    "events": listed(_EVENT),
                    "events_left_out": INT64,
                },
                title="Rebalance",
            ),
        },
    },
    title="GroupTimeline",
)


def target_of(to: str, value: int | str | None) -> Target:
    """Return the target of an offset reset; RestError 400 for a value that does not fit."""
    if to in LOG_BOUNDS:
        if value is not None:
            raise bad_request(f"{to} takes no value.")
        return LogBound(to)
    if value is None:
        raise bad_request(f"{to} needs a value.")
    if to in (OFFSET, SHIFT):
        if not isinstance(value, int):
            raise bad_request(f"The value of {to} must be an integer.")
        return ToOffset(max(0, value)) if to == OFFSET else ShiftBy(value)
    try:
        if to == DURATION:
            return group_reset.before_now(parse_duration(value) if isinstance(value, str) else value)
        return group_reset.at_time(parse_moment(value) if isinstance(value, str) else value)
    except ValueError as error:
        raise bad_request(f"{error}.") from None


async def reset_group(context: RestContext, request: RestRequest) -> Answer:
    client, group_id, wanted = context.client, request.path["group_id"], request.body
    target = target_of(wanted["to"], wanted.get("value"))
    is_dry = wanted.get("dry_run", False)
    is_share = await group_reset.check_has_no_members(client, group_id)
    topics = topics_of(wanted.get("topics"))
    changes = await group_reset.plan(client, group_id, target, topics, is_share=is_share)
    if not is_dry:
        await group_reset.apply(client, group_id, changes, is_share=is_share)
    body: dict[str, Any] = {"dry_run": is_dry, "changes": group_as_json.changes_as_json({group_id: changes})}
    return Answer(body=body)


async def delete_group(context: RestContext, request: RestRequest) -> Answer:
    await group_admin.delete_group(context.client, request.path["group_id"])
    return Answer(status=204)


async def delete_group_offsets(context: RestContext, request: RestRequest) -> Answer:
    await group_admin.delete_topic_offsets(
        context.client, request.path["group_id"], request.path["topic_name"]
    )
    return Answer(status=204)


async def get_timeline(context: RestContext, request: RestRequest) -> Answer:
    view = await group_admin.describe_group(context.client, request.path["group_id"])
    return Answer(
        body={
            "group_id": view.group_id,
            "state": view.state,
            "rebalances": group_as_json.timeline_as_json(view),
        }
    )


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/groups/{group_id}/reset",
        handler=reset_group,
        operation_id="resetGroup",
        summary="Reset the committed or start offsets of a group that has no members.",
        description="`to` is earliest, latest, current, offset, shift, datetime or duration. The "
        "value of offset and shift is an integer, of datetime an ISO 8601 date or ms "
        "since 1970, of duration an ISO 8601 duration such as PT1H or a number of ms "
        "before now. Without topics, all committed offsets of the group are reset. "
        "An offset outside the log is replaced by the first offset or the log end, "
        "with a warning.",
        tag=TAG,
        path_parameters=_GROUP,
        request_schema=_RESET,
        body_is_required=True,
        responses={
            200: Response(
                description="The changes that were made, or with dry_run would be made.", schema=_CHANGES
            )
        },
    ),
    Route(
        method="DELETE",
        path="/v1/groups/{group_id}",
        handler=delete_group,
        operation_id="deleteGroup",
        summary="Delete a group that has no members, with its committed offsets.",
        tag=TAG,
        path_parameters=_GROUP,
        responses={204: Response(description="The group was deleted.")},
    ),
    Route(
        method="DELETE",
        path="/v1/groups/{group_id}/topics/{topic_name}",
        handler=delete_group_offsets,
        operation_id="deleteGroupOffsets",
        summary="Delete the offsets of a group in a topic.",
        description="No member of a consumer group may read the topic, and a share group may have no "
        "members. Members that read the topic later begin as in a new group.",
        tag=TAG,
        path_parameters={**_GROUP, "topic_name": TOPIC},
        responses={204: Response(description="The offsets were deleted.")},
    ),
    Route(
        method="GET",
        path="/v1/groups/{group_id}/timeline",
        handler=get_timeline,
        operation_id="getGroupTimeline",
        summary="The latest rebalances of a group, with their times, durations and causes.",
        tag=TAG,
        path_parameters=_GROUP,
        responses={
            200: Response(
                description="The latest is last; null where the server does not record them.",
                schema=_TIMELINE,
            )
        },
    ),
)
