"""Fuzz targets for the REST API: bytes of HTTP from a socket, and bodies for the handler of each route."""

import asyncio
import re
from collections.abc import Awaitable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any, Final, cast

import orjson

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.node.audit.audit_log import AuditLog
from ottla.node.client.deadline import Deadline
from ottla.node.client.refusal import Refused
from ottla.node.memory.memory_budget import divide
from ottla.node.net.act_for import Caller
from ottla.node.net.login import LoginCounts
from ottla.node.net.server_tls import ServerTls
from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.answer_room import AnswerRoom
from ottla.node.rest_api.body_room import BodyRoom
from ottla.node.rest_api.http_server import HttpServer
from ottla.node.rest_api.json_schema import Json, Schema, problem_of
from ottla.node.rest_api.loop_turns import LoopTurns
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.route import Answer, RestContext, RestRequest, Route
from ottla.node.security.sasl.failed_logins import FailedLogins
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.settings.config import parse_config
from tests.fuzz.target import Target

_CLUSTER: Final = "cluster"

_TURNS: Final = 40  # turns of the loop, enough to serve a small request
_MEMORY_BYTES: Final = 256 << 20


class _Services:
    """The services of a node; the server needs only one."""

    audit = AuditLog()


class _Facts:
    """The facts about its node that the server needs."""

    cluster_id = _CLUSTER
    node_id = 1
    is_serving = has_started = True
    cut_off_since_ms = None
    services = _Services()
    failed_logins = FailedLogins()
    false_credentials = FalseCredentials(dict)
    logins = LoginCounts()

    def unique(self, count: int) -> bytes:
        return bytes(count)

    async def allows(self, caller: Caller, operation: AclOperation) -> bool:
        return True

    def rest_tls(self) -> ServerTls:
        raise AssertionError("nothing is encrypted here")

    def bootstrap(self) -> list[tuple[str, int]]:
        return []


class _Authentication:
    """Authentication without any login method."""

    methods = ()

    def cookie_name(self, has_tls: bool) -> str:
        return "session"


class _Socket(asyncio.Transport):
    """A transport that keeps the responses, and reads nothing."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 6)})
        self.sent = bytearray()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, list_of_data: Any) -> None:
        for one in list_of_data:
            self.sent += one

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        """Do nothing: it reads nothing."""

    def resume_reading(self) -> None:
        """Do nothing: it reads nothing."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: it accepts all bytes at once."""

    def get_write_buffer_size(self) -> int:
        return 0


async def _echo(_: RestContext, request: RestRequest) -> Answer:
    size = len(request.raw_body)
    if request.chunks is not None:
        async for chunk in request.chunks:
            size += len(chunk)
    return Answer(body={"path": dict(request.path), "query": dict(request.query), "bytes": size})


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _server() -> HttpServer:
    config = parse_config({"node.id": "1", "log.dirs": "/tmp/a"})
    routes = [
        replace(one, handler=_echo, uses_cluster=False, is_for_administrators=False) for one in ALL_ROUTES
    ]

    async def make() -> HttpServer:
        server = HttpServer(routes, cast(Any, _Facts()), config, divide(_MEMORY_BYTES))
        await server._runner.setup()
        return server

    return _loop().run_until_complete(make())


_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


def _serve(content: bytes) -> None:
    """Send bytes to a connection, cut at the place in the first byte; no response may be a status of 5xx."""
    if not content:
        return
    cut, stream, server = content[0], content[1:], _server()

    async def talk() -> bytes:
        connection, transport = server._accept(), _Socket()
        assert isinstance(connection, asyncio.Protocol)
        connection.connection_made(transport)
        for piece in (stream[:cut], stream[cut:]) if cut else (stream,):
            if not transport.is_closed:
                connection.data_received(piece)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        connection.connection_lost(None)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return bytes(transport.sent)

    responses = _loop().run_until_complete(talk())
    highest = max((int(one) for one in _STATUS.findall(responses)), default=200)
    if highest >= 500:
        raise AssertionError(f"a response has the status {highest}: {responses[:400]!r}")
    if highest >= 400:
        raise RestError(highest, highest, "rejected")


_PATH_PARAMETER: Final = re.compile(r"{([^:}]+)(?::[^}]*)?}")


def _path_value(route: Route, name: str) -> str | int:
    """Return a value of a parameter in the path of a route."""
    if name == "cluster_id":
        return _CLUSTER
    return 1 if route.schema_of(name).get("type") == "integer" else "x"


def _path_of(route: Route) -> str:
    return _PATH_PARAMETER.sub(lambda found: str(_path_value(route, found[1])), route.path)


def _requests() -> list[bytes]:
    found = []
    for number, route in enumerate(ALL_ROUTES):
        query = "&".join(f"{one.name}={_first_value(one.schema)}" for one in route.parameters)
        head = f"{route.method} {_path_of(route)}?{query} HTTP/1.1\r\nHost: localhost:8080\r\n"
        if route.request_schema is None:
            found.append(bytes((0,)) + head.encode() + b"Accept: */*\r\n\r\n")
            continue
        body = orjson.dumps(next(iter(_values(route.request_schema))))
        head += f"Content-Type: {route.request_media_types[0]}\r\n"
        if number % 2:
            sized = f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        else:
            sized = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        found.append(bytes((20,)) + head.encode() + sized)
    get = b"\0GET /v3/clusters HTTP/1.1\r\nHost: localhost\r\n"
    found += [
        get + b"Expect: 100-continue\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}",
        get + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAA\r\n\r\n",
        get + b"Range: bytes=0-1\r\nCookie: a=b; c=\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        b"\0POST /v3/clusters/cluster/topics HTTP/1.0\r\nHost: [::1]:1\r\nConnection: keep-alive\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9\r\n\r\n--x\r\n\r\n--x--",
    ]
    return found


def _first_value(schema: Schema) -> str:
    value = next(iter(_values(schema)))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(schema: Schema) -> Iterator[Json]:
    """Yield values that a schema accepts: one, or one for each of its options."""
    for option in schema.get("anyOf", ()):
        yield from _values(option)
    if "enum" in schema:
        yield from schema["enum"]
    kind = schema.get("type")
    match kind if isinstance(kind, str) or kind is None else kind[0]:
        case "object":
            names = schema.get("properties", {})
            yield {name: next(iter(_values(one)), None) for name, one in names.items()}
            yield {
                name: next(iter(_values(names.get(name, {}))), None) for name in schema.get("required", ())
            }
        case "array":
            yield [next(iter(_values(schema.get("items", {}))), None)] * max(1, schema.get("minItems", 0))
        case "integer" | "number":
            yield schema.get("minimum", 1)
            yield schema.get("maximum", 7)
        case "boolean":
            yield from (True, False)
        case "null":
            yield None
        case _:
            yield "x"


# ---- bodies -----------------------------------------------------------------------------------------------


class _SilentClient:
    """A client whose cluster does not answer: handlers parse their bodies before they send requests."""

    def __getattr__(self, name: str) -> Any:
        if name == "until":
            return lambda deadline: self
        known = {
            "remaining_s": 1.0,
            "remaining_ms": 1_000,
            "silent_nodes": {},
            "topics": {},
            "cut_off_since_ms": None,
            "deadline": Deadline.after(0.0),
            "forget": lambda topic: None,
        }
        if name in known:
            return known[name]

        async def ask(*_: Any, **__: Any) -> Any:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no node answers")

        return ask


class _Records:
    """The turns of a node's record service, and no slots."""

    def __init__(self) -> None:
        self.turns = LoopTurns()


class _NoInstances:
    """The consumer instances of v2, of which none exists."""

    def __getattr__(self, name: str) -> Any:
        def reject(*_: Any, **__: Any) -> Any:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "there is no consumer instance")

        return reject


@cache
def _routes_with_bodies() -> list[Route]:
    return [one for one in ALL_ROUTES if one.request_schema is not None and not one.streams_body]


def _handle(content: bytes) -> None:
    """Check a body against the schema of its route, and pass it to the handler."""
    if not content:
        return
    routes = _routes_with_bodies()
    route, raw = routes[content[0] % len(routes)], content[1:]
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return
    assert route.request_schema is not None
    if route.validates_body and (body is None or problem_of(body, route.request_schema) is not None):
        return
    path = {name: _path_value(route, name) for name in _PATH_PARAMETER.findall(route.path)}

    async def handle() -> None:
        budget = divide(_MEMORY_BYTES)
        deadline = Deadline.after(1.0)
        context = RestContext(
            client=cast(Any, _SilentClient()),
            facts=cast(Any, _Facts()),
            own_client=cast(Any, None),
            records=cast(Any, _Records()),
            sender=lambda: nullcontext(cast(Any, _SilentClient())),
            caller=Caller("User:ANONYMOUS", "127.0.0.1", is_local=True),
            authentication=cast(Any, _Authentication()),
            request_max_bytes=1 << 20,
            deadline=deadline,
            stopping=asyncio.Event(),
            consumers=cast(Any, _NoInstances()),
        )
        bodies = BodyRoom(1 << 20, budget.rest_bodies)
        answers = AnswerRoom(lambda: 0.0, budget.rest_answers)
        with bodies.part() as body_part, answers.part(lambda: None) as answer_part:
            handling: Awaitable[Answer] = route.handler(
                context,
                RestRequest(
                    path=path,
                    query={},
                    body=body,
                    raw_body=raw,
                    headers={"Content-Type": "application/json"},
                    base_url="http://localhost",
                    body_part=body_part,
                    answer_part=answer_part,
                ),
            )
            answer = await asyncio.wait_for(handling, 5.0)
            if answer.stream is not None:
                await answer.stream.aclose()

    try:
        _loop().run_until_complete(handle())
    except Refused:
        pass
    except KafkaError as error:
        if error.code is not ErrorCode.REQUEST_TIMED_OUT:
            raise
    except RestError as error:
        if error.status != 503:
            raise


def _bodies() -> list[bytes]:
    found = []
    for number, route in enumerate(_routes_with_bodies()):
        assert route.request_schema is not None
        for value in _values(route.request_schema):
            found.append(bytes((number,)) + orjson.dumps(value))
    return found


TARGETS: Final = (
    Target(
        name="rest-http",
        reads="bytes of HTTP: lines, headers, paths, queries, bodies of every route",
        corpus=_requests,
        run=_serve,
    ),
    Target(
        name="rest-bodies",
        reads="JSON bodies of every route, in its schema and its handler",
        corpus=_bodies,
        run=_handle,
    ),
)
