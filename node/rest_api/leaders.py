"""/v1/brokers/{id}/drain and /v1/leaders: the leaders of partitions, and their transfer."""

from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import cluster_admin, leader_moves
from ottla.node.client.leader_moves import LeaderMoves
from ottla.node.client.refusal import find_broker
from ottla.node.rest_api.operation_words import (
    GIVEN_PARTITIONS,
    MAX_LISTED,
    TOPIC,
    error_words,
    listed,
    place,
    places_of,
    record,
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

TAG: Final = "Operations: leaders"
_FAILED: Final = record(
    {"topic": STRING, "partition": INT32, "error_code": STRING, "message": STRING}, title="FailedElection"
)
_KEPT: Final = record({"topic": STRING, "partition": INT32, "reason": STRING}, title="KeptLeader")
_MOVES: Final = record(
    {"moved": INT64, "failed": listed(_FAILED), "kept": listed(_KEPT)}, title="LeaderMoves"
)
_LEADERSHIP: Final = record(
    {
        "broker_id": INT32,
        "leads": INT64,
        "preferred_for": INT64,
        "is_drained": BOOLEAN,
        "can_end": {
            **BOOLEAN,
            "description": "It shares partitions with other brokers, and is the preferred leader of none of "
            "them, as after a drain.",
        },
    },
    title="BrokerLeadership",
)
_ELECTION: Final = record(
    {
        "type": {"type": "string", "enum": ["preferred", "unclean"]},
        "partitions": GIVEN_PARTITIONS,
    },
    title="ElectionRequest",
    optional=["partitions"],
)
_TRANSFER: Final = record({"topic": TOPIC, "partition": INT32, "leader": INT32}, title="TransferRequest")
_DONE: Final = {
    200: Response(
        description="The result: how many leaders moved, which elections failed, and which partitions "
        "were left alone.",
        schema=_MOVES,
    )
}


def _as_json(moves: LeaderMoves) -> dict[str, Any]:
    return {
        "moved": sum(one.error is None for one in moves.elections),
        "failed": [
            place(one.partition) | error_words(one.error) for one in moves.elections if one.error is not None
        ][:MAX_LISTED],
        "kept": [place(one.partition) | {"reason": one.reason} for one in moves.kept][:MAX_LISTED],
    }


async def get_drain(context: RestContext, request: RestRequest) -> Answer:
    broker_id = request.path["broker_id"]
    find_broker((await cluster_admin.describe_cluster(context.client)).brokers, broker_id)
    partitions = await leader_moves.led_partitions(context.client)
    leads = sum(one.leader == broker_id for one in partitions)
    preferred_for = sum(one.replicas[:1] == [broker_id] for one in partitions)
    shared = [one for one in partitions if broker_id in one.replicas and len(one.replicas) > 1]
    return Answer(
        body={
            "broker_id": broker_id,
            "leads": leads,
            "preferred_for": preferred_for,
            "is_drained": leads == 0,
            "can_end": bool(shared) and all(one.replicas[0] != broker_id for one in shared),
        }
    )


async def drain(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_as_json(await leader_moves.drain_leaders(context.client, request.path["broker_id"])))


async def end_drain(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_as_json(await leader_moves.return_leaders(context.client, request.path["broker_id"])))


async def rebalance(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_as_json(await leader_moves.elect_preferred(context.client)))


async def transfer(context: RestContext, request: RestRequest) -> Answer:
    wanted = request.body
    partition = TopicPartition(wanted["topic"], wanted["partition"])
    return Answer(body=_as_json(await leader_moves.transfer(context.client, partition, wanted["leader"])))


async def elect(context: RestContext, request: RestRequest) -> Answer:
    given = request.body.get("partitions")
    if request.body["type"] == "preferred":
        if given is None:
            return await rebalance(context, request)
        kind = cluster_admin.PREFERRED
    elif given is None:
        raise bad_request("An unclean election loses records, so you must name its partitions.")
    else:
        kind = cluster_admin.UNCLEAN
    return Answer(body=_as_json(await leader_moves.elect(context.client, places_of(given), kind)))


_BROKER_DRAIN: Final = "/v1/brokers/{broker_id}/drain"

ROUTES: Final = (
    Route(
        method="GET",
        path=_BROKER_DRAIN,
        handler=get_drain,
        operation_id="getDrain",
        summary="The partitions that a broker leads.",
        tag=TAG,
        responses={
            200: Response(
                description="How many partitions it leads, and of how many it is the preferred leader.",
                schema=_LEADERSHIP,
            )
        },
    ),
    Route(
        method="POST",
        path=_BROKER_DRAIN,
        handler=drain,
        operation_id="drainBroker",
        is_for_administrators=True,
        summary="Move leadership away from a broker; its replicas stay.",
        description="Use this before maintenance. The broker becomes the last replica of its "
        "partitions, so leadership stays away across restarts, until you DELETE it "
        "here. It may still lead topics that are created in the meantime. Partitions "
        "that no other replica can lead now are left alone and listed.",
        tag=TAG,
        responses=_DONE,
    ),
    Route(
        method="DELETE",
        path=_BROKER_DRAIN,
        handler=end_drain,
        operation_id="endDrain",
        is_for_administrators=True,
        summary="Return leadership to a broker, up to its share.",
        description="The broker becomes the preferred leader of as many partitions as the other "
        "brokers lead, not necessarily of those that it led before.",
        tag=TAG,
        responses=_DONE,
    ),
    Route(
        method="POST",
        path="/v1/leaders/elect",
        handler=elect,
        operation_id="electLeaders",
        is_for_administrators=True,
        summary="Elect leaders: the preferred ones, or with an unclean election any live replica "
        "where none is in sync.",
        description="Without partitions, all partitions that are not led by their preferred "
        "leader are elected. An unclean election loses records that only other "
        "replicas have, so its partitions must be named.",
        tag=TAG,
        request_schema=_ELECTION,
        body_is_required=True,
        responses=_DONE,
    ),
    Route(
        method="POST",
        path="/v1/leaders/transfer",
        handler=transfer,
        operation_id="transferLeader",
        is_for_administrators=True,
        summary="Make one replica the leader of a partition, now and as the preferred leader.",
        tag=TAG,
        request_schema=_TRANSFER,
        body_is_required=True,
        responses=_DONE,
    ),
    Route(
        method="POST",
        path="/v1/leaders/rebalance",
        handler=rebalance,
        operation_id="rebalanceLeaders",
        is_for_administrators=True,
        summary="Elect the preferred leader of every partition, where it is in sync.",
        tag=TAG,
        responses=_DONE,
    ),
)
