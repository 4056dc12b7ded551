"""What a Prometheus scrapes, and the rates of this node for live charts. Both answer without the cluster."""

from typing import Final

from node.metrics.exposition import Scraper
from node.metrics.rates import METERS, Rates
from node.rest_api.json_schema import Schema
from node.rest_api.route import INTEGER, STRING, Answer, Response, RestContext, RestRequest, Route

TAG: Final = "Metrics"
TEXT: Final = "text/plain"

_NUMBER: Final[Schema] = {"type": "number"}
_RATE: Final[Schema] = {"type": ["number", "null"]}
_RATES: Final[Schema] = {
    "type": "object",
    "properties": {
        "node_id": INTEGER,
        "window_seconds": _NUMBER,
        **{f"{name}_per_second": _RATE for name in METERS},
        "requests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "api": STRING,
                    "requests_per_second": _NUMBER,
                    "p50_ms": _RATE,
                    "p99_ms": _RATE,
                },
                "required": ["api", "requests_per_second", "p50_ms", "p99_ms"],
            },
        },
    },
    "required": ["node_id", "window_seconds", "requests"],
}


async def get_metrics(context: RestContext, request: RestRequest) -> Answer:
    found = await context.facts.keep(Scraper).scrape(request.headers.get("Accept", ""))
    return Answer(content=found.content, content_type=found.content_type)


async def get_rates(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=context.facts.keep(Rates).read())


ROUTES: Final = (
    Route(
        method="GET",
        path="/metrics",
        handler=get_metrics,
        operation_id="getMetrics",
        summary="Metrics of this node, as Prometheus text or OpenMetrics.",
        description="Names and labels are those of Strimzi's rules for Kafka, kafka_exporter and kminion.",
        tag=TAG,
        responses={200: Response(description="The metrics.", schema=STRING, media_type=TEXT)},
        uses_cluster=False,
    ),
    Route(
        method="GET",
        path="/v1/rates",
        handler=get_rates,
        operation_id="getRates",
        summary="What this node does a second, and how long its requests take, over the last seconds.",
        description="Null while there is nothing to compare with: ask again after a second.",
        tag=TAG,
        responses={200: Response(description="The rates.", schema=_RATES)},
        uses_cluster=False,
    ),
)
