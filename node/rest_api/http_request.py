"""From an HTTP request to a handler's arguments: checks in the order of their cost.

The caller is authenticated before; then come path and query, the type and length of the body, and the body.
Each error is a RestError that names the mistake.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
from aiohttp import hdrs, web

from ottla.node.client.exact_json import check_parts
from ottla.node.rest_api.answer_room import AnswerPart
from ottla.node.rest_api.body_room import BodyPart
from ottla.node.rest_api.connections import HttpConnection
from ottla.node.rest_api.json_schema import Json, Schema, problem_of
from ottla.node.rest_api.request_guard import SAFE_METHODS, check_content_type
from ottla.node.rest_api.rest_error import RestError, bad_request, invalid_payload, not_found
from ottla.node.rest_api.route import QueryParameter, RestRequest, Route
from ottla.node.wire.request_limits import MAX_ID_BYTES

BODY_TIMEOUT_S: Final = 30.0  # for a whole body, or for the next piece of a stream
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,19})?")


async def read_request(
    route: Route, request: web.Request, base_url: str, body_part: BodyPart, answer_part: AnswerPart
) -> RestRequest:
    """Return the request for its handler; RestError if it does not fit the route."""
    path = {name: _path_value(route, name, text) for name, text in request.match_info.items()}
    query = _query(route, request)
    raw = b""
    body: Json = None
    chunks: AsyncIterator[bytes] | None = None
    # One route of Confluent's v2 has a GET with a body.
    takes_body = request.method not in SAFE_METHODS or route.request_schema is not None
    if takes_body and request.body_exists:
        check_content_type(request.headers, route.request_media_types)
        if hdrs.CONTENT_ENCODING in request.headers:
            raise RestError(415, 415, "The body must not be compressed.")
        if route.streams_body:
            chunks = _chunks(request)
        else:
            raw = await _read(request, body_part)
    if raw and route.validates_body:
        body = _parse(raw, route.request_schema)
    if route.body_is_required and route.validates_body and body is None:
        raise invalid_payload("Request body is empty. Data is required.")
    return RestRequest(
        path=path,
        query=query,
        body=body,
        raw_body=raw,
        headers=request.headers,
        base_url=base_url,
        chunks=chunks,
        body_part=body_part,
        answer_part=answer_part,
    )


def _path_value(route: Route, name: str, text: str) -> Any:
    """Return a path parameter in its type; 404 for an integer that is not one, as with Confluent's."""
    schema = route.schema_of(name)
    if schema.get("type") != "integer":
        # Ids may be older than the limit of ids: their route then has a larger maxLength.
        longest = max(MAX_ID_BYTES, schema.get("maxLength", 0))
        if len(text.encode(errors="replace")) > longest:
            raise bad_request(f"{name} in the path has more than {longest} bytes.")
        return text
    is_integer = _INTEGER.fullmatch(text) is not None
    problem = problem_of(int(text), schema, name) if is_integer else f"{name} must be an integer"
    if problem is not None:
        raise not_found(f"{problem}.")
    return int(text)


def _query(route: Route, request: web.Request) -> dict[str, Any]:
    """Return the query parameters that the route knows; others are ignored, as with Confluent's."""
    found: dict[str, Any] = {}
    for parameter in route.parameters:
        texts = request.query.getall(parameter.name, [])
        if len(texts) > 1:
            raise bad_request(f"The query parameter {parameter.name} is given more than once.")
        if texts:
            found[parameter.name] = _query_value(parameter, texts[0])
        elif parameter.is_required:
            raise bad_request(f"The query parameter {parameter.name} is missing.")
    return found


def _query_value(parameter: QueryParameter, text: str) -> Any:
    value: Any = text
    kind = parameter.schema.get("type")
    if kind == "integer" and _INTEGER.fullmatch(text):
        value = int(text)
    elif kind == "number" and _NUMBER.fullmatch(text):
        value = float(text)
    elif kind == "boolean" and text in ("true", "false"):
        value = text == "true"
    problem = problem_of(value, parameter.schema, parameter.name)
    if problem is not None:
        # A pattern helps a person less than the description of the parameter.
        words = f" {parameter.description}" if "pattern" in parameter.schema else ""
        raise bad_request(f"{problem}.{words}")
    return value


async def _read(request: web.Request, part: BodyPart) -> bytes:
    """Return the body; aiohttp's HTTPRequestEntityTooLarge as soon as it exceeds the limit."""
    if request.content_length is not None and request.content_length > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, request.content_length)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in _chunks(request):
                body += piece
                if len(body) > request.client_max_size:
                    raise web.HTTPRequestEntityTooLarge(request.client_max_size, len(body))
                part.hold(len(body))
            return bytes(body)
    except TimeoutError:
        raise RestError(408, 408, f"The request body was not received within {BODY_TIMEOUT_S:g} s.") from None


async def _chunks(request: web.Request) -> AsyncIterator[bytes]:
    connection = request.protocol
    assert isinstance(connection, HttpConnection)
    while not request.content.at_eof():
        if not connection.connected:
            raise ConnectionResetError("the client has disconnected")
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                piece = await request.content.readany()
        except TimeoutError:
            raise RestError(408, 408, f"No data was received for {BODY_TIMEOUT_S:g} s.") from None
        except web.RequestPayloadError:
            raise bad_request("The request body does not match its headers.") from None
        if piece:
            connection.moved()
            yield piece


def _parse(raw: bytes, schema: Schema | None) -> Json:
    try:
        check_parts(raw)
    except ValueError as error:
        raise bad_request(f"The body has {error}.") from None
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"The body is not JSON: {error}.") from None
    # A null counts as no body.
    problem = None if schema is None or body is None else problem_of(body, schema)
    if problem is not None:
        raise bad_request(f"Invalid body: {problem}.")
    return body
