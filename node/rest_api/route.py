"""A line of the table of routes: what it takes, what it answers, and who handles it.

Each area of the API has a module with `ROUTES`. The server judges path, query and body by what stands here
before the handler runs, and the OpenAPI document is made of it.
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

# As long as a request may take over all its retries; less than most HTTP clients wait.
REQUEST_TIMEOUT_S: Final = 15.0
LEAST_TIMEOUT_S: Final = 0.2  # whoever gives a request no time at all still gets what is there at once
JSON: Final = "application/json"
TIMEOUT_MS: Final = "timeout_ms"
MAX_TIMEOUT_MS: Final = 60_000  # whoever waits for longer holds a client that others wait for
STRING: Final[Schema] = {"type": "string"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
INTEGER: Final[Schema] = {"type": "integer"}
INT32: Final[Schema] = {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1}
INT64: Final[Schema] = {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**63 - 1}
NAME: Final[Schema] = {"type": "string", "minLength": 1}

# What stands in paths under the same name everywhere; others are strings unless a route says otherwise.
PATH_PARAMETERS: Final[Mapping[str, Schema]] = {"broker_id": INT32, "partition_id": INT32}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameter:
    """A parameter behind the question mark; `schema` has one type of string, integer, number or boolean."""

    name: str
    schema: Schema = field(default_factory=lambda: STRING)
    description: str
    is_required: bool = False


# Of every route that asks the cluster, unless it has its own.
TIME_LIMIT: Final = QueryParameter(
    name=TIMEOUT_MS,
    schema={"type": "integer", "minimum": 0, "maximum": MAX_TIMEOUT_MS},
    description="The maximum time for the request in ms. After it, the answer contains what was "
    f"found so far, or is 503. The default is {REQUEST_TIMEOUT_S:g} seconds.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer of a route: what it means, and its body (None: it has none)."""

    description: str
    schema: Schema | None = None
    media_type: str = JSON
    other_media_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestContext:
    """What a handler asks: the cluster over its client, this process by its facts."""

    client: Client  # this request's own until its answer leaves
    facts: NodeFacts
    own_client: Callable[[], AbstractAsyncContextManager[Client]]  # for a stream: it outlives the lent one
    records: RecordService  # the places of live tails
    consumers: Instances  # those of v2 that live in this node
    sender: Callable[[], AbstractContextManager[RecordSender]]  # lends the producer for the caller's records
    request_max_bytes: int  # of a body, and of a document in a stream
    deadline: Deadline  # of this request; `client` has the same
    caller: Caller  # whose rights hold for whatever it asks
    session: Session | None = None  # by which the caller is known, if it is one
    authentication: RestAuthentication  # for the routes by which somebody logs in
    has_tls: bool = False  # whether the request came encrypted
    address: str = ""  # of whoever asks: by it failed logins are counted
    share: str = ""  # whose request it is, by which shares are counted: a user, or an address
    should_end: Callable[[], bool] = lambda: False  # a page that may end anywhere ends then: others wait
    stopping: asyncio.Event  # set when the node stops: long answers end then

    @property
    def cluster_id(self) -> str:
        return self.facts.cluster_id

    @property
    def node_id(self) -> int:
        return self.facts.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """A request that has been judged. Path and query are decoded and typed as their schemas say."""

    path: Mapping[str, Any]
    query: Mapping[str, Any]  # those that were given
    body: Json = None  # None: there was none
    raw_body: bytes = b""
    headers: Mapping[str, str]  # names in any case
    base_url: str  # http://HOST:PORT, where links begin
    chunks: AsyncIterator[bytes] | None = None  # the body of a route that `streams_body`
    body_part: BodyPart  # what is held of the body is counted there
    answer_part: AnswerPart  # and here of an answer that grows


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back: a JSON value, or bytes of another type, or a stream of them."""

    status: int = 200
    body: Json = None
    content: bytes | None = None  # instead of `body`
    stream: AsyncGenerator[bytes, None] | None = None  # instead of both; closed when the client is gone
    failure: Callable[[RestError], bytes] | None = None  # how a stream that has begun tells of an error
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[RestContext, RestRequest], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. The path has its parameters in braces: /v3/clusters/{cluster_id}."""

    method: str
    path: str
    handler: Handler
    operation_id: str
    summary: str
    tag: str
    description: str = ""
    path_parameters: Mapping[str, Schema] = field(default_factory=dict)  # beside PATH_PARAMETERS
    query: tuple[QueryParameter, ...] = ()
    request_schema: Schema | None = None  # of a JSON body; None: it takes none
    body_is_required: bool = False
    judges_body: bool = True  # False: `request_schema` is told, and the handler judges for itself
    request_media_types: tuple[str, ...] = (JSON,)
    streams_body: bool = False  # the handler reads `chunks`, of any length
    responses: Mapping[int, Response]
    uses_cluster: bool = True  # False: no client is lent, so it answers whatever the cluster does
    time_limit_s: float = REQUEST_TIMEOUT_S  # for the whole request, where it gives no `timeout_ms`
    reads_records: bool = False  # True: it opens records, so it waits for one of few places
    is_for_administrators: bool = False  # True: taken from where the cluster may be changed alone
    asks: AclOperation | None = None  # of the cluster, where this process itself answers
    is_metrics: bool = False  # True: the principals of `ottla.rest.metrics.principals` may ask it, too
    is_open: bool = False  # True: answered without a login
    is_documented: bool = True  # False: not in the OpenAPI document, as pages are not

    @property
    def methods(self) -> tuple[str, ...]:
        """By what it is asked: HEAD is a GET whose answer has no content (RFC 9110, 9.3.2)."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)

    @property
    def parameters(self) -> tuple[QueryParameter, ...]:
        """Return the parameters of the query: those of `query`, and a time limit if it asks the cluster."""
        if not self.uses_cluster or any(one.name == TIMEOUT_MS for one in self.query):
            return self.query
        return (*self.query, TIME_LIMIT)

    def time_limit_of(self, query: Mapping[str, Any]) -> float:
        """How long a request with this query may take."""
        given_ms = query.get(TIMEOUT_MS)
        return self.time_limit_s if given_ms is None else max(given_ms / 1000, LEAST_TIMEOUT_S)

    def schema_of(self, parameter: str) -> Schema:
        """What a path parameter must be."""
        return self.path_parameters.get(parameter) or PATH_PARAMETERS.get(parameter) or STRING
