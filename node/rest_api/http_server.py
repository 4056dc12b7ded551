"""The HTTP server of the table of routes: from a connection to a handler, and from an error to an answer.

Every error is a JSON answer with a code. An unexpected one is logged once, and other requests go on.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, NamedTuple

from aiohttp import hdrs, web

from ottla.logstore.words.errors import KafkaError
from ottla.node.authorization.access import ANONYMOUS
from ottla.node.client.deadline import Deadline
from ottla.node.client.quorum_silence import moment_as_text
from ottla.node.client.refusal import Refused
from ottla.node.counters.rest_work import RestWork
from ottla.node.memory.memory_budget import MemoryBudget
from ottla.node.net.acceptor import Acceptor
from ottla.node.net.act_for import Caller
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.connection_info import network_of
from ottla.node.node_facts import NodeFacts
from ottla.node.rest_api.answer_room import AnswerPart, AnswerRoom
from ottla.node.rest_api.authentication import ANONYMOUS_IDENTITY, Identity, RestAuthentication
from ottla.node.rest_api.body_room import BodyPart, BodyRoom
from ottla.node.rest_api.change_requests import is_audited
from ottla.node.rest_api.client_address import locate_client
from ottla.node.rest_api.client_pool import ClientPool
from ottla.node.rest_api.connections import HttpConnection, HttpConnections
from ottla.node.rest_api.fair_slots import Bounds, FairSlots
from ottla.node.rest_api.http_answer import encoded, error_answer, send_answer, send_stream
from ottla.node.rest_api.http_request import read_request
from ottla.node.rest_api.own_names import configured_names, look_up_full_name
from ottla.node.rest_api.readiness import CUT_OFF_SINCE
from ottla.node.rest_api.record_service import RecordService
from ottla.node.rest_api.request_guard import SAFE_METHODS, RequestGuard
from ottla.node.rest_api.request_turns import RequestTurns
from ottla.node.rest_api.rest_error import (
    AUTHORIZATION_FAILED,
    BROKER_NOT_AVAILABLE,
    RestError,
    not_found,
    rest_error_of,
)
from ottla.node.rest_api.route import Answer, RestContext, RestRequest, Route
from ottla.node.rest_api.sessions import is_own_token
from ottla.node.rest_api.spelling import prefix_of, spellings
from ottla.node.rest_api.standing_logins import StandingLogins
from ottla.node.rest_api.tls_door import TlsDoor
from ottla.node.rest_api.v2_instances import Instances
from ottla.node.security.administrators import REST
from ottla.node.settings.config import BrokerConfig

CALLER: Final = web.RequestKey("caller", Caller)  # the caller, once authenticated
LINGERING_S: Final = 2.0  # to read the rest of a body, so that its sender receives the error
WAITING_SHARE: Final = 0.75  # of a page's time limit, to wait for a slot: the rest is for reading
OVERTIME_S: Final = 0.5  # for a handler to combine the answers that came in time
ADMINISTRATOR_TIMEOUT_S: Final = 5.0  # to look up the addresses of the cluster's nodes
CSRF_TOKEN: Final = "X-CSRF-Token"
WILDCARD_PRINCIPAL: Final = "User:*"
BACKLOG: Final = 1024  # connections that the kernel queues; beyond it, a client retries after a second
STOP_GRACE_S: Final = 2.0  # for answers under way when the node stops

log = logging.getLogger(__name__)
# Bytes that are not HTTP are answered with 400; a traceback for each would fill the log.
_unheard = logging.getLogger(f"{__name__}.protocol")
_unheard.setLevel(logging.CRITICAL)


class HttpServer:
    """Serves the routes on bound sockets; created and run on one loop."""

    def __init__(
        self, routes: Sequence[Route], facts: NodeFacts, config: BrokerConfig, memory: MemoryBudget
    ) -> None:
        self.facts = facts
        self._lines = ClientLines(log)
        self.clients = ClientPool(facts)
        reads = Bounds(
            config.ottla_rest_reads_max,
            config.ottla_rest_reads_max_per_address,
            config.ottla_rest_reads_waiting_max,
            config.ottla_rest_reads_waiting_max_per_address,
        )
        tails = Bounds(config.ottla_rest_tails_max, config.ottla_rest_tails_max_per_address)
        self.records = RecordService(
            self.clients.make,
            FairSlots("tails", "live tails", tails),
            FairSlots("reads", "pages of records are being read", reads),
        )
        consumers = Bounds(config.ottla_rest_consumers_max, config.ottla_rest_consumers_max_per_address)
        self.consumers = Instances(
            self.clients.make_reader,
            FairSlots("consumers", "consumers of the REST API v2", consumers),
            config.ottla_rest_consumers_timeout_ms / 1000,
        )
        self._authentication = RestAuthentication(facts, config.rest_logins)
        self._standing = StandingLogins(self._authentication.still_holds)
        self._metrics_principals = config.rest_logins.metrics_principals
        self._has_authorizer = config.authorizer is not None
        self._trusted_proxies = config.ottla_rest_trusted_proxies
        self.stopping = asyncio.Event()
        self._request_max_bytes = config.ottla_rest_request_max_bytes
        self._guard = RequestGuard(configured_names(config))
        self._connections = HttpConnections()
        self._turns = RequestTurns(asyncio.get_running_loop().call_soon)
        self.bodies = BodyRoom(config.ottla_rest_request_max_bytes, memory.rest_bodies)
        self.answers = AnswerRoom(time.monotonic, memory.rest_answers)
        advertised = config.ottla_rest_advertised_listener
        self._base_url = None if advertised is None else advertised.url
        self._acceptors: list[Acceptor] = []
        app = web.Application(
            middlewares=[self._audit_changes, self._answer_errors],
            client_max_size=config.ottla_rest_request_max_bytes,
        )
        app.on_response_prepare.append(self._add_cut_off_header)
        for path, route in spellings(routes):
            endpoint = self._endpoint(route)
            for method in route.methods:
                app.router.add_route(method, path, endpoint)
        self._runner = web.AppRunner(app, shutdown_timeout=STOP_GRACE_S)
        self._door = TlsDoor(facts.rest_tls, self._accept, limits=facts.failed_logins, counts=facts.logins)

    @property
    def readings(self) -> list[RestWork]:
        """Return the amount of each kind of work."""
        shared = (
            self.clients.turns,
            self.records.reads,
            self.records.tails,
            self.consumers.slots,
            self._authentication,
        )
        return [one.reading for one in shared]

    async def run(self, sockets: Sequence[tuple[socket.socket, bool]], end: asyncio.Event) -> None:
        """Serve until `end` is set or a part of the server fails. Each socket comes with True for TLS."""
        async with asyncio.TaskGroup() as tasks:
            parts = [
                tasks.create_task(part.run())
                for part in (self.records, self.consumers, self._connections, self._standing)
            ]
            try:
                look_up_full_name(self._guard.allow)
                await self._runner.setup()
                for one, is_secure in sockets:
                    accept = self._door.accept if is_secure else self._accept
                    acceptor = Acceptor(accept)
                    self._acceptors.append(acceptor)
                    await acceptor.take(one, BACKLOG)
                    await acceptor.start()
                await end.wait()
            finally:
                await self._stop()
                for part in parts:
                    part.cancel()

    async def _stop(self) -> None:
        """Accept no new connections, end long requests, and wait briefly for those under way."""
        self.stopping.set()
        for acceptor in self._acceptors:
            acceptor.close()
        await self._runner.cleanup()
        self._door.close()
        await self.clients.close()
        self._authentication.close()

    def _accept(self) -> HttpConnection:
        server = self._runner.server
        assert server is not None
        return HttpConnection(
            self._connections,
            self._turns,
            server,
            loop=asyncio.get_running_loop(),
            access_log=_unheard,
            logger=_unheard,
            lingering_time=LINGERING_S,
            auto_decompress=False,  # a small body could decompress to a huge one
        )

    # ---- one request -----------------------------------------------------------------------------

    @web.middleware
    async def _answer_errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            connection = _connection_of(request)
            with connection.request():
                await connection.wait_for_turn(f"{request.method} {request.path}")
                self._guard.check(request.method, request.headers, request.host)
                return await handler(request)
        except RestError as error:
            return error_answer(error)
        except KafkaError as error:
            return error_answer(rest_error_of(error))
        except Refused as error:
            status = 404 if error.is_missing else 409
            return error_answer(RestError(status, status, str(error)))
        except web.HTTPRequestEntityTooLarge:
            return error_answer(
                RestError(413, 413, f"The request body is larger than {request.client_max_size} bytes.")
            )
        except web.HTTPMethodNotAllowed as error:
            answer = error_answer(RestError(405, 405, "HTTP 405 Method Not Allowed"))
            answer.headers[hdrs.ALLOW] = ",".join(sorted(error.allowed_methods))
            return answer
        except web.HTTPException as error:
            return error_answer(RestError(error.status, error.status, f"HTTP {error.status} {error.reason}"))
        except (ConnectionError, asyncio.CancelledError):
            raise  # the client has disconnected, or the node stops
        except Exception as error:
            self._lines.log(
                logging.ERROR,
                self._locate(request)[0],
                "The REST API failed on %s %s",
                request.method,
                request.path[:200],
                error=error,
            )
            return error_answer(RestError(500, 500, "Internal Server Error"))

    @web.middleware
    async def _audit_changes(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Record each change in the audit log, with its caller and the status of the answer."""
        answer = await handler(request)
        resource = request.match_info.route.resource
        path = "" if resource is None else resource.canonical
        if is_audited(request.method, path, answer.status) and self.facts.has_started:
            caller = request.get(CALLER)
            principal = ANONYMOUS if caller is None else caller.principal
            host, _ = self._locate(request)
            self.facts.services.audit.changed(
                principal,
                host,
                f"{REST} {request.method}",
                "Path",
                request.path,
                f"HTTP {answer.status}",
            )
        return answer

    async def _add_cut_off_header(self, _: web.Request, answer: web.StreamResponse) -> None:
        """Add a header to every answer, errors and streams included, if this node is cut off and its data is
        old.
        """
        since_ms = self.facts.cut_off_since_ms
        if since_ms is not None:
            answer.headers[CUT_OFF_SINCE] = moment_as_text(since_ms)

    def _endpoint(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def endpoint(request: web.Request) -> web.StreamResponse:
            connection = _connection_of(request)
            with self.bodies.part() as body_part, self.answers.part(connection.cut_off) as answer_part:
                return await self._serve(route, request, connection, body_part, answer_part)

        return endpoint

    async def _serve(
        self,
        route: Route,
        request: web.Request,
        connection: HttpConnection,
        body_part: BodyPart,
        answer_part: AnswerPart,
    ) -> web.StreamResponse:
        scheme = "http" if connection.tls is None else "https"
        base_url = (self._base_url or f"{scheme}://{request.headers[hdrs.HOST]}") + prefix_of(request.path)
        host, is_local = self._locate(request)
        address = network_of(host)
        identity = await self._identity(route, request, connection, address)
        caller = request[CALLER] = Caller(identity.principal, host, is_local)
        await self._check_rights(route, request, caller, identity)
        rest_request = await read_request(route, request, base_url, body_part, answer_part)
        self._standing.check(identity)  # the body may have taken long to arrive
        while_it_holds = partial(self._standing.while_it_holds, identity)
        # A read is cancelled once its client has disconnected; a change runs to its end.
        is_reading = route.method in SAFE_METHODS
        with connection.reading() if is_reading else nullcontext():
            with connection.work():
                origin = _Origin(caller, identity, address, connection.tls is not None)
                async with while_it_holds() if is_reading else nullcontext():
                    answer = encoded(await self._handle(route, rest_request, origin))
            if answer.stream is not None:
                return await send_stream(request, answer, answer.stream, connection.moved, while_it_holds)
            return await send_answer(request, answer, answer_part, while_it_holds)

    def _locate(self, request: web.Request) -> tuple[str, bool]:
        """Return the address of the client, and True if it is on this machine."""
        connection = _connection_of(request)
        forwarded = request.headers.getall("X-Forwarded-For", [])
        return locate_client(connection.peer, connection.local, forwarded, self._trusted_proxies)

    async def _identity(
        self, route: Route, request: web.Request, connection: HttpConnection, address: str
    ) -> Identity:
        """Return the caller; RestError 401 if the route needs a login and there is no valid one."""
        is_open = route.is_open or (route.is_metrics and WILDCARD_PRINCIPAL in self._metrics_principals)
        if is_open and (route.is_open or hdrs.AUTHORIZATION not in request.headers):
            try:
                return await self._authentication.cached_identity(request, connection)
            except RestError:
                return ANONYMOUS_IDENTITY  # an open route treats a certificate without a principal as none
        return await self._authentication.identity_of(request, connection, address)

    async def _check_rights(
        self, route: Route, request: web.Request, caller: Caller, identity: Identity
    ) -> None:
        """Raise RestError 403 or KafkaError if the caller may not ask this node for the route.

        A change also needs the token of its session. Brokers check all else.
        """
        session = identity.session
        is_change = route.method not in SAFE_METHODS and not route.is_open
        if (
            session is not None
            and is_change
            and not is_own_token(session, request.headers.get(CSRF_TOKEN, ""))
        ):
            raise RestError(
                403,
                AUTHORIZATION_FAILED,
                f"A request that changes something needs its session's token in the header {CSRF_TOKEN}.",
            )
        if route.is_metrics and self._metrics_principals.intersection((caller.principal, WILDCARD_PRINCIPAL)):
            return
        if route.asks is not None and not await self.facts.allows(caller, route.asks):
            raise RestError(
                403,
                AUTHORIZATION_FAILED,
                f"{caller.principal} from {caller.host} needs {route.asks.name} permission on the cluster.",
            )
        if route.is_for_administrators:
            await self.facts.run(
                lambda node: node.services.administrators.check_caller(caller),
                timeout_s=ADMINISTRATOR_TIMEOUT_S,
            )

    async def _handle(self, route: Route, rest_request: RestRequest, origin: "_Origin") -> Answer:
        deadline = Deadline.after(route.time_limit_of(rest_request.query))
        if not route.uses_cluster:
            return await route.handler(self._context(None, deadline, origin), rest_request)
        if not self.facts.has_started:
            # Over its own listener the request would wait until the node serves.
            raise RestError(
                503, BROKER_NOT_AVAILABLE, "This node is still starting; /readyz shows its progress."
            )
        if route.reads_records:
            timeout_s = WAITING_SHARE * deadline.remaining_s
            async with self.records.reads.slot(origin.share, timeout_s) as should_end:
                return await self._ask_cluster(route, rest_request, deadline, origin, should_end)
        return await self._ask_cluster(route, rest_request, deadline, origin)

    def _producing_caller(self, caller: Caller) -> Caller:
        """Return the caller whose producer sends the records of this caller.

        Without an authorizer, callers with the same principal share a producer and its batches, whatever
        their address.
        """
        return caller if self._has_authorizer else Caller(caller.principal, "127.0.0.1", is_local=False)

    async def _ask_cluster(
        self,
        route: Route,
        rest_request: RestRequest,
        deadline: Deadline,
        origin: "_Origin",
        should_end: Callable[[], bool] = lambda: False,
    ) -> Answer:
        # Not lent while the answer is read: slow readers would keep clients from other requests.
        async with self.clients.lend(origin.caller, deadline, origin.share) as client:
            cluster_id = rest_request.path.get("cluster_id", self.facts.cluster_id)
            if cluster_id != self.facts.cluster_id:
                raise not_found(f"Cluster {cluster_id[:100]} cannot be found.")
            context = self._context(client.until(deadline), deadline, origin, should_end)
            return await _within(deadline, route.handler(context, rest_request))

    def _context(
        self,
        client: Any,
        deadline: Deadline,
        origin: "_Origin",
        should_end: Callable[[], bool] = lambda: False,
    ) -> RestContext:
        # Only routes with `uses_cluster` touch the client.
        return RestContext(
            client=client,
            facts=self.facts,
            own_client=partial(self.clients.own, origin.caller),
            records=self.records,
            consumers=self.consumers,
            sender=partial(self.records.sender, self._producing_caller(origin.caller)),
            deadline=deadline,
            request_max_bytes=self._request_max_bytes,
            caller=origin.caller,
            session=origin.identity.session,
            authentication=self._authentication,
            has_tls=origin.has_tls,
            address=origin.address,
            share=origin.share,
            should_end=should_end,
            stopping=self.stopping,
        )


class _Origin(NamedTuple):
    """The origin of a request: its caller as brokers see it, the proof of its login, and its address."""

    caller: Caller
    identity: Identity
    address: str
    has_tls: bool

    @property
    def share(self) -> str:
        """Return the key of its share of the slots: the principal of a user, or the address."""
        return self.address if self.caller.principal == ANONYMOUS else self.caller.principal


async def _within(deadline: Deadline, handling: Awaitable[Answer]) -> Answer:
    """Await the answer of a handler; RestError 503 if it has not ended shortly after its deadline."""
    try:
        async with asyncio.timeout(deadline.remaining_s + OVERTIME_S):
            return await handling
    except TimeoutError:
        raise RestError(
            503, BROKER_NOT_AVAILABLE, f"The cluster did not answer within {deadline.given_s:g} s."
        ) from None


def _connection_of(request: web.Request) -> HttpConnection:
    connection = request.protocol
    assert isinstance(connection, HttpConnection)
    return connection
