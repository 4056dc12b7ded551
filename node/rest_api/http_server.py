"""From HTTP to handlers and back: what a request must be, and what becomes of an error.

A request is judged in the order of its cost: who asks, which route, path and query, the type and length of
the body, the body. Whatever goes wrong is a JSON answer with a code; what nobody foresaw is logged once, and
the others go on.
"""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

import orjson
from aiohttp import ClientConnectionResetError, hdrs, web
from aiohttp.web_protocol import RequestHandler

from logstore.errors import KafkaError
from node.client.refusal import Refused
from node.config import BrokerConfig
from node.rest_api.body_room import BodyPart, BodyRoom
from node.rest_api.client_pool import ClientPool
from node.rest_api.json_schema import Json, Schema, problem_of
from node.rest_api.node_facts import NodeFacts
from node.rest_api.record_service import RecordService
from node.rest_api.request_guard import SAFE_METHODS, RequestGuard, check_content_type
from node.rest_api.rest_error import (
    BROKER_NOT_AVAILABLE,
    RestError,
    bad_request,
    invalid_payload,
    not_found,
    rest_error_of,
)
from node.rest_api.route import JSON, Answer, QueryParameter, RestContext, RestRequest, Route
from node.rest_api.spelling import prefix_of, spellings

MAX_CONNECTIONS: Final = 1024  # each costs an open file, which logs and Kafka clients need too
FIRST_REQUEST_TIMEOUT_S: Final = 30.0  # who connects and asks nothing holds a place of somebody's
BODY_TIMEOUT_S: Final = 30.0  # for a whole body, or for the next piece of a stream
KEEPALIVE_TIMEOUT_S: Final = 75.0
LINGERING_S: Final = 2.0  # for the rest of a body that is not read, so that its sender hears why
WRITE_TIMEOUT_S: Final = 30.0  # for a reader to take a piece of a stream
MAX_WORDS: Final = 200  # characters of what aiohttp says is wrong with a request
STOP_GRACE_S: Final = 2.0  # for answers under way when the node stops
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,19})?")

log = logging.getLogger(__name__)
# Whoever sends what is no HTTP is answered 400; a traceback for each would fill the log.
_unheard = logging.getLogger(f"{__name__}.protocol")
_unheard.setLevel(logging.CRITICAL)


class HttpServer:
    """Serves the routes on some bound sockets; made, started and stopped on one loop."""

    def __init__(self, routes: Sequence[Route], facts: NodeFacts, config: BrokerConfig) -> None:
        self.facts = facts
        self.clients = ClientPool(facts)
        self.records = RecordService(self.clients.make())
        self.stopping = asyncio.Event()
        self._request_max_bytes = config.ottla_rest_request_max_bytes
        self._guard = RequestGuard(_names(config))
        self._bodies = BodyRoom(config.ottla_rest_request_max_bytes)
        advertised = config.ottla_rest_advertised_listener
        self._base_url = None if advertised is None else f"http://{advertised.authority}"
        self._silent: set[web.RequestHandler] = set()  # connections that have asked nothing yet
        self._servers: list[asyncio.Server] = []
        app = web.Application(
            middlewares=[self._answer_errors], client_max_size=config.ottla_rest_request_max_bytes
        )
        for path, route in spellings(routes):
            app.router.add_route(route.method, path, self._endpoint(route))
        self._runner = web.AppRunner(app, shutdown_timeout=STOP_GRACE_S)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Let clients in."""
        await self.records.start()
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        for one in sockets:
            self._servers.append(await loop.create_server(self._accept, sock=one))

    async def stop(self) -> None:
        """Take nobody new, end what takes long, and wait a little for what is under way."""
        self.stopping.set()
        for server in self._servers:
            server.close()
        await self._runner.cleanup()
        await self.records.stop()
        await self.clients.close()

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        if server is None or len(server.connections) >= MAX_CONNECTIONS:
            return _Refusal()
        protocol = _Connection(
            server,
            loop=asyncio.get_running_loop(),
            access_log=_unheard,
            logger=_unheard,
            keepalive_timeout=KEEPALIVE_TIMEOUT_S,
            lingering_time=LINGERING_S,
            auto_decompress=False,  # a small body could become a huge one
        )

        def end_if_silent() -> None:
            if protocol in self._silent:
                self._silent.remove(protocol)
                protocol.force_close()

        self._silent.add(protocol)

        asyncio.get_running_loop().call_later(FIRST_REQUEST_TIMEOUT_S, end_if_silent)
        return protocol

    # ---- one request -----------------------------------------------------------------------------

    @web.middleware
    async def _answer_errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self._silent.discard(request.protocol)
        try:
            self._guard.check(request.method, request.headers)
            return await handler(request)
        except RestError as error:
            return _error(error)
        except KafkaError as error:
            return _error(rest_error_of(error))
        except Refused as error:
            return _error(RestError(409, 409, str(error)))
        except web.HTTPRequestEntityTooLarge:
            return _error(RestError(413, 413, f"The body has more than {request.client_max_size} bytes."))
        except web.HTTPMethodNotAllowed as error:
            answer = _error(RestError(405, 405, "HTTP 405 Method Not Allowed"))
            answer.headers[hdrs.ALLOW] = ",".join(sorted(error.allowed_methods))
            return answer
        except web.HTTPException as error:
            return _error(RestError(error.status, error.status, f"HTTP {error.status} {error.reason}"))
        except (ConnectionError, asyncio.CancelledError):
            raise  # the client is gone, or the node stops
        except Exception:
            log.exception("The REST API failed at %s %s", request.method, request.path[:200])
            return _error(RestError(500, 500, "Internal Server Error"))

    def _endpoint(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def endpoint(request: web.Request) -> web.StreamResponse:
            with self._bodies.part() as part:
                return await serve(request, part)

        async def serve(request: web.Request, part: BodyPart) -> web.StreamResponse:
            judged = await self._judge(route, request, part)
            if not route.uses_cluster:
                return await self._respond(request, await route.handler(self._context(None), judged))
            if not self.facts.has_started:
                # Its own listener would hold the request until the node serves.
                raise RestError(
                    503, BROKER_NOT_AVAILABLE, "This node is starting; /readyz tells how far it is."
                )
            async with self.clients.lend() as client:
                cluster_id = judged.path.get("cluster_id", self.facts.cluster_id)
                if cluster_id != self.facts.cluster_id:
                    raise not_found(f"Cluster {cluster_id[:100]} cannot be found.")
                return await self._respond(request, await route.handler(self._context(client), judged))

        return endpoint

    def _context(self, client: Any) -> RestContext:
        # A route that `uses_cluster` is the only one that touches the client.
        return RestContext(
            client=client,
            facts=self.facts,
            make_client=self.clients.make,
            records=self.records,
            request_max_bytes=self._request_max_bytes,
            stopping=self.stopping,
        )

    async def _judge(self, route: Route, request: web.Request, part: BodyPart) -> RestRequest:
        path = {name: _path_value(route, name, text) for name, text in request.match_info.items()}
        query = _query(route, request)
        raw = b""
        body: Json = None
        chunks: AsyncIterator[bytes] | None = None
        if request.method not in SAFE_METHODS and request.body_exists:
            check_content_type(request.headers, route.request_media_types)
            if hdrs.CONTENT_ENCODING in request.headers:
                raise RestError(415, 415, "The body must not be compressed.")
            if route.streams_body:
                chunks = _chunks(request)
            else:
                raw = await _read(request, part)
        if raw and route.judges_body:
            body = _parse(raw, route.request_schema)
        if route.body_is_required and route.judges_body and body is None:
            raise invalid_payload("Request body is empty. Data is required.")
        return RestRequest(
            path=path,
            query=query,
            body=body,
            raw_body=raw,
            headers=request.headers,
            base_url=(self._base_url or f"http://{request.host}") + prefix_of(request.path),
            chunks=chunks,
            body_part=part,
        )

    async def _respond(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        headers = {**SECURITY_HEADERS, **answer.headers}
        if answer.stream is not None:
            return await _stream(request, answer, answer.stream, headers)
        if answer.content is None and answer.body is None:
            return web.Response(status=answer.status, headers=headers)
        content = answer.content
        if content is None:
            content = orjson.dumps(answer.body)
        headers[hdrs.CONTENT_TYPE] = answer.content_type
        return web.Response(status=answer.status, body=content, headers=headers)


class _Connection(RequestHandler):
    """What is no HTTP, or has too long a line, is answered as JSON too."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer that has begun cannot become another one")
        # Behind the colon stand the bytes that came.
        words = (message or f"HTTP {status}").partition(":")[0][:MAX_WORDS]
        answer = _error(RestError(status, status, f"{words}."))
        answer.force_close()
        return answer


class _Refusal(asyncio.Protocol):
    """Closes at once: there are too many connections."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def _stream(
    request: web.Request, answer: Answer, pieces: AsyncGenerator[bytes, None], headers: dict[str, str]
) -> web.StreamResponse:
    response = web.StreamResponse(
        status=answer.status, headers={**headers, hdrs.CONTENT_TYPE: answer.content_type}
    )
    async with aclosing(pieces):
        await response.prepare(request)
        try:
            async for piece in pieces:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await response.write(piece)
            await response.write_eof()
        except (ConnectionError, ClientConnectionResetError):
            return response  # nobody reads it any more
        except (RestError, KafkaError, OSError):
            # The status has been sent; an answer that ends in its middle is seen to be cut.
            if request.transport is not None:
                request.transport.abort()
    return response


def _error(error: RestError) -> web.Response:
    body = orjson.dumps({"error_code": error.error_code, "message": error.message})
    return web.Response(status=error.status, body=body, headers={**SECURITY_HEADERS, hdrs.CONTENT_TYPE: JSON})


# ---- parts of a request --------------------------------------------------------------------------


def _path_value(route: Route, name: str, text: str) -> Any:
    """A path parameter as its type; what is no number where one must be is not found, as by Confluent's."""
    schema = route.schema_of(name)
    if schema.get("type") != "integer":
        return text
    if not _INTEGER.fullmatch(text) or problem_of(int(text), schema, name) is not None:
        raise not_found("HTTP 404 Not Found")
    return int(text)


def _query(route: Route, request: web.Request) -> dict[str, Any]:
    """The query parameters that the route knows; others mean nothing, as with Confluent's."""
    found: dict[str, Any] = {}
    for parameter in route.query:
        texts = request.query.getall(parameter.name, [])
        if len(texts) > 1:
            raise bad_request(f"{parameter.name} is there twice.")
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
        raise bad_request(f"{problem}.")
    return value


async def _read(request: web.Request, part: BodyPart) -> bytes:
    """The body; aiohttp's HTTPRequestEntityTooLarge as soon as it is too long."""
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
        raise RestError(408, 408, f"The body did not come within {BODY_TIMEOUT_S:g} s.") from None


async def _chunks(request: web.Request) -> AsyncIterator[bytes]:
    while not request.content.at_eof():
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                piece = await request.content.readany()
        except TimeoutError:
            raise RestError(408, 408, f"Nothing came for {BODY_TIMEOUT_S:g} s.") from None
        except web.RequestPayloadError:
            raise bad_request("The body is not what its headers say.") from None
        if piece:
            yield piece


def _parse(raw: bytes, schema: Schema | None) -> Json:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"The body is not JSON: {error}.") from None
    # Null is no body.
    problem = None if schema is None or body is None else problem_of(body, schema)
    if problem is not None:
        raise bad_request(f"Invalid body: {problem}.")
    return body


def _names(config: BrokerConfig) -> list[str]:
    """By which names this node may be asked."""
    names = [socket.gethostname(), socket.getfqdn(), *config.ottla_rest_allowed_hosts]
    names += [listener.host for listener in config.advertised_listeners]
    names += [address.host for address in config.ottla_rest_listeners if address.host]
    if config.ottla_rest_advertised_listener is not None:
        names.append(config.ottla_rest_advertised_listener.host)
    return names
