"""All groups in one answer, and on request the lag of some of them."""

from typing import Any, Final

from ottla.node.client import group_lag
from ottla.node.client.group_admin import (
    CLASSIC,
    CONSUMER,
    GroupView,
    ListedGroup,
    describe_groups,
    list_groups,
)
from ottla.node.client.group_lag import GroupLag
from ottla.node.client.share_group_admin import SHARE
from ottla.node.rest_api.operation_words import (
    MISSING,
    MISSING_DESCRIPTION,
    NULL_INT64,
    NULL_STRING,
    listed,
    missing_brokers,
    record,
)
from ottla.node.rest_api.route import (
    INT32,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: groups"
# Each is described, and all of its committed offsets are compared with the ends of logs.
MAX_DETAILED: Final = 1_000
DEFAULT_DETAILED: Final = 100
_GROUP: Final = record(
    {
        "group_id": STRING,
        "type": STRING,
        "state": STRING,
        "protocol_type": STRING,
        "coordinator_id": INT32,
        "assignor": NULL_STRING,
        "members": NULL_INT64,
        "lag": {
            **NULL_INT64,
            "description": "The sum over all committed offsets, or the records that a share group has not "
            "finished; null if unknown or not requested.",
        },
        "lag_ms": {
            **NULL_INT64,
            "description": "Age of the oldest record not yet committed; null if unknown or not requested.",
        },
    },
    title="ListedGroup",
)
_GROUPS: Final = record({"groups": listed(_GROUP), "missing": MISSING}, title="ListedGroups")


async def get_groups(context: RestContext, request: RestRequest) -> Answer:
    kind = request.query.get("type")
    answers = await list_groups(context.client, states=[], types=[] if kind is None else [kind])
    groups = answers.groups
    wanted = request.query.get("search", "").lower()
    chosen = [one for one in groups if wanted in one.group_id.lower()]
    chosen = chosen[: request.query.get("detailed", DEFAULT_DETAILED)]
    views = {one.group_id: one for one in await describe_groups(context.client, chosen)}
    lags = await group_lag.totals(context.client, chosen)
    return Answer(
        body={
            "groups": [_as_json(one, views.get(one.group_id), lags.get(one.group_id)) for one in groups],
            "missing": missing_brokers(answers.problems),
        }
    )


def _as_json(one: ListedGroup, view: GroupView | None, lag: GroupLag | None) -> dict[str, Any]:
    return {
        "group_id": one.group_id,
        "type": one.group_type,
        "state": one.state,
        "protocol_type": one.protocol_type,
        "coordinator_id": one.coordinator_id,
        "assignor": None if view is None else view.assignor,
        "members": None if view is None else len(view.members),
        "lag": None if lag is None else lag.records,
        "lag_ms": None if lag is None else lag.age_ms,
    }


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/groups",
        handler=get_groups,
        operation_id="listGroups",
        summary="All groups of all types; for the first of them, or those that match the search, "
        "with members and lag.",
        description="The lag in records is the sum over all partitions with a committed offset; "
        "the lag in time is the largest of them." + MISSING_DESCRIPTION,
        tag=TAG,
        query=(
            QueryParameter(
                name="type",
                schema={"type": "string", "enum": [CLASSIC, CONSUMER, SHARE]},
                description="Return only groups of this type.",
            ),
            QueryParameter(
                name="search",
                description="Return members and lag of groups whose id contains this text, ignoring case.",
            ),
            QueryParameter(
                name="detailed",
                schema={"type": "integer", "minimum": 0, "maximum": MAX_DETAILED},
                description="Return members and lag of at most this many groups, ordered by id (default "
                f"{DEFAULT_DETAILED}).",
            ),
        ),
        responses={200: Response(description="By id.", schema=_GROUPS)},
    ),
)
