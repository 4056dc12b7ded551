"""Reads the state of the node for the REST API, whose thread is not the thread of the node's loop.

A question is a function of the `NodeView` that runs on the node's loop. It must be short, since it delays the
loop, and its result must not change afterwards.
"""

import asyncio
import concurrent.futures
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import SASL_PLAINTEXT, SASL_SSL, SSL, Endpoint
from ottla.metadata_raft.peer_certificate import is_named
from ottla.node.counters.rest_work import RestWork
from ottla.node.net import act_for
from ottla.node.net.act_for import Caller
from ottla.node.net.login import LoginCounts
from ottla.node.net.peer_client import PeerClient
from ottla.node.net.server_tls import DialTls, ServerTls
from ottla.node.node_state import NodeState
from ottla.node.node_view import NodeView
from ottla.node.security.access_token import VerifiedToken
from ottla.node.security.sasl.failed_logins import FailedLogins
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.services import Services
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.listener_settings import ANYWHERE
from ottla.node.settings.rest_security_settings import REST
from ottla.node.wire.messages.act_for import ActForResponse
from ottla.node.wire.peer_api import PeerApi

ANSWER_TIMEOUT_S: Final = 2.0  # an operator should know of a loop that is blocked for longer

T = TypeVar("T")


class Connect(Protocol):
    """A function that connects to a node."""

    def __call__(
        self, host: str, port: int, *, client_id: str, timeout_s: float
    ) -> Awaitable[PeerClient]: ...


class NodeFacts:
    """The access of the REST API to the node in whose process it runs."""

    def __init__(
        self,
        node: NodeView,
        node_loop: asyncio.AbstractEventLoop,
        rest_work: Callable[[], Sequence[RestWork]] = tuple,
    ) -> None:
        self.rest_work = rest_work  # of the REST API, by kind; may be called in any thread
        self._node = node
        self._node_loop = node_loop
        self._kept: dict[Callable[..., Any], Any] = {}

    @property
    def config(self) -> BrokerConfig:
        """The current settings."""
        return self._node.config

    @property
    def state(self) -> NodeState:
        """The few facts that change; may be read in any thread."""
        return self._node.state

    @property
    def services(self) -> Services:
        """The parts that serve clients; without `ask`, read only numbers and immutable objects."""
        return self._node.services

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def cluster_id(self) -> str:
        """The id of the cluster as Kafka writes it; that of 16 zero bytes until the node knows it."""
        return uuid_to_text(self._node.state.cluster_id)

    @property
    def is_serving(self) -> bool:
        """True while Kafka clients may connect: not while the node starts or stops."""
        return self._node.state.is_serving

    @property
    def cut_off_since_ms(self) -> int | None:
        """The time (ms) of the last contact to a leader of the quorum if this node is cut off, else None.

        It is right even if the node's loop hangs, because all loops of a process have the same clock.
        """
        return self._node.state.cut_off_since_ms

    @property
    def has_started(self) -> bool:
        """True once the node has served clients; also while it stops, when the other brokers still answer."""
        return self._node.state.has_started

    def rest_tls(self) -> ServerTls:
        """Return the current TLS of the REST API; call this only if it has an https address."""
        return self._node.listener_tls.current(REST)

    def keep(self, kind: "Callable[[NodeFacts], T]") -> T:
        """Return the one object of this class for this node, made on first use; only in the API's thread."""
        found: T | None = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = kind(self)
        return found

    def bootstrap(self) -> list[tuple[str, int]]:
        """Return the addresses of the cluster for a Kafka client: this broker's first, then the others'.

        Raise BROKER_NOT_AVAILABLE if this node is only a controller and knows no broker.
        """
        node = self._node
        own = next(one for one in node.listeners if one.name == node.config.inter_broker_listener_name)
        at = (own.host if own.host not in ANYWHERE else "127.0.0.1", own.port)
        found = {at: None} if node.config.is_broker else {}
        found |= dict.fromkeys(self._other_brokers())
        if not found:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                "This node is only a controller and knows no broker.",
            )
        return list(found)

    def _other_brokers(self) -> dict[tuple[str, int], Endpoint]:
        """Return the other brokers' endpoints for nodes, by address; none until clients are served here."""
        node = self._node
        if not node.state.is_serving:
            return {}
        name = node.config.inter_broker_listener_name
        found = (
            one.endpoint_for_peers(name) if not node.config.is_broker else one.listeners.get(name)
            for one in node.services.metadata.image.brokers.values()
            if one.broker_id != node.config.node_id
        )
        return {(one.host, one.port): one for one in found if one is not None}

    @property
    def false_credentials(self) -> FalseCredentials:
        """The credentials that passwords of unknown users are compared with; for any thread."""
        return self._node.rest.false_credentials

    @property
    def failed_logins(self) -> FailedLogins:
        """The failed logins of all addresses; for any thread."""
        return self._node.rest.failed_logins

    @property
    def logins(self) -> LoginCounts:
        """The counts of logins to the REST API; its thread increases them."""
        return self._node.rest.logins

    def login_counts(self) -> Mapping[str, int] | None:
        """Return the counts of logins to the REST API by name; None if it has no logins."""
        return self.logins.by_name() if self.config.rest_logins.methods else None

    def log_failed_login(self, user: str, address: str, mechanism: str, reason: str) -> None:
        """Report a failed login to the REST API; `user` is the name that the client gave."""
        self._node.rest.on_failed_login(user, address, REST, mechanism, reason)

    @property
    def failed_login_delay_s(self) -> float:
        """The minimum delay of the response to a failed login, in seconds."""
        return self.config.connection_failed_authentication_delay_ms / 1000

    @property
    def verify_token(self) -> Callable[[str], VerifiedToken] | None:
        """The verifier of access tokens, for any thread; None if the REST API accepts none."""
        return self._node.verify_token

    def unique(self, count: int) -> bytes:
        """Return `count` unpredictable bytes."""
        return self._node.rest.unique(count)

    async def allows(self, caller: Caller, operation: AclOperation) -> bool:
        """Return True if the caller has this right on the cluster."""
        if self.config.authorizer is None:
            return True
        return await self.ask(
            lambda node: node.rest.access_of(caller.principal, caller.host).allows_of_cluster(operation)
        )

    @property
    def dial_tls(self) -> ssl.SSLContext | None:
        """The TLS of connections between nodes; None if they have none."""
        node = self._node
        name = node.config.inter_broker_listener_name
        if name not in node.config.listener_security:
            return None
        return node.listener_tls.dialling(name).context

    def connect_for(self, caller: Caller) -> Connect:
        """Return a function that connects to nodes, and gives each connection the rights of this caller."""

        async def connect(host: str, port: int, *, client_id: str, timeout_s: float) -> PeerClient:
            client = await self._connect(host, port, client_id=client_id, timeout_s=timeout_s)
            try:
                await self._act_for(client, caller, timeout_s)
            except BaseException:
                client.abort()
                raise
            return client

        return connect

    async def _act_for(self, client: PeerClient, caller: Caller, timeout_s: float) -> None:
        acting = self._node.rest.acting
        client.learn_versions({int(PeerApi.ACT_FOR): (0, 0)})
        nonce = acting.unique(act_for.NONCE_BYTES)
        greeting = act_for.hello(acting, nonce)
        answer = await client.request(greeting, ActForResponse, timeout_s=timeout_s)
        request = act_for.act(answer, caller, nonce, acting)
        answer = await client.request(request, ActForResponse, timeout_s=timeout_s)
        if answer.error_code:
            raise act_for.refusal(answer)

    async def _connect(self, host: str, port: int, *, client_id: str, timeout_s: float) -> PeerClient:
        """Return a connection to the listener for nodes of this node or another.

        Raises as `PeerClient.connect`, and NETWORK_EXCEPTION if the certificate belongs to no node.
        """
        node = self._node
        tls: DialTls | None = None
        name, login = node.config.inter_broker_listener_name, node.rest.login()
        has_tls = name in node.config.listener_security
        if not node.config.is_broker and (broker := self._other_brokers().get((host, port))):
            # A controller lacks settings for the brokers' listener: it dials them by those for controllers.
            has_tls = has_tls and broker.security_protocol in (SSL, SASL_SSL)
            login = login if broker.security_protocol in (SASL_PLAINTEXT, SASL_SSL) else None
        if has_tls:
            tls = node.listener_tls.dialling(name)

        def check_names(names: frozenset[str]) -> None:
            node_ids = {node.config.node_id}
            if node.has_services:
                node_ids |= set(node.services.metadata.image.brokers)
            hosts = [] if tls is not None and tls.needs_node_id else [host]
            if not any(is_named(names, node_id, hosts) for node_id in node_ids):
                raise KafkaError(
                    ErrorCode.NETWORK_EXCEPTION,
                    f"the certificate at {host}:{port} was not issued for a node of the cluster",
                )

        client = await PeerClient.connect(
            host,
            port,
            client_id=client_id,
            timeout_s=timeout_s,
            tls=None if tls is None else tls.context,
            login=login,
            check_names=check_names if tls is not None and tls.checks_names else None,
        )
        client.stop_renewing_login()
        return client

    async def run(self, work: "Callable[[NodeView], Awaitable[T]]", *, timeout_s: float) -> T:
        """Run work that has to wait as a task of the node, and return its result.

        REQUEST_TIMED_OUT after `timeout_s`; the task then continues.
        """
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        async def run_work(node: NodeView) -> None:
            try:
                result = await work(node)
            except Exception as error:  # raised in the caller; the node goes on
                done.set_exception(error)
            else:
                done.set_result(result)

        await self.ask(lambda node: node.start_task(run_work(node)) and None, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(asyncio.wrap_future(done))
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"The node did not complete this within {timeout_s:g} s."
            ) from None

    async def ask(self, question: "Callable[[NodeView], T]", *, timeout_s: float = ANSWER_TIMEOUT_S) -> T:
        """Run a function on the node's loop, and return its result; REQUEST_TIMED_OUT if it gives none."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        own_loop = asyncio.get_running_loop()

        def settle(result: T | None, error: Exception | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result: T | None = None
            failure: Exception | None = None
            try:
                result = question(self._node)
            except Exception as error:  # raised in the caller
                failure = error
            try:
                own_loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:  # the REST API has ended meanwhile
                return

        try:
            self._node_loop.call_soon_threadsafe(run)
        except RuntimeError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The node has ended.") from None
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The event loop of the node did not answer within {timeout_s:g} s.",
            ) from None
