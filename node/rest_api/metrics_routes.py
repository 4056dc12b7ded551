"""The metrics for Prometheus, and rates for live charts. Only the rates of all nodes need the cluster."""

from collections.abc import Mapping
from typing import Final

from ottla.metadata_raft.acl import AclOperation
from ottla.node.client.node_counts import node_counts
from ottla.node.counters.node_counts import METERS
from ottla.node.metrics.exposition import Scraper
from ottla.node.metrics.rates import ClusterRates, Rates, as_json, together
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.operation_words import listed, record
from ottla.node.rest_api.route import (
    BOOLEAN,
    INTEGER,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Metrics"
TEXT: Final = "text/plain"

_NUMBER: Final[Schema] = {"type": "number"}
_RATE: Final[Schema] = {"type": ["number", "null"]}
_FLOW: Final[Mapping[str, Schema]] = {
    "window_seconds": _NUMBER,
    **{f"{name}_per_second": _RATE for name in METERS},
    "requests": listed(
        record(
            {"api": STRING, "requests_per_second": _NUMBER, "p50_ms": _RATE, "p99_ms": _RATE},
            title="RequestRate",
        )
    ),
}
_RATES: Final = record({"node_id": INTEGER, **_FLOW}, title="NodeRates")
_CLUSTER_RATES: Final = record(
    {"cluster": record(_FLOW, title="SummedRates"), "nodes": listed(_RATES), "silent": listed(INTEGER)},
    title="ClusterRates",
)


async def get_metrics(context: RestContext, request: RestRequest) -> Answer:
    found = await context.facts.keep(Scraper).scrape(
        request.headers.get("Accept", ""), shows_all=request.query.get("all", False)
    )
    return Answer(content=found.content, content_type=found.content_type)


async def get_rates(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=context.facts.keep(Rates).read())


async def get_cluster_rates(context: RestContext, request: RestRequest) -> Answer:
    brokers = sorted(one.node_id for one in (await context.client.refresh([])).brokers)
    flows = context.facts.keep(ClusterRates).flows(await node_counts(context.client, brokers))
    return Answer(
        body={
            "cluster": as_json(together(flows.values())),
            "nodes": [{"node_id": node_id} | as_json(flow) for node_id, flow in flows.items()],
            "silent": [node_id for node_id in brokers if node_id not in flows],
        }
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/metrics",
        asks=AclOperation.DESCRIBE,
        is_metrics=True,
        handler=get_metrics,
        operation_id="getMetrics",
        summary="Metrics of this node, in the text format of Prometheus or OpenMetrics.",
        description="Names and labels follow Strimzi's rules for Kafka, kafka_exporter and kminion.",
        tag=TAG,
        query=(
            QueryParameter(
                name="all",
                schema=BOOLEAN,
                description="Include the partitions of internal topics one by one, and every bucket of "
                "histograms. The default is that of the setting ottla.metrics.all.",
            ),
        ),
        responses={200: Response(description="The metrics.", schema=STRING, media_type=TEXT)},
        uses_cluster=False,
    ),
    Route(
        method="GET",
        path="/v1/rates",
        asks=AclOperation.DESCRIBE,
        handler=get_rates,
        operation_id="getRates",
        summary="Request rates and latencies of this node over the last seconds.",
        description="Values are null in the first answer, because rates need two measurements: ask again "
        "after a second.",
        tag=TAG,
        responses={200: Response(description="The rates.", schema=_RATES)},
        uses_cluster=False,
    ),
    Route(
        method="GET",
        path="/v1/cluster/rates",
        asks=AclOperation.DESCRIBE,
        handler=get_cluster_rates,
        operation_id="getClusterRates",
        summary="Request rates and latencies of every running node, and of all together.",
        description="The node asks the other nodes over the Kafka protocol. Running nodes that "
        "do not answer within two seconds are listed as silent. Rates compare two "
        "measurements, so ask again after a few seconds.",
        tag=TAG,
        responses={
            200: Response(description="The rates of each node, and their sums.", schema=_CLUSTER_RATES)
        },
    ),
)
