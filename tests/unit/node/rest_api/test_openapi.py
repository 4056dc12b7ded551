"""The OpenAPI document: complete, without dangling references, and in agreement with the table of routes."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.openapi import document
from ottla.node.rest_api.route import Route

DOCUMENT = document(ALL_ROUTES, version="1")


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for one in part.values():
            yield from references(one)
    elif isinstance(part, list):
        for one in part:
            yield from references(one)


def test_every_reference_leads_somewhere() -> None:
    known = {f"#/components/{kind}/{name}" for kind, of in DOCUMENT["components"].items() for name in of}

    assert set(references(DOCUMENT)) <= known


def test_operations_have_names_of_their_own() -> None:
    names = Counter(route.operation_id for route in ALL_ROUTES)

    assert [name for name, count in names.items() if count > 1] == []


def test_no_method_of_a_path_is_there_twice() -> None:
    places = Counter((route.method, re.sub(r"{\w+}", "{}", route.path)) for route in ALL_ROUTES)

    assert [place for place, count in places.items() if count > 1] == []


@pytest.mark.parametrize(
    "route",
    [route for route in ALL_ROUTES if route.is_documented],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_a_route_documents_its_parameters_and_its_answers(route: Route) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]

    in_path = (
        {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        if "{" in route.path
        else set()
    )
    assert in_path == set(re.findall(r"{(\w+)}", route.path))
    assert route.summary.endswith(".") and route.summary[0].isupper()
    assert ("requestBody" in operation) is (route.request_schema is not None or route.streams_body)
    has_body = route.method in {"POST", "PUT", "PATCH", "DELETE"} or route.operation_id == "getCommittedV2"
    assert route.request_schema is None or has_body
    assert all(response["description"] for response in operation["responses"].values())
    assert all("Ottla-Cut-Off-Since" in response["headers"] for response in operation["responses"].values())
    timeouts = [one["name"] for one in operation.get("parameters", ()) if one["name"] == "timeout_ms"]
    asks_others = route.uses_cluster or route.operation_id.startswith("produceRecord")
    assert timeouts == ["timeout_ms"] * asks_others
    assert ("`timeout_ms`" in operation["responses"]["503"]["description"]) == asks_others
