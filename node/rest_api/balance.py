"""/v1/balance: the plan that gives all brokers equal shares, and its execution."""

from typing import Final

from ottla.node.client import balance
from ottla.node.rest_api.operation_words import MAX_LISTED, PARTITION, listed, place, record
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    INT64,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: balance"
_PATH: Final = "/v1/balance"
_IDS: Final = listed(INT32)
_SHARE: Final = record(
    {
        "fill": {"type": ["number", "null"]},
        "replicas": INT64,
        "size_bytes": INT64,
        "bytes_in": {"type": "number"},
        "leaders": INT64,
    },
    title="BrokerShare",
)
_MOVE: Final = record(
    {
        "topic": STRING,
        "partition": INT32,
        "replicas": _IDS,
        "new_replicas": _IDS,
        "copied_bytes": INT64,
        "reason": STRING,
    },
    title="BalanceMove",
)
_MOVING: Final = record(
    {"topic": STRING, "partition": INT32, "adding": _IDS, "removing": _IDS}, title="MovingPartition"
)
_BALANCE: Final = record(
    {
        "enabled": BOOLEAN,
        "requested": BOOLEAN,
        "max_bytes_per_second": INT64,
        "excluded": _IDS,
        "not_leading": _IDS,
        "copied_bytes": INT64,
        "least_ms": INT64,
        "move_count": INT64,
        "moves": {**listed(_MOVE), "maxItems": MAX_LISTED},
        "moving": {**listed(_MOVING), "maxItems": MAX_LISTED},
        "brokers": listed(
            record({"broker": INT32, "before": _SHARE, "after": _SHARE}, title="BrokerBalance")
        ),
    },
    title="Balance",
)


async def get_balance(context: RestContext, request: RestRequest) -> Answer:
    found = await balance.status(context.client, measures=request.query.get("measure", False))
    moving = [
        {**place(one), "adding": list(move.adding), "removing": list(move.removing)}
        for one, move in found.moving.items()
    ]
    shown = balance.as_json(found.plan, found.settings, MAX_LISTED)
    return Answer(body={**shown, "moving": moving[:MAX_LISTED]})


async def request_balance(context: RestContext, request: RestRequest) -> Answer:
    await balance.begin(context.client)
    return Answer(status=202, body={"requested": True})


async def cancel_balance(context: RestContext, request: RestRequest) -> Answer:
    cancelled = await balance.cancel(context.client)
    return Answer(body={"cancelled": [place(one) for one in cancelled][:MAX_LISTED]})


ROUTES: Final = (
    Route(
        method="GET",
        path=_PATH,
        handler=get_balance,
        operation_id="getBalance",
        summary="The moves under way that give all brokers equal shares, and the plan of further moves.",
        tag=TAG,
        query=(
            QueryParameter(
                name="measure",
                schema=BOOLEAN,
                description="Measure for some seconds how fast partitions grow. Without it `bytes_in` is 0, "
                "and the plan does not balance incoming bytes.",
            ),
        ),
        responses={
            200: Response(
                description="The plan, in its order, and the minimum time for its copies; the load of "
                "each broker before and after it; the partitions that are moving.",
                schema=_BALANCE,
            )
        },
    ),
    Route(
        method="POST",
        path=_PATH,
        handler=request_balance,
        operation_id="requestBalance",
        is_for_administrators=True,
        summary="Have the controller execute the plan, some partitions at a time, until it is complete.",
        tag=TAG,
        responses={
            202: Response(
                description="The controller has started.",
                schema=record({"requested": BOOLEAN}, title="RequestedBalance"),
            )
        },
    ),
    Route(
        method="DELETE",
        path=_PATH,
        handler=cancel_balance,
        operation_id="cancelBalance",
        is_for_administrators=True,
        summary="Cancel the balance: start no further moves, and cancel all reassignments under way.",
        tag=TAG,
        responses={
            200: Response(
                description="The partitions whose reassignments were cancelled.",
                schema=record(
                    {"cancelled": {**listed(PARTITION), "maxItems": MAX_LISTED}}, title="CancelledBalance"
                ),
            )
        },
    ),
)
