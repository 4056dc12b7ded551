"""Dispatches each frame to its handler, and encodes the response: one table of routes.

Requests that are not in `served_apis` are neither advertised nor answered: unknown keys, versions and bytes
that cannot be parsed close the connection, as in Apache Kafka. Handlers and codecs are loaded when they are
first needed, the usual ones before a node serves clients.
"""

import asyncio
import logging
import struct
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.schema_compiler import encoder
from ottla.logstore.words.schema_decode import MAX_ELEMENTS, FieldTooLong, TooManyElements
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import ScramCredential, ScramKey
from ottla.metadata_raft.scram import ScramMechanism
from ottla.node.audit.audit_log import AuditLog
from ottla.node.authorization.access import AccessDenied
from ottla.node.clock import monotonic_s, thread_cpu_s
from ottla.node.counters.refused_requests import RefusedRequests
from ottla.node.counters.request_counters import (
    SAMPLE_EVERY,
    SAMPLE_MASK,
    AllRequestCounters,
    RequestCounters,
)
from ottla.node.kafka_api import api_versions, refusals
from ottla.node.kafka_api.audited_changes import AuditedChanges
from ottla.node.kafka_api.charged_results import (
    Written,
    charged,
    with_throttle_time,
    with_throttle_time_in_body,
)
from ottla.node.kafka_api.peer_proofs import PeerProofs
from ottla.node.kafka_api.request_charge import RequestCharge
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.request_decoders import OLD_IDS_MAX_BYTES, old_ids_decoder
from ottla.node.kafka_api.routes import Route, make_route
from ottla.node.kafka_api.served_apis import (
    PROOFS,
    SERVED,
    Served,
    is_advertised,
    is_served_early,
)
from ottla.node.net.act_for import ActingSecrets
from ottla.node.net.answers import (
    Answer,
    BuiltInThread,
    CloseConnection,
    Delayed,
    EncodedBody,
    Pending,
    Result,
    Run,
    Service,
)
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.connection import Connection
from ottla.node.net.connection_info import NO_PEER
from ottla.node.net.file_pipe import Piece
from ottla.node.net.peer_handshake import PeerGate
from ottla.node.node_state import NodeState
from ottla.node.quota.client_quotas import ClientQuotas
from ottla.node.quota.rate import Windows
from ottla.node.security.administrators import Administrators
from ottla.node.services import QuorumServices, Services
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.headers import CLIENT_ID, decode_client_id
from ottla.node.wire.messages.api_versions import ApiVersionsResponse
from ottla.node.wire.peer_api import FIRST_PEER_API, api_of
from ottla.node.work.large_requests import LargeRequests, Room
from ottla.node.work.turns import SerialExecutor, take_apart, take_turns

_RUN_HEADER = struct.Struct(">ihh")  # size, api_key, api_version
_HEADER = struct.Struct(">hhi")  # api_key, api_version, correlation_id: in every version of the header
_PREFIX = struct.Struct(">ii")  # size, correlation_id

# A request with more elements is decoded and answered off the loop, in turns with others. Decoding this
# many takes some 5 ms; the usual requests of clients have fewer.
SMALL_REQUEST_ELEMENTS = 4_096
# The limit if each name must be authorized, which takes some 25 us for the first time. Requests of several
# clients may fall into one turn of the loop.
AUTHORIZED_REQUEST_ELEMENTS = 256
# The requests that clients and followers send to a node all at once when it has restarted.
USUAL = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.LIST_OFFSETS)

# These APIs create and delete partitions, which counts for the quotas of mutations.
MUTATING_APIS = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS})

log = logging.getLogger(__name__)


class Read(NamedTuple):
    """A decoded request, with the data needed to answer it."""

    route: Route
    version: int
    correlation_id: int
    request: Any


class Dispatcher:
    """Serves the frames of all connections of one broker."""

    def __init__(
        self,
        state: NodeState,
        *,
        served_apis: Served = SERVED,
        large_requests: LargeRequests | None = None,
        peer_gate: PeerGate | None = None,
        quotas: ClientQuotas | None = None,
        audit: AuditLog | None = None,
        acting: ActingSecrets | None = None,
    ) -> None:
        """`peer_gate` is None if no node can prove its identity, `acting` if none can act for its callers."""
        self._state = state
        self._lines = ClientLines(log)
        self._audit = AuditLog() if audit is None else audit
        self._served_apis = served_apis
        self._large_requests = LargeRequests() if large_requests is None else large_requests
        self._peer_gate = peer_gate
        self._proofs = PeerProofs(state, gate=peer_gate, acting=acting, audit=self._audit, lines=self._lines)
        self._quorum_services: QuorumServices | None = None
        self._services: Services | None = None
        self.routes: dict[tuple[int, int], Route] = {}
        # Requests that clients sent before the node serves them; None once it does.
        self._held: list[asyncio.Future[None]] | None = []
        # Logins of nodes that came before this node knew the users of the cluster; None once it does.
        self._held_logins: list[asyncio.Future[None]] | None = []
        self._executor = SerialExecutor()
        self._peer_executor = SerialExecutor()  # requests of other nodes do not wait behind those of clients
        self.counters = AllRequestCounters()
        self.refused = RefusedRequests()
        self.quotas = quotas or ClientQuotas(Windows(), Windows(), lambda: int(monotonic_s() * 1_000))
        self.service = Service(serve=self.serve, serve_run=self.serve_run, fail=self.fail)

    def serve(self, connection: Connection, frame: memoryview) -> Answer | Pending:
        """Return the answer to one request; raise CloseConnection if this node does not serve it."""
        try:
            api_key, version, correlation_id = _HEADER.unpack_from(frame)
        except struct.error:
            raise CloseConnection(f"a frame of {len(frame)} bytes has no request header") from None
        if self._held is not None and not is_served_early(api_key):
            return self._hold(connection, frame)
        route = self.routes.get((api_key, version))
        if route is None:
            if api_key == ApiKey.API_VERSIONS and not is_advertised(SERVED, ApiKey.API_VERSIONS, version):
                return _refuse_api_versions(correlation_id)
            try:
                route = self.load_route(api_key, version)
            except CloseConnection:
                self.refused.add(connection.info.software_name, api_key, version)
                raise
        counters, repeated = route.counters, route.repeated
        counters.requests = count = counters.requests + 1
        if repeated is not None and not (
            self.quotas.count_produce and self._has_quota(connection, route, frame)
        ):
            began_s = 0.0 if count & SAMPLE_MASK else monotonic_s()
            known = repeated.serve(frame, correlation_id, connection.info)
            if type(known) is bytes:
                if began_s:
                    counters.latency.observe(monotonic_s() - began_s, SAMPLE_EVERY)
                return [known]
            if type(known) is Pending:
                return known
            if known is not None:
                return self._answer(route, correlation_id, known, counters, began_s, SAMPLE_EVERY)
        began_s = monotonic_s()
        began_cpu_s = thread_cpu_s() if self.quotas.are_set else 0.0
        if api_key >= FIRST_PEER_API:
            self._proofs.check(connection, api_key)
        if route.follower_counters is not None and connection.info.peer_id != NO_PEER:
            counters = route.follower_counters
            counters.requests += 1
        client_id: str | None = None  # one that is too long counts as none
        try:
            client_id, position = decode_client_id(
                frame, _HEADER.size, header_version=route.header_version, limit=CLIENT_ID
            )
            if len(frame) > route.small_bytes:
                raise TooManyElements(ErrorCode.INVALID_REQUEST, f"a frame of {len(frame)} bytes")
            is_open = connection.info.access.is_open
            max_elements = SMALL_REQUEST_ELEMENTS if is_open else AUTHORIZED_REQUEST_ELEMENTS
            request, _ = route.decode(frame, position, max_elements)
        except TooManyElements as error:
            if api_key in PROOFS:
                raise _unreadable(api_key, version, error) from None
            context = RequestContext(
                api_key, version, correlation_id, client_id, connection.info, True, counters
            )
            return self._serve_beside(route, context, connection, frame, position, began_cpu_s)
        except FieldTooLong as error:
            read = _read_old_ids(route, api_key, version, frame)
            if read is None:
                charge = self._charge_of(connection, api_key, client_id, frame, began_cpu_s)
                if charge is not None:
                    return self._refuse_charged(route, api_key, frame, error, charge)
                return self._refuse(route, api_key, frame, error)
            client_id, request = read
        except KafkaError as error:
            raise _unreadable(api_key, version, error) from None
        if api_key in PROOFS:
            proven = self._proofs.prove(connection, api_key, request)
            return self._answer(route, correlation_id, proven, counters, began_s)
        context = RequestContext(
            api_key, version, correlation_id, client_id, connection.info, False, counters
        )
        charge = None
        if self.quotas.are_set:
            context.charge = charge = self._charge_of(connection, api_key, client_id, frame, began_cpu_s)
        if route.of_cluster and not self._administrators.allows(connection.info, *route.of_cluster):
            work: Coroutine[Any, Any, Answer | Pending] = self._ask_first(
                route, context, frame, request, counters, began_s
            )
            return Pending(work if charge is None else charge.steps(work), _as_it_is)
        try:
            if charge is None:
                result = self._handle(route, context, request)
            else:
                result = charge.run(partial(self._handle, route, context, request))
        except AccessDenied as error:
            return self._refuse(route, api_key, frame, error, charge)
        # A client that is rejected gets a response of another type.
        if type(result) is EncodedBody and api_key == ApiKey.API_VERSIONS and request.client_software_name:
            connection.info = replace(
                connection.info,
                software_name=request.client_software_name,
                software_version=request.client_software_version,
            )
        if repeated is not None:
            repeated.learn(frame, position, context, request, result, route.prefix_bytes)
        if charge is not None:
            result = charged(result, charge, self._written(route, version, counters))
        return self._answer(route, correlation_id, result, counters, began_s)

    def serve_run(self, connection: Connection, view: memoryview, position: int, end: int) -> Run | None:
        """Serve the first requests in `view` at once, if they begin alike and need no decoding."""
        if self._held is not None or end - position < _RUN_HEADER.size:
            return None
        _, api_key, version = _RUN_HEADER.unpack_from(view, position)
        route = self.routes.get((api_key, version))
        if route is None or route.repeated is None:
            return None
        if self.quotas.count_produce and self._has_quota(connection, route, view[position + 4 : end]):
            return None
        return route.repeated.serve_run(view, position, end, connection.info.access)

    def _has_quota(self, connection: Connection, route: Route, frame: memoryview) -> bool:
        """Return True if the bytes of this request count for a quota: then the general path serves it."""
        try:
            client_id, _ = decode_client_id(
                frame, _HEADER.size, header_version=route.header_version, limit=CLIENT_ID
            )
        except KafkaError:
            return True  # the general path reports the error
        return self.quotas.has_produce_quota(connection.info.access.principal, client_id)

    def _charge_of(
        self,
        connection: Connection,
        api_key: int,
        client_id: str | None,
        frame: memoryview,
        began_cpu_s: float,
    ) -> RequestCharge | None:
        """Return the charge of a request; None if its client has no quota that the request counts for."""
        info, quotas = connection.info, self.quotas
        if info.peer_id != NO_PEER or not quotas.are_set:
            return None
        principal, is_produce = info.access.principal, api_key == ApiKey.PRODUCE
        counts = (
            quotas.requests.has(principal, client_id)
            or (is_produce and quotas.produced.has(principal, client_id))
            or (api_key == ApiKey.FETCH and quotas.fetched.has(principal, client_id))
            or (api_key in MUTATING_APIS and quotas.mutations.has(principal, client_id))
        )
        if not counts:
            return None
        charge = RequestCharge(quotas, connection, api_key, client_id)
        charge.meter.add(thread_cpu_s() - began_cpu_s)
        if is_produce:
            charge.count_produced(len(frame) + 4)
        return charge

    def _written(self, route: Route, version: int, counters: RequestCounters) -> Written:
        return Written(
            route.response_class,
            version,
            route.encode,
            route.has_error_code,
            counters,
            self._executor,
        )

    # ---- logins of clients ---------------------------------------------------------------------------

    def read(self, frame: memoryview) -> Read:
        """Read and count one small request; raise CloseConnection if it cannot be read."""
        route, version, correlation_id = self._route_of(frame)
        route.counters.requests += 1
        api_key = _HEADER.unpack_from(frame)[0]
        try:
            _, position = decode_client_id(
                frame, _HEADER.size, header_version=route.header_version, limit=CLIENT_ID
            )
            request, _ = route.decode(frame, position, SMALL_REQUEST_ELEMENTS)
        except KafkaError as error:
            raise _unreadable(api_key, version, error) from None
        return Read(route, version, correlation_id, request)

    def answer(self, read: Read, response: Any) -> Answer:
        """Return the answer to a request that `read` has returned, with this response."""
        answer = self._answer(read.route, read.correlation_id, response, read.route.counters, 0.0)
        return cast(Answer, answer)

    def refuse(self, frame: memoryview, error: KafkaError) -> Answer | Pending:
        """Return the answer with an error to a request that is not handled."""
        route, _, _ = self._route_of(frame)
        return self._refuse(route, _HEADER.unpack_from(frame)[0], frame, error)

    def _route_of(self, frame: memoryview) -> tuple[Route, int, int]:
        api_key, version, correlation_id = _HEADER.unpack_from(frame)
        if api_key >= FIRST_PEER_API:
            raise CloseConnection(f"API key {api_key} is not supported")
        route = self.routes.get((api_key, version)) or self.load_route(api_key, version)
        return route, version, correlation_id

    def wait_for_logins(self, listener_name: str) -> "asyncio.Future[None] | None":
        """Return a future that is done when a listener has its credentials; None if it has them.

        Nodes log in before clients are served: they need each other's metadata to start.
        """
        is_for_peers = listener_name == self._state.config.inter_broker_listener_name
        held = self._held_logins if is_for_peers and self._peer_gate is not None else self._held
        if held is None:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held.append(future)
        return future

    def scram_credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return a user's credential from the metadata on this node; None if there is no such user."""
        return self.scram_credentials().get(ScramKey(user, mechanism))

    def scram_credentials(self) -> Mapping[ScramKey, ScramCredential]:
        """Return the credentials from the metadata on this node; the mapping is immutable."""
        services = self._services or self._quorum_services
        assert services is not None, "logins wait until the metadata are loaded"
        return services.metadata.image.scram_credentials

    def serve_peers(self, services: QuorumServices) -> None:
        """Serve only peers until `serve_clients`; one request per client connection waits."""
        self._quorum_services = services

    def serve_logins_of_peers(self) -> None:
        """Let nodes log in: the metadata on this node, with the users of the cluster, have caught up."""
        held, self._held_logins = self._held_logins or [], None
        _release(held)

    def load(self, services: Services) -> None:
        """Load the routes that every client and follower needs, which takes some 50 ms, once."""
        self._services = services
        for api in USUAL:
            if api in self._served_apis:
                self.load_route(api, SERVED[api][1])

    def serve_clients(self) -> None:
        """Serve clients, too."""
        held, self._held = self._held or [], None
        _release(held)

    def _hold(self, connection: Connection, frame: memoryview) -> Pending:
        assert self._held is not None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.append(future)
        return Pending(future, lambda _: self.serve(connection, frame))

    @property
    def _administrators(self) -> Administrators:
        assert self._services is not None, "clients wait until the services exist"
        return self._services.administrators

    def _handle(self, route: Route, context: RequestContext, request: object) -> Result[object]:
        """Return the result of a request's handler, wrapped so that the audit log gets its changes."""
        audited = self._audited_changes(route, context, request)
        result: Result[object] = route.handle(route.services, context, request)
        return result if audited is None else audited.wrap(result)

    def _audited_changes(
        self, route: Route, context: RequestContext, request: object
    ) -> AuditedChanges | None:
        """Return the object that logs the changes of a request; None if it makes none or a node sent it."""
        if route.changes is None or context.connection.peer_id != NO_PEER:
            return None
        if route.may_be_change is not None and not (
            self._audit.takes_changes and route.may_be_change(request)
        ):
            return None
        return AuditedChanges(self._audit, route.changes, context, request, route.response_class)

    async def _check_of_cluster(self, context: RequestContext, operations: Sequence[AclOperation]) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the client has one of these rights on the cluster."""
        await self._administrators.check(
            context.connection, *operations, access=context.access, api=context.api_name
        )

    async def _ask_first(
        self,
        route: Route,
        context: RequestContext,
        frame: memoryview,
        request: Any,
        counters: RequestCounters,
        began_s: float,
    ) -> Answer | Pending:
        """Handle or reject a request whose client's rights must be looked up first."""
        try:
            await self._check_of_cluster(context, route.of_cluster)
        except KafkaError as error:
            return self._refuse(route, context.api_key, frame, error, context.charge)
        result = self._handle(route, context, request)
        if context.charge is not None:
            result = charged(result, context.charge, self._written(route, context.api_version, counters))
        return self._answer(route, context.correlation_id, result, counters, began_s)

    def _serve_beside(
        self,
        route: Route,
        context: RequestContext,
        connection: Connection,
        frame: memoryview,
        position: int,
        began_cpu_s: float,
    ) -> Pending:
        """Serve a request off the loop; its body begins at `position`."""
        # The request of a node is carried out even if the connection ends.
        ends_with_client = route.description.changes_nothing and connection.info.peer_id == NO_PEER
        counters = cast(RequestCounters, context.counters)
        serving: Coroutine[Any, Any, Answer] = self._serve_in_room(route, context, frame, position, counters)
        context.charge = charge = self._charge_of(
            connection, context.api_key, context.client_id, frame, began_cpu_s
        )
        if charge is not None:
            serving = charge.steps(serving)
        return Pending(serving, _as_it_is, ends_with_client=ends_with_client)

    async def _serve_in_room(
        self,
        route: Route,
        context: RequestContext,
        frame: memoryview,
        position: int,
        counters: RequestCounters,
    ) -> Answer:
        """Serve a large request when there is memory for it; requests of other nodes do not wait."""
        if context.connection.peer_id != NO_PEER:
            return await self._serve_large(route, context, frame, position, counters, None)
        room = await self._large_requests.enter(len(frame))
        try:
            return await self._serve_large(route, context, frame, position, counters, room)
        finally:
            room.leave()

    async def _serve_large(
        self,
        route: Route,
        context: RequestContext,
        frame: memoryview,
        position: int,
        counters: RequestCounters,
        room: Room | None,
    ) -> Answer:
        """Decode, answer and free a large request off the loop, each of which would block it."""
        began_s = monotonic_s()
        if route.of_cluster:
            try:
                await self._check_of_cluster(context, route.of_cluster)
            except KafkaError as error:
                return await self._refuse_large(route, context, frame, error)
        is_peer = context.connection.peer_id != NO_PEER
        executor = self._peer_executor if is_peer else self._executor
        max_elements = MAX_ELEMENTS if is_peer else route.description.limits.elements
        try:
            request, _ = await executor.run(lambda: route.decode(frame, position, max_elements))
        except (FieldTooLong, TooManyElements) as error:
            if type(error) is TooManyElements:
                error = TooManyElements(route.description.limits.too_many, error.detail)
            return await self._refuse_large(route, context, frame, error)
        except KafkaError as error:
            raise _unreadable(context.api_key, context.api_version, error) from None
        pieces = [request]
        try:
            return await self._serve_read(
                route, context, frame, request, counters, executor, pieces, began_s, room
            )
        finally:
            del request
            # Freeing so many objects takes as long as creating them.
            await executor.run(lambda: take_apart(pieces))
            if context.charge is not None:
                context.charge.decide()  # for a request that failed
                context.charge.settle()

    async def _refuse_large(
        self, route: Route, context: RequestContext, frame: memoryview, error: KafkaError
    ) -> Answer:
        refused = self._refuse(route, context.api_key, frame, error, context.charge)
        if type(refused) is Pending:
            answer: Answer = await refused.awaitable
            return answer
        return cast(Answer, refused)

    async def _serve_read(
        self,
        route: Route,
        context: RequestContext,
        frame: memoryview,
        request: Any,
        counters: RequestCounters,
        executor: SerialExecutor,
        pieces: list[Any],
        began_s: float,
        room: Room | None,
    ) -> Answer:
        """Return the answer to a large decoded request; adds to `pieces` the objects to free after it."""
        charge, changes = context.charge, self._audited_changes(route, context, request)
        try:
            result = route.handle(route.services, context, request)
        except AccessDenied as error:
            return await self._refuse_large(route, context, frame, error)
        del request
        try:
            while type(result) is not route.response_class:
                if result is None:
                    if charge is not None:
                        charge.decide(is_answered=False)
                    return None
                if isinstance(result, Delayed):
                    if room is not None:
                        room.leave()  # It may wait for long, and other requests must not wait for it.
                    result = result.answer(await result.future)
                elif isinstance(result, BuiltInThread):
                    result = await executor.run(result.make)
                elif isinstance(result, EncodedBody):
                    break
                else:
                    result = await cast("Awaitable[Any]", result)
        except KafkaError as error:
            if changes is not None:
                changes.failed(error)
            raise
        response: Any = result
        if changes is not None:
            await take_turns(changes.steps(response))
        prefix = bytearray(route.prefix_bytes)
        if isinstance(response, EncodedBody):
            if charge is not None:
                response = with_throttle_time_in_body(
                    response, charge.decide(), route.response_class, context.api_version
                )
            buffers = [prefix, *response.buffers]
        else:
            if charge is not None:
                response = with_throttle_time(response, charge.decide())
            buffers = await executor.run(lambda: route.encode(response, prefix))
            if route.has_error_code and response.error_code:
                counters.count_error(response.error_code)
            pieces.append(response)
        counters.latency.observe(monotonic_s() - began_s)
        return _finish(buffers, context.correlation_id)

    def _refuse(
        self,
        route: Route,
        api_key: int,
        frame: memoryview,
        error: KafkaError,
        charge: RequestCharge | None = None,
    ) -> Answer | Pending:
        """Return the answer to a request that is rejected before anything was done."""
        throttle_ms = 0 if charge is None else charge.decide()
        api, (_, version, correlation_id) = api_of(api_key), _HEADER.unpack_from(frame)
        route.counters.count_error(error.code)

        def build(max_elements: int) -> list[Buffer]:
            if refusals.has_error_at_top(api, version):
                response = refusals.error_at_top(api, version, error)
            else:
                _, position = decode_client_id(frame, _HEADER.size, header_version=route.header_version)
                response = refusals.error_by_element(api, version, frame, position, error, max_elements)
            response = with_throttle_time(response, throttle_ms)
            buffers = route.encode(response, bytearray(route.prefix_bytes))
            pieces = [response]
            del response
            take_apart(pieces)
            return buffers

        async def build_in_thread() -> Answer:
            try:
                buffers = await self._executor.run(lambda: build(refusals.MAX_REPEATED_ELEMENTS))
            except KafkaError as fault:
                raise _unreadable(api_key, version, fault) from None
            return _finish(buffers, correlation_id)

        if len(frame) > refusals.MAX_REPEATED_BYTES and not refusals.has_error_at_top(api, version):
            return Pending(build_in_thread(), _as_it_is)
        try:
            return _finish(build(refusals.ELEMENTS_AT_ONCE), correlation_id)
        except TooManyElements:
            return Pending(build_in_thread(), _as_it_is)
        except KafkaError as fault:
            raise _unreadable(api_key, version, fault) from None

    def _refuse_charged(
        self, route: Route, api_key: int, frame: memoryview, error: KafkaError, charge: RequestCharge
    ) -> Answer | Pending:
        """Reject a request as `_refuse` does; the time spent on the answer counts for the next request."""
        refused = charge.meter.run(lambda: self._refuse(route, api_key, frame, error, charge))
        if type(refused) is Pending:

            async def waited() -> Answer:
                answer: Answer = await refused.awaitable
                charge.settle()
                return answer

            return Pending(charge.steps(waited()), _as_it_is)
        charge.settle()
        return refused

    def _answer(
        self,
        route: Route,
        correlation_id: int,
        result: Result[Any],
        counters: RequestCounters,
        began_s: float,
        weight: int = 1,
    ) -> Answer | Pending:
        """Return the answer with this result.

        If it is complete at once, its latency counts `weight` times, or not at all if `began_s` is 0; if it
        has to be waited for, it is always timed.
        """
        if type(result) is route.response_class:
            response: Any = result
            if route.has_error_code and response.error_code:
                counters.count_error(response.error_code)
            buffers = route.encode(response, bytearray(route.prefix_bytes))
            if began_s:
                counters.latency.observe(monotonic_s() - began_s, weight)
            return _finish(buffers, correlation_id)
        if result is None:
            return None
        if type(result) is EncodedBody:
            if began_s:
                counters.latency.observe(monotonic_s() - began_s, weight)
            return _finish([bytearray(route.prefix_bytes), *result.buffers], correlation_id)
        began_s = began_s or monotonic_s()
        if type(result) is Delayed:
            build = result.answer
            return Pending(
                result.future,
                lambda outcome: self._answer(route, correlation_id, build(outcome), counters, began_s),
                result.is_carried_out,
                result.release,
                result.keeps_nothing,
                result.ends_with_client,
            )
        if type(result) is BuiltInThread:
            make = result.make

            def finish(buffers: list[Buffer]) -> Answer:
                counters.latency.observe(monotonic_s() - began_s)
                return _finish(buffers, correlation_id)

            work = self._executor.run(lambda: route.encode(make(), bytearray(route.prefix_bytes)))
            return Pending(work, finish)
        assert isinstance(result, Awaitable), f"a handler returned {type(result).__name__}"
        return Pending(
            result, lambda outcome: self._answer(route, correlation_id, outcome, counters, began_s)
        )

    def load_route(self, api_key: int, version: int) -> Route:
        """Load the route of a version of an API; raise CloseConnection if it is not served."""
        route = self.routes[api_key, version] = make_route(
            api_key,
            version,
            served=self._served_apis,
            quorum_services=self._quorum_services,
            services=self._services,
            counters=self.counters,
        )
        return route

    def fail(self, connection: Connection, frame: memoryview, error: BaseException) -> Answer:
        """Return the answer to a request whose handler raised: the error code, if there is a field for it."""
        api_key, version, correlation_id = _HEADER.unpack_from(frame)
        name = api_of(api_key).api_name
        if isinstance(error, KafkaError):
            code = error.code
            # Many responses have a field for the code only.
            log.debug(
                "%s v%d of %s was rejected with %s: %s",
                name,
                version,
                connection.info.connection_id,
                code.name,
                error.detail,
            )
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._lines.log(
                logging.ERROR,
                connection.info.client_host,
                "%s v%d of %s failed.",
                name,
                version,
                connection.info.connection_id,
                error=error,
            )
        route = self.routes.get((api_key, version))
        if route is not None:
            route.counters.count_error(code)
        if route is None or not route.has_error_code:
            raise CloseConnection(f"{name} failed ({code.name}), and its response has no field for an error")
        response = route.response_class(error_code=int(code))
        return _finish(route.encode(response, bytearray(route.prefix_bytes)), correlation_id)


def _unreadable(api_key: int, version: int, error: KafkaError) -> CloseConnection:
    name = api_of(api_key).api_name
    return CloseConnection(f"{name} of version {version} cannot be parsed: {error.detail}")


def _read_old_ids(
    route: Route, api_key: int, version: int, frame: memoryview
) -> tuple[str | None, Any] | None:
    """Return client id and request if it may name ids older than their limit; otherwise None."""
    if not route.description.old_ids or len(frame) > OLD_IDS_MAX_BYTES:
        return None
    try:
        client_id, position = decode_client_id(
            frame, _HEADER.size, header_version=route.header_version, limit=CLIENT_ID
        )
        decode = old_ids_decoder(ApiKey(api_key), version)
        return client_id, decode(frame, position, SMALL_REQUEST_ELEMENTS)[0]
    except KafkaError:
        return None  # another field is too long, or the request cannot be parsed


def _release(held: Sequence["asyncio.Future[None]"]) -> None:
    for future in held:
        if not future.done():
            future.set_result(None)


def _as_it_is(answer: Answer) -> Answer:
    return answer


def _refuse_api_versions(correlation_id: int) -> Answer:
    """Return the response to an unknown version of ApiVersions: version 0, with the known ones (KIP-511)."""
    response = api_versions.unsupported_version()
    return _finish(encoder(ApiVersionsResponse, 0)(response, bytearray(8)), correlation_id)


def _finish(buffers: list[Buffer], correlation_id: int) -> list[Piece]:
    """Write size and correlation id into the prefix that the first buffer starts with.

    A buffer of records may be `FileRecords`: to an encoder only their length matters.
    """
    size = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
    _PREFIX.pack_into(buffers[0], 0, size - 4, correlation_id)
    return cast("list[Piece]", buffers)
