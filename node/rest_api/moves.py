"""/v1/reassignments, /v1/brokers/{id}/decommission, /v1/throttles: moves of replicas, and their speed."""

from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import cluster_admin, decommission, throttles
from ottla.node.client.decommission import Progress
from ottla.node.client.reassignments import MoveProgress, moves_in_progress
from ottla.node.client.throttles import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE, RATES, Throttles
from ottla.node.rest_api.operation_words import (
    BROKER_IDS,
    MAX_GIVEN,
    MISSING,
    MISSING_DESCRIPTION,
    NULL_INT64,
    NULL_NUMBER,
    PARTITIONS,
    TOPIC,
    counted,
    listed,
    missing_brokers,
    place,
    record,
)
from ottla.node.rest_api.rest_error import bad_request
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: replicas"
_IDS: Final = listed(INT32)
_COPY: Final = record(
    {"broker_id": INT32, "copied_bytes": NULL_INT64, "total_bytes": NULL_INT64}, title="ReplicaCopy"
)
_MOVE: Final = record(
    {
        "topic": STRING,
        "partition": INT32,
        "leader": {"type": ["integer", "null"]},
        "replicas": _IDS,
        "adding": _IDS,
        "removing": _IDS,
        "copies": listed(_COPY),
        "bytes_left": NULL_INT64,
        "percent": NULL_NUMBER,
    },
    title="Reassignment",
)
_MOVES: Final = record({"reassignments": listed(_MOVE)}, title="Reassignments")
_WANTED: Final = record(
    {
        "reassignments": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_GIVEN,
            "items": record(
                {
                    "topic": TOPIC,
                    "partition": INT32,
                    "replicas": {"type": "array", "items": INT32, "minItems": 1, "maxItems": 100},
                },
                title="WantedReplicas",
            ),
        }
    },
    title="ReassignmentRequest",
)
_CANCELLED: Final = record({"cancelled": PARTITIONS}, title="CancelledReassignments")
_STAGES: Final = [one.value for one in decommission.Stage]
_LEAVING: Final = record(
    {
        "broker_id": INT32,
        "stage": {"type": "string", "enum": _STAGES},
        "held": PARTITIONS,
        "planned": listed(
            record(
                {"topic": STRING, "partition": INT32, "replicas": _IDS, "new_replicas": _IDS},
                title="PlannedMove",
            )
        ),
    },
    title="Decommission",
    optional=["planned"],
)
_RATE: Final = {"type": "integer", "format": "int64", "minimum": 1, "maximum": 2**63 - 1}
_THROTTLE_WORDS: Final = {
    LEADER_RATE: "leader_bytes_per_second",
    FOLLOWER_RATE: "follower_bytes_per_second",
    LOG_DIRS_RATE: "log_dirs_bytes_per_second",
}
_THROTTLES: Final = record(
    {
        "brokers": listed(
            record(
                {"broker_id": INT32, **dict.fromkeys(_THROTTLE_WORDS.values(), NULL_INT64)},
                title="BrokerThrottle",
            )
        ),
        "topics": listed(
            record(
                {"topic": STRING, "leader_replicas": listed(STRING), "follower_replicas": listed(STRING)},
                title="TopicThrottle",
            )
        ),
        "missing": MISSING,
    },
    title="Throttles",
)
_NEW_THROTTLES: Final = record(
    {
        **dict.fromkeys(_THROTTLE_WORDS.values(), _RATE),
        "broker_ids": BROKER_IDS,
        "topics": {"type": "array", "items": TOPIC, "maxItems": MAX_GIVEN},
    },
    title="ThrottleRequest",
    optional=[*_THROTTLE_WORDS.values(), "broker_ids", "topics"],
)


# ---- reassignments -------------------------------------------------------------------------------


def _move_as_json(one: MoveProgress) -> dict[str, Any]:
    return place(one.partition) | {
        "leader": one.leader if one.leader >= 0 else None,
        "replicas": list(one.replicas),
        "adding": list(one.adding),
        "removing": list(one.removing),
        "copies": [copy._asdict() for copy in one.copies],
        "bytes_left": one.bytes_left,
        "percent": one.percent,
    }


async def list_reassignments(context: RestContext, request: RestRequest) -> Answer:
    moves = await moves_in_progress(context.client)
    return Answer(body={"reassignments": [_move_as_json(one) for one in moves]})


async def begin_reassignments(context: RestContext, request: RestRequest) -> Answer:
    wanted: dict[TopicPartition, list[int] | None] = {}
    for one in request.body["reassignments"]:
        partition = TopicPartition(one["topic"], one["partition"])
        if partition in wanted:
            raise bad_request(f"{partition} is named twice.")
        wanted[partition] = one["replicas"]
    await cluster_admin.move_partitions(context.client, wanted)
    answer = await list_reassignments(context, request)
    return Answer(status=202, body=answer.body)


async def cancel_reassignments(context: RestContext, request: RestRequest) -> Answer:
    topic, partition = request.query.get("topic"), request.query.get("partition")
    if partition is not None and topic is None:
        raise bad_request("A partition must be given together with its topic.")
    moving = sorted(
        one
        for one in await cluster_admin.list_moves(context.client)
        if topic in (None, one.topic) and partition in (None, one.partition)
    )
    if moving:
        await cluster_admin.move_partitions(context.client, dict.fromkeys(moving))
    return Answer(body={"cancelled": counted(moving)})


# ---- decommission --------------------------------------------------------------------------------


def _leaving(broker_id: int, progress: Progress) -> dict[str, Any]:
    return {"broker_id": broker_id, "stage": progress.stage.value, "held": counted(progress.held)}


async def get_decommission(context: RestContext, request: RestRequest) -> Answer:
    broker_id = request.path["broker_id"]
    return Answer(body=_leaving(broker_id, await decommission.progress(context.client, broker_id)))


async def post_decommission(context: RestContext, request: RestRequest) -> Answer:
    client, broker_id = context.client, request.path["broker_id"]
    if (request.body or {}).get("dry_run", False):
        await decommission.check_may_leave(client, broker_id)
        planned = await decommission.plan(client, broker_id)
        body = _leaving(broker_id, await decommission.progress(client, broker_id))
        body["planned"] = [
            place(one.partition) | {"replicas": list(one.before), "new_replicas": list(one.after)}
            for one in planned
        ]
        return Answer(body=body)
    return Answer(body=_leaving(broker_id, await decommission.go_on(client, broker_id)))


# ---- throttles -----------------------------------------------------------------------------------


def _throttles_as_json(found: Throttles) -> dict[str, Any]:
    return {
        "brokers": [
            {
                "broker_id": one.broker_id,
                **{word: one.rates.get(name) for name, word in _THROTTLE_WORDS.items()},
            }
            for one in found.brokers
        ],
        "topics": [
            {
                "topic": one.topic,
                "leader_replicas": list(one.leader_replicas),
                "follower_replicas": list(one.follower_replicas),
            }
            for one in found.topics
        ],
        "missing": missing_brokers(found.problems),
    }


async def get_throttles(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_throttles_as_json(await throttles.get_throttles(context.client)))


async def put_throttles(context: RestContext, request: RestRequest) -> Answer:
    given = request.body
    rates = {name: given[_THROTTLE_WORDS[name]] for name in RATES if _THROTTLE_WORDS[name] in given}
    if not rates and not given.get("topics"):
        raise bad_request("Give a rate, or the topics that the rates apply to.")
    await throttles.set_throttles(
        context.client, rates=rates, broker_ids=given.get("broker_ids"), topics=given.get("topics", ())
    )
    return await get_throttles(context, request)


async def delete_throttles(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_throttles_as_json(await throttles.clear_throttles(context.client)))


_REASSIGNMENTS: Final = "/v1/reassignments"
_DECOMMISSION: Final = "/v1/brokers/{broker_id}/decommission"
_THROTTLES_PATH: Final = "/v1/throttles"

ROUTES: Final = (
    Route(
        method="GET",
        path=_REASSIGNMENTS,
        handler=list_reassignments,
        operation_id="listReassignments",
        summary="The partitions that are being moved, with their progress.",
        description="Progress is in bytes: the part of the leader's log that each new replica "
        "has; null if a broker does not report it. The leader still accepts records, "
        "so the amount to copy may grow.",
        tag=TAG,
        responses={200: Response(description="The moves under way.", schema=_MOVES)},
    ),
    Route(
        method="POST",
        path=_REASSIGNMENTS,
        handler=begin_reassignments,
        operation_id="beginReassignments",
        is_for_administrators=True,
        summary="Move partitions to other brokers.",
        description="The first of the replicas is the preferred leader. The brokers carry on by "
        "themselves; GET shows the progress.",
        tag=TAG,
        request_schema=_WANTED,
        body_is_required=True,
        responses={202: Response(description="The moves were started; these are under way.", schema=_MOVES)},
    ),
    Route(
        method="DELETE",
        path=_REASSIGNMENTS,
        handler=cancel_reassignments,
        operation_id="cancelReassignments",
        is_for_administrators=True,
        summary="Cancel moves that are not complete.",
        tag=TAG,
        query=(
            QueryParameter(name="topic", schema=TOPIC, description="Only moves of this topic."),
            QueryParameter(
                name="partition", schema=INT32, description="Only the move of this partition of the topic."
            ),
        ),
        responses={
            200: Response(description="The partitions whose moves were cancelled.", schema=_CANCELLED)
        },
    ),
    Route(
        method="GET",
        path=_DECOMMISSION,
        handler=get_decommission,
        operation_id="getDecommission",
        summary="The progress of decommissioning a broker.",
        tag=TAG,
        responses={200: Response(description="What the broker still holds.", schema=_LEAVING)},
    ),
    Route(
        method="POST",
        path=_DECOMMISSION,
        handler=post_decommission,
        operation_id="decommissionBroker",
        is_for_administrators=True,
        summary="Decommission a broker, one step per request.",
        description="The first request starts to move everything on the broker to other brokers. "
        "When the broker holds nothing and is stopped, the next request removes it "
        "from the cluster, and later requests get 404. You can repeat the request at "
        "any time. Remove a voter of the metadata quorum from the quorum first.",
        tag=TAG,
        request_schema=record({"dry_run": BOOLEAN}, title="DecommissionRequest", optional=["dry_run"]),
        responses={200: Response(description="The progress so far.", schema=_LEAVING)},
    ),
    Route(
        method="GET",
        path=_THROTTLES_PATH,
        handler=get_throttles,
        operation_id="getThrottles",
        summary="The limits on the speed of replication.",
        description=f"{LEADER_RATE}, {FOLLOWER_RATE} and {LOG_DIRS_RATE} of the brokers, and the "
        "replicas of topics that the first two apply to." + MISSING_DESCRIPTION,
        tag=TAG,
        responses={200: Response(description="The brokers and topics that have a limit.", schema=_THROTTLES)},
    ),
    Route(
        method="PUT",
        path=_THROTTLES_PATH,
        handler=put_throttles,
        operation_id="setThrottles",
        is_for_administrators=True,
        summary="Limit the speed of replication.",
        description="The limits apply to these brokers, or to all running ones, and to all "
        "replicas of these topics. Limits that are not given stay unchanged. "
        "Replicas in sync are not slowed down.",
        tag=TAG,
        request_schema=_NEW_THROTTLES,
        body_is_required=True,
        responses={200: Response(description="The limits now in effect.", schema=_THROTTLES)},
    ),
    Route(
        method="DELETE",
        path=_THROTTLES_PATH,
        handler=delete_throttles,
        operation_id="clearThrottles",
        is_for_administrators=True,
        summary="Remove all limits, for example after a reassignment.",
        tag=TAG,
        responses={200: Response(description="The limits that were removed.", schema=_THROTTLES)},
    ),
)
