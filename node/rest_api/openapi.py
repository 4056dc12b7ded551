"""The OpenAPI 3.1 document, made from the table of routes that the server itself validates against."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.node.rest_api.readiness import CUT_OFF_SINCE
from ottla.node.rest_api.rest_error import ERROR
from ottla.node.rest_api.route import JSON, TIMEOUT_MS, Response, Route

VERSION: Final = "3.1.0"
# Answers that any request may get, in addition to those of its route.
_ALWAYS: Final[Mapping[int, str]] = {
    400: "The request does not match the schema, or the cluster rejects it.",
    401: "The request has no valid login, and ottla.rest.authentication asks for one.",
    403: (
        "The caller has no right to this; or the request comes from a page of another site, or is "
        "allowed only from the machines of the cluster's nodes."
    ),
    404: "The resource named by the path or the body does not exist.",
    408: "The request body was not received in time.",
    409: "The current state does not allow this; the message says what would have to change.",
    421: "The Host header does not name this node.",
    429: "Too many requests are in progress.",
    500: "The cluster failed to carry out the request.",
    503: "The node is too busy to answer; try again later.",
}
_WITH_TIME_LIMIT: Final[Mapping[int, str]] = {
    503: f"The cluster did not answer within `{TIMEOUT_MS}`, or cannot do it now; try again later.",
}
_WITH_BODY: Final[Mapping[int, str]] = {
    413: "The request body is too large.",
    415: "The request body has the wrong media type.",
    422: "The request body is missing or not valid.",
}

_CUT_OFF_SINCE: Final[Mapping[str, Any]] = {
    "description": "Present only if this node is cut off from the metadata quorum: the time of "
    "its last contact. Its view of the cluster is that old, and the controller is "
    "unknown.",
    "schema": {"type": "string", "format": "date-time"},
}
_CUT_OFF: Final = {"$ref": f"#/components/headers/{CUT_OFF_SINCE}"}


def document(routes: Sequence[Route], *, version: str) -> dict[str, Any]:
    """Return the document of all documented routes; `version` is that of the software."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.is_documented:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Ottla",
            "version": version,
            "description": (
                "Confluent's REST API v3 and v2 for Kafka, with additional operations. Every node answers."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": tag} for tag in dict.fromkeys(one.tag for one in routes if one.is_documented)],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items())), "headers": {CUT_OFF_SINCE: _CUT_OFF_SINCE}},
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "tags": [route.tag],
    }
    if route.description:
        operation["description"] = route.description
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": route.schema_of(name)}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {
            "name": one.name,
            "in": "query",
            "description": one.description,
            "required": one.is_required,
            "schema": one.schema,
        }
        for one in route.parameters
    ]
    if parameters:
        operation["parameters"] = parameters
    takes_body = route.request_schema is not None or route.streams_body
    if takes_body:
        schema = _named(route.request_schema or {}, schemas)
        operation["requestBody"] = {
            "required": route.body_is_required,
            "content": {media_type: {"schema": schema} for media_type in route.request_media_types},
        }
    operation["responses"] = _responses(route, takes_body, schemas)
    return operation


def _responses(route: Route, takes_body: bool, schemas: dict[str, Any]) -> dict[str, Any]:
    responses = dict(route.responses)
    takes_time = any(one.name == TIMEOUT_MS for one in route.parameters)
    common = {
        **_ALWAYS,
        **(_WITH_BODY if takes_body else {}),
        **(_WITH_TIME_LIMIT if takes_time else {}),
    }
    for status, description in common.items():
        responses.setdefault(status, Response(description=description, schema=ERROR))
    found: dict[str, Any] = {}
    for status, response in sorted(responses.items()):
        found[str(status)] = {"description": response.description, "headers": {CUT_OFF_SINCE: _CUT_OFF}}
        if response.schema is not None or response.media_type != JSON:
            schema = _named(response.schema or {}, schemas)
            found[str(status)]["content"] = {
                kind: {"schema": schema} for kind in (response.media_type, *response.other_media_types)
            }
    return found


def _named(schema: Any, schemas: dict[str, Any]) -> Any:
    """Return a schema with a reference for each part that has a title; the parts are added to `schemas`."""
    if isinstance(schema, Mapping):
        title = schema.get("title")
        inner = {key: _named(one, schemas) for key, one in schema.items() if key != "title" or title is None}
        if not isinstance(title, str):
            return {**inner, "title": inner["title"]} if "title" in inner else inner
        known = schemas.setdefault(title, inner)
        assert known == inner, f"two schemas are called {title}"
        return {"$ref": f"#/components/schemas/{title}"}
    if isinstance(schema, (list, tuple)):
        return [_named(one, schemas) for one in schema]
    return schema
