"""/v1/.../history: the samples of the last hour, of the cluster, a broker, a topic and a group."""

from collections.abc import Collection
from typing import Final

from ottla.metadata_raft.acl import AclOperation
from ottla.node.client import topic_admin
from ottla.node.client.group_admin import describe_group
from ottla.node.client.node_counts import node_histories
from ottla.node.counters.history import Kind
from ottla.node.metrics.history_charts import SERIES, charted
from ottla.node.rest_api.brokers import alive_brokers, broker_or_404
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.operation_words import GROUP_ID, NULL_NUMBER, listed, record
from ottla.node.rest_api.route import (
    INT32,
    INT64,
    Answer,
    Handler,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Metrics"
_TITLES: Final = {Kind.NODE: "NodeHistory", Kind.TOPIC: "TopicHistory", Kind.GROUP: "GroupHistory"}


def _schema(kind: Kind) -> Schema:
    values = listed(NULL_NUMBER)
    return record(
        {
            "now_ms": {**INT64, "description": "The clock of the node that answers."},
            "interval_ms": {**INT64, "description": "The time between two samples; 0 if there are none."},
            "times_ms": listed(INT64),
            "series": record(dict.fromkeys(SERIES[kind], values), title=f"{_TITLES[kind]}Series"),
            "silent": {
                **listed(INT32),
                "description": "Running nodes that did not answer, or keep no history.",
            },
        },
        title=_TITLES[kind],
    )


async def get_cluster_history(context: RestContext, request: RestRequest) -> Answer:
    return await _answer(context, await _alive_ids(context), Kind.NODE, "")


async def get_broker_history(context: RestContext, request: RestRequest) -> Answer:
    broker = await broker_or_404(context, request)
    return await _answer(context, [broker.broker_id], Kind.NODE, "")


async def get_topic_history(context: RestContext, request: RestRequest) -> Answer:
    name = request.path["topic_name"]
    await topic_admin.describe_topics(context.client, [name])  # raises if there is none
    return await _answer(context, await _alive_ids(context), Kind.TOPIC, name)


async def get_group_history(context: RestContext, request: RestRequest) -> Answer:
    group_id = request.path["group_id"]
    await describe_group(context.client, group_id)  # raises if there is none
    return await _answer(context, await _alive_ids(context), Kind.GROUP, group_id)


async def _alive_ids(context: RestContext) -> list[int]:
    return [one.broker_id for one in await alive_brokers(context)]


async def _answer(context: RestContext, broker_ids: Collection[int], kind: Kind, name: str) -> Answer:
    found = await node_histories(context.client, broker_ids, kind, name)
    return Answer(
        body={
            "now_ms": context.facts.services.clock.now_ms(),
            **charted(kind, found.values())._asdict(),
            "silent": [one for one in broker_ids if one not in found],
        }
    )


def _route(path: str, subject: str, kind: Kind, handler: Handler, operation_id: str) -> Route:
    return Route(
        method="GET",
        path=path,
        asks=AclOperation.DESCRIBE if kind is Kind.NODE else None,
        handler=handler,
        operation_id=operation_id,
        summary=f"The last hour of {subject}, in samples: for charts.",
        description="Each node samples its own counters every ottla.history.interval.ms and keeps the last "
        "360 samples, in memory; the node asks the others over the Kafka protocol. A value is null where "
        "no node has a sample, such as before its last start.",
        tag=TAG,
        path_parameters={"group_id": GROUP_ID} if kind is Kind.GROUP else {},
        responses={200: Response(description="The samples, oldest first.", schema=_schema(kind))},
    )


ROUTES: Final = (
    _route("/v1/cluster/history", "all nodes together", Kind.NODE, get_cluster_history, "getClusterHistory"),
    _route("/v1/brokers/{broker_id}/history", "a broker", Kind.NODE, get_broker_history, "getBrokerHistory"),
    _route("/v1/topics/{topic_name}/history", "a topic", Kind.TOPIC, get_topic_history, "getTopicHistory"),
    _route(
        "/v1/groups/{group_id}/history",
        "the lag of a group",
        Kind.GROUP,
        get_group_history,
        "getGroupHistory",
    ),
)
