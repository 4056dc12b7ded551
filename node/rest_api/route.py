"""A line of the table of routes: its input, its answers, and its handler.

Each area of the API has a module with `ROUTES`. The server validates path, query and body against this table
before the handler runs, and the OpenAPI document is made from it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.metadata_raft.acl import AclOperation
from ottla.node.client.cluster_client import Client
from ottla.node.client.deadline import Deadline
from ottla.node.client.record_sender import RecordSender
from ottla.node.net.act_for import Caller
from ottla.node.node_facts import NodeFacts
from ottla.node.rest_api.answer_room import AnswerPart
from ottla.node.rest_api.authentication import RestAuthentication
from ottla.node.rest_api.body_room import BodyPart
from ottla.node.rest_api.json_schema import Json, Schema
from ottla.node.rest_api.record_service import RecordService
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.sessions import Session
from ottla.node.rest_api.v2_instances import Instances

# The time for a request with all its retries; shorter than the time-out of most HTTP clients.
REQUEST_TIMEOUT_S: Final = 15.0
LEAST_TIMEOUT_S: Final = 0.2  # with no time at all, a request still gets the data that is there at once
JSON: Final = "application/json"
TIMEOUT_MS: Final = "timeout_ms"
MAX_TIMEOUT_MS: Final = 60_000  # a longer wait would hold a client that other requests need
STRING: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
INTEGER: Final[Schema] = {"type": "integer"}
INT32: Final[Schema] = {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1}
INT64: Final[Schema] = {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**63 - 1}
NAME: Final[Schema] = {"type": "string", "minLength": 1}

# Parameters with the same type in all paths; others are strings unless a route has a schema for them.
PATH_PARAMETERS: Final[Mapping[str, Schema]] = {"broker_id": INT32, "partition_id": INT32}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameter:
    """A parameter of the query; `schema` has one type of string, integer, number or boolean."""

    name: str
    schema: Schema = field(default_factory=lambda: STRING)
    description: str
    is_required: bool = False


# A parameter of every route that asks the cluster, unless the route has its own.
TIME_LIMIT: Final = QueryParameter(
    name=TIMEOUT_MS,
    schema={"type": "integer", "minimum": 0, "maximum": MAX_TIMEOUT_MS},
    description="The maximum time for the request in ms. After it, the answer contains what was "
    f"found so far, or is 503. The default is {REQUEST_TIMEOUT_S:g} seconds.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer of a route: its description, and the schema of its body (None: it has no body)."""

    description: str
    schema: Schema | None = None
    media_type: str = JSON
    other_media_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestContext:
    """The environment of a handler: the client for the cluster, and the facts of this process."""

    client: Client  # lent to this request until the handler has returned
    facts: NodeFacts
    own_client: Callable[[], AbstractAsyncContextManager[Client]]  # for a stream: it outlives `client`
    records: RecordService  # the slots of pages and live tails
    consumers: Instances  # the consumers of v2 on this node
    sender: Callable[[], AbstractContextManager[RecordSender]]  # lends the producer for the caller's records
    request_max_bytes: int  # of a body, and of a document in a stream
    deadline: Deadline  # of this request; `client` has the same
    caller: Caller  # brokers authorize every request by its rights
    session: Session | None = None  # of the console, if the caller has logged in by one
    authentication: RestAuthentication  # for the routes that log in
    has_tls: bool = False  # True if the connection is encrypted
    address: str = ""  # of the client; failed logins are counted by it
    share: str = ""  # the key for fair shares: a user, or an address
    should_end: Callable[[], bool] = lambda: False  # True: a page should end now, since others wait
    stopping: asyncio.Event  # set when the node stops; long answers then end

    @property
    def cluster_id(self) -> str:
        return self.facts.cluster_id

    @property
    def node_id(self) -> int:
        return self.facts.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """A validated request. Path and query are decoded, with the types of their schemas."""

    path: Mapping[str, Any]
    query: Mapping[str, Any]  # only the parameters that were given
    body: Json = None  # None: there is no body
    raw_body: bytes = b""
    headers: Mapping[str, str]  # names are case-insensitive
    base_url: str  # http://HOST:PORT, the start of links
    chunks: AsyncIterator[bytes] | None = None  # the body of a route that `streams_body`
    body_part: BodyPart  # counts the memory of the body
    answer_part: AnswerPart  # counts the memory of a growing answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a handler: a JSON value, bytes of another type, or a stream of bytes."""

    status: int = 200
    body: Json = None
    content: bytes | None = None  # instead of `body`
    stream: AsyncGenerator[bytes, None] | None = None  # instead of both; closed when the client disconnects
    failure: Callable[[RestError], bytes] | None = None  # formats an error in a stream that has begun
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[RestContext, RestRequest], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path, with parameters in braces: /v3/clusters/{cluster_id}."""

    method: str
    path: str
    handler: Handler
    operation_id: str
    summary: str
    tag: str
    description: str = ""
    path_parameters: Mapping[str, Schema] = field(default_factory=dict)  # in addition to PATH_PARAMETERS
    query: tuple[QueryParameter, ...] = ()
    request_schema: Schema | None = None  # of a JSON body; None: the route takes none
    body_is_required: bool = False
    validates_body: bool = True  # False: `request_schema` only documents, and the handler validates
    request_media_types: tuple[str, ...] = (JSON,)
    streams_body: bool = False  # the handler reads `chunks`, of any length
    responses: Mapping[int, Response]
    uses_cluster: bool = True  # False: it needs no client, and answers in any state of the cluster
    time_limit_s: float = REQUEST_TIMEOUT_S  # for a request without `timeout_ms`
    reads_records: bool = False  # True: it opens records, so it waits for one of few slots
    is_for_administrators: bool = False  # True: allowed only from addresses that may change the cluster
    asks: AclOperation | None = None  # to authorize on the cluster, if this process itself answers
    is_metrics: bool = False  # True: allowed also for the principals of `ottla.rest.metrics.principals`
    is_open: bool = False  # True: needs no login
    is_documented: bool = True  # False: not in the OpenAPI document, such as pages

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods of the route: HEAD is a GET whose answer has no content (RFC 9110, 9.3.2)."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)

    @property
    def parameters(self) -> tuple[QueryParameter, ...]:
        """Return the parameters of the query: those of `query`, and a time limit if it asks the cluster."""
        if not self.uses_cluster or any(one.name == TIMEOUT_MS for one in self.query):
            return self.query
        return (*self.query, TIME_LIMIT)

    def time_limit_of(self, query: Mapping[str, Any]) -> float:
        """Return the time limit of a request with this query."""
        given_ms = query.get(TIMEOUT_MS)
        return self.time_limit_s if given_ms is None else max(given_ms / 1000, LEAST_TIMEOUT_S)

    def schema_of(self, parameter: str) -> Schema:
        """Return the schema of a path parameter."""
        return self.path_parameters.get(parameter) or PATH_PARAMETERS.get(parameter) or STRING
