"""A group in one answer: its members, their partitions, and its lag in records and in time.

In Confluent's API the assignments need a request per member, and there is no lag in time.
"""

from collections.abc import Sequence
from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_lag
from ottla.node.client.group_admin import GroupMemberView, describe_group
from ottla.node.client.group_lag import PartitionLag
from ottla.node.client.share_group_admin import SHARE
from ottla.node.client.share_group_as_json import in_flight_as_json
from ottla.node.rest_api.operation_words import (
    GROUP_ID,
    NULL_INT64,
    NULL_STRING,
    PARTITION,
    listed,
    place,
    record,
)
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
_MEMBER: Final = record(
    {
        "member_id": STRING,
        "instance_id": NULL_STRING,
        "client_id": STRING,
        "host": STRING,
        "partitions": listed(PARTITION),
    },
    title="GroupMember",
)
_RANGE: Final = record(
    {
        "first_offset": INT64,
        "last_offset": INT64,
        "delivery_count": INT32,
        "state": STRING,
        "member": NULL_STRING,
        "lock_left_ms": NULL_INT64,
    },
    title="InFlightRange",
)
_IN_FLIGHT: Final = record(
    {
        "start": INT64,
        "end": INT64,
        **dict.fromkeys(
            ("acquired", "available", "acknowledged", "archived", "delayed", "backing_off"), INT64
        ),
        "delivery_count_limit": INT32,
        "stalled_ms": INT64,
        "oldest": {"anyOf": [{"type": "null"}, _RANGE]},
        "most_delivered": listed(_RANGE),
        "next_locks": listed(_RANGE),
        "dead_letter_error": {
            **NULL_STRING,
            "description": "The error of the last attempt to write dead letters; null if it succeeded.",
        },
        "dead_letter_error_ms": {
            **NULL_INT64,
            "description": "The time since that error; null without one, or from an older node.",
        },
        "dead_letters_lost": {
            **BOOLEAN,
            "description": "True if records were archived without dead letters; false during retries.",
        },
    },
    title="InFlightRecords",
)
_LAG: Final = record(
    {
        "topic": STRING,
        "partition": INT32,
        "committed": {
            **NULL_INT64,
            "description": "null if no offset is committed. For a share group, its start offset, before "
            "which no record is delivered again; null until it has read the partition.",
        },
        "log_end_offset": {**NULL_INT64, "description": "null if the partition has no leader."},
        "lag": {
            **NULL_INT64,
            "description": "The difference of the two offsets; null if one is not known. For a share "
            "group, the records from its start offset on that are neither acknowledged nor archived.",
        },
        "lag_ms": {
            **NULL_INT64,
            "description": "The age of the oldest record not yet committed; null if not known.",
        },
        "member_id": {
            **NULL_STRING,
            "description": "The member that reads the partition; null if none, or several of a share group.",
        },
        "member_ids": {
            **listed(STRING),
            "description": "The members that read the partition: several may in a share group.",
        },
        "in_flight": {
            "anyOf": [{"type": "null"}, _IN_FLIGHT],
            "description": "For a share group, while members read: the number of records in each state, the "
            "most delivered records, and the locks that end next, from the partition's leader.",
        },
    },
    title="GroupLag",
)
_GROUP: Final = record(
    {
        "group_id": STRING,
        "type": STRING,
        "state": STRING,
        "protocol_type": STRING,
        "assignor": STRING,
        "epoch": NULL_INT64,
        "coordinator": STRING,
        "members": listed(_MEMBER),
        "lags": listed(_LAG),
    },
    title="GroupView",
    optional=("protocol_type", "assignor", "epoch", "coordinator"),
)


async def get_group(context: RestContext, request: RestRequest) -> Answer:
    group = await describe_group(context.client, request.path["group_id"])
    readers: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for one in member.partitions or ():
            readers.setdefault(one, []).append(member.member_id)
    if group.group_type == SHARE:
        lags = await group_lag.of_share_group(
            context.client, group.group_id, readers, is_wanted=lambda one: True, with_in_flight=True
        )
    else:
        lags = await group_lag.of_group(
            context.client, group.group_id, readers, is_wanted=lambda one: True, with_age=True
        )
    return Answer(
        body={
            "group_id": group.group_id,
            "type": group.group_type,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "assignor": group.assignor,
            "epoch": group.epoch,
            "coordinator": group.coordinator,
            "members": [_member(one) for one in group.members],
            "lags": [_lag(one, lag, readers.get(one, [])) for one, lag in lags.items()],
        }
    )


def _member(one: GroupMemberView) -> dict[str, Any]:
    return {
        "member_id": one.member_id,
        "instance_id": one.instance_id,
        "client_id": one.client_id,
        "host": one.host,
        "partitions": [place(held) for held in sorted(one.partitions or ())],
    }


def _lag(where: TopicPartition, lag: PartitionLag, readers: Sequence[str]) -> dict[str, Any]:
    return place(where) | {
        "committed": lag.committed_offset,
        "log_end_offset": lag.log_end_offset,
        "lag": lag.records,
        "lag_ms": lag.age_ms,
        "member_id": readers[0] if len(readers) == 1 else None,
        "member_ids": readers,
        "in_flight": None if lag.in_flight is None else in_flight_as_json(lag.in_flight),
    }


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/groups/{group_id}",
        handler=get_group,
        operation_id="getGroupView",
        summary="A group with its members, assignments, and lag in records and in time.",
        tag=TAG,
        path_parameters={"group_id": GROUP_ID},
        responses={200: Response(description="The group as its coordinator sees it.", schema=_GROUP)},
    ),
)
