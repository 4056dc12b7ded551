"""The table of all routes; each area of the API adds its `ROUTES` here."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import orjson

from ottla.node.net.peer_client import SOFTWARE_VERSION
from ottla.node.rest_api import (
    acls,
    balance,
    broker_configs,
    brokers,
    cluster_state,
    clusters,
    console,
    console_login,
    consumer_groups,
    dead_letters,
    debug_state,
    findings,
    group_configs,
    group_operations,
    group_view,
    groups_overview,
    history,
    leaders,
    metrics_routes,
    moves,
    openapi,
    openapi_page,
    own_process,
    partitions,
    probes,
    produce_records,
    quotas,
    read_records,
    reassignments,
    replicas,
    share_groups,
    topic_configs,
    topic_partitions,
    topics,
    topics_overview,
    transactions,
    trim,
    users,
    v2_consumers,
    v2_topics,
)
from ottla.node.rest_api.route import Answer, Response, RestContext, RestRequest, Route

_AREAS: Final = (
    clusters.ROUTES,
    topics.ROUTES,
    topic_configs.ROUTES,
    partitions.ROUTES,
    replicas.ROUTES,
    reassignments.ROUTES,
    brokers.ROUTES,
    broker_configs.ROUTES,
    group_configs.ROUTES,
    acls.ROUTES,
    users.ROUTES,
    quotas.ROUTES,
    consumer_groups.ROUTES,
    share_groups.ROUTES,
    group_view.ROUTES,
    groups_overview.ROUTES,
    produce_records.ROUTES,
    topic_partitions.ROUTES,
    trim.ROUTES,
    console.ROUTES,
    console_login.ROUTES,
    probes.ROUTES,
    own_process.ROUTES,
    debug_state.ROUTES,
    cluster_state.ROUTES,
    findings.ROUTES,
    leaders.ROUTES,
    balance.ROUTES,
    metrics_routes.ROUTES,
    history.ROUTES,
    moves.ROUTES,
    transactions.ROUTES,
    topics_overview.ROUTES,
    group_operations.ROUTES,
    dead_letters.ROUTES,
    read_records.ROUTES,
    v2_topics.ROUTES,
    v2_consumers.ROUTES,
)


async def get_openapi(context: RestContext, request: RestRequest) -> Answer:
    return Answer(content=_document())


async def get_openapi_page(context: RestContext, request: RestRequest) -> Answer:
    return Answer(
        content=_page(),
        content_type=_HTML,
        headers={"Content-Security-Policy": openapi_page.POLICY},
    )


@cache
def _document() -> bytes:
    return orjson.dumps(openapi.document(ALL_ROUTES, version=SOFTWARE_VERSION))


@cache
def _page() -> bytes:
    return openapi_page.page(orjson.loads(_document()))


_HTML: Final = "text/html; charset=utf-8"


ALL_ROUTES: Final[Sequence[Route]] = (
    *(route for area in _AREAS for route in area),
    Route(
        method="GET",
        path="/openapi.json",
        handler=get_openapi,
        operation_id="getOpenapi",
        summary="This document.",
        tag="About",
        responses={200: Response(description="An OpenAPI 3.1 document.", schema={"type": "object"})},
        uses_cluster=False,
    ),
    Route(
        method="GET",
        path="/openapi.html",
        handler=get_openapi_page,
        operation_id="getOpenapiPage",
        summary="This document as a page.",
        tag="About",
        responses={200: Response(description="HTML.", media_type=_HTML)},
        uses_cluster=False,
        is_documented=False,
    ),
)
