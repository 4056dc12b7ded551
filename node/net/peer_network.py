"""The connections of this node to others of its cluster: proven by handshake, kept, and replaced when lost.

There is one for each peer and purpose, so that a long poll does not delay requests with another purpose. Host
names are resolved at every dial. A peer that cannot be reached is dialled again after a back-off with jitter,
which doubles each time up to a limit; requests in the meantime wait for that dial and share its outcome.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import SASL_PLAINTEXT, SASL_SSL, SSL, Endpoint
from ottla.metadata_raft.peer_certificate import check_certificate_names
from ottla.node.net.peer_client import PeerClient
from ottla.node.net.peer_handshake import NONCE_BYTES, PeerGate, PeerIdentity, hello, prove
from ottla.node.net.server_tls import DialTls
from ottla.node.secure_client.client_security import SaslLogin
from ottla.node.wire.messages.peer_handshake import PeerHandshakeResponse
from ottla.node.wire.peer_api import PeerApi

DIAL_TIMEOUT_S: Final = 5.0  # for a connection and its handshake; even on a busy machine a peer needs less
PROBE_TIMEOUT_S: Final = 0.5
FIRST_BACKOFF_S: Final = 0.05
MAX_BACKOFF_S: Final = 1.0
CLIENT_ID: Final = "ottla-node-{}"

R = TypeVar("R")


class EndedConnection(NamedTuple):
    """A connection of this node to another that has ended, and its purpose."""

    node_id: int
    purpose: str


class ControllerDoor(NamedTuple):
    """The way to dial nodes that are only controllers; see `tls` and `login` of a `PeerNetwork`."""

    is_controller_only: Callable[[int], bool]  # returns True if a node is only a controller
    tls: Callable[[], DialTls] | None
    login: Callable[[], SaslLogin | None]


class _Peer:
    """The state of dialling one peer for one purpose."""

    __slots__ = ("client", "dials", "failure", "failures", "retry_at", "turn")

    def __init__(self) -> None:
        self.client: PeerClient | None = None
        self.dials = 0  # that have ended
        self.failure: KafkaError | None = None  # of the last dial
        self.turn = asyncio.Lock()
        self.failures = 0
        self.retry_at = 0.0  # by the loop's clock


class PeerNetwork:
    """All connections that this node opened to peers; `endpoint_of` returns the present address of a node."""

    def __init__(
        self,
        *,
        gate: PeerGate | None,
        node_id: int,
        endpoint_of: Callable[[int], Endpoint | None],
        chance: random.Random,
        on_lost: Callable[[EndedConnection], None] = lambda ended: None,
        tls: Callable[[], DialTls] | None = None,
        login: Callable[[], SaslLogin | None] = lambda: None,
        controllers: ControllerDoor | None = None,
    ) -> None:
        """`on_lost` is called for each connection that ends.

        `tls` returns the context to dial nodes whose listener has TLS, and `login` the user for nodes whose
        listener has SASL, both as of now; `controllers` has the equivalents for nodes that are only
        controllers.
        """
        self._gate = gate
        self._client_id = CLIENT_ID.format(node_id)
        self._endpoint_of = endpoint_of
        self._chance = chance
        self._on_lost = on_lost
        self._tls = tls
        self._login = login
        self._controllers = controllers
        self._peers: dict[tuple[int, str], _Peer] = {}
        self._broker_epochs: dict[int, int] = {}
        self._is_closed = False

    async def client(self, node_id: int, purpose: str = "") -> PeerClient:
        """Return an open connection to a node; NETWORK_EXCEPTION, or the error of its handshake."""
        peer = self._peers.get((node_id, purpose))
        if peer is None:
            peer = self._peers[node_id, purpose] = _Peer()
        if peer.client is not None and peer.client.is_open:
            return peer.client  # open already: no dial
        dials = peer.dials
        async with peer.turn:
            if peer.client is not None and peer.client.is_open:
                return peer.client
            if peer.dials > dials and peer.failure is not None:
                raise KafkaError(peer.failure.code, peer.failure.detail)
            if self._is_closed:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "This node is shutting down.")
            loop = asyncio.get_running_loop()
            if peer.client is None and peer.retry_at > loop.time():
                await asyncio.sleep(peer.retry_at - loop.time())
            peer.client, peer.failure = None, None
            try:
                peer.client = await self._dial(node_id)
                peer.client.when_lost(partial(self._on_lost, EndedConnection(node_id, purpose)))
            except KafkaError as failure:
                peer.failures, peer.failure = peer.failures + 1, failure
                limit_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(peer.failures, 10))
                peer.retry_at = loop.time() + limit_s * (0.5 + self._chance.random() / 2)
                raise
            finally:
                peer.dials += 1
            peer.failures, peer.retry_at = 0, 0.0
            return peer.client

    async def ask(
        self, node_id: int, purpose: str, request: object, response_type: type[R], timeout_s: float
    ) -> R:
        """Return a node's answer, within `timeout_s` for the connection and the answer together.

        REQUEST_TIMED_OUT if it does not come in time; otherwise the errors of `client` and of its requests.
        """
        try:
            async with asyncio.timeout(timeout_s):
                client = await self.client(node_id, purpose)
                return await client.request(request, response_type, timeout_s=timeout_s)
        except TimeoutError:
            detail = f"Node {node_id} did not answer within {timeout_s:.3g} s."
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, detail) from None

    async def _dial(self, node_id: int) -> PeerClient:
        endpoint = self._endpoint_of(node_id)
        if node_id < 0:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The metadata quorum has no leader at the moment.")
        if endpoint is None:
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"The cluster metadata has no address for node {node_id}."
            )
        client, _ = await self.dial(endpoint, expected_node_id=node_id)
        return client

    async def dial(
        self, endpoint: Endpoint, *, expected_node_id: int = -1
    ) -> tuple[PeerClient, PeerIdentity]:
        """Return a new, proven connection and the identity of the other end; the caller closes it."""
        gate = self._gate
        if gate is None:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This node has no cluster.secret.")
        tls: DialTls | None = None
        tls_of, login_of, door = self._tls, self._login, self._controllers
        if door is not None and door.is_controller_only(expected_node_id):
            tls_of, login_of = door.tls, door.login
        if endpoint.security_protocol in (SSL, SASL_SSL):
            if tls_of is None:
                raise KafkaError(
                    ErrorCode.NETWORK_EXCEPTION,
                    f"Nodes reach {endpoint.host}:{endpoint.port} by TLS, but this node has no listener with "
                    "TLS whose keystore and truststore it could use for that.",
                )
            tls = tls_of()
        login = _login_at(endpoint, login_of)
        check_names, hosts = None, None
        if tls is not None and tls.checks_names:
            hosts = [] if tls.needs_node_id else [endpoint.host]
        if hosts is not None and expected_node_id >= 0:
            # Other holders of a certificate of that authority are no nodes, and must not learn a password.
            check_names = partial(check_certificate_names, node_id=expected_node_id, hosts=hosts)
        try:
            client = await PeerClient.connect(
                endpoint.host,
                endpoint.port,
                client_id=self._client_id,
                timeout_s=DIAL_TIMEOUT_S,
                tls=None if tls is None else tls.context,
                login=login,
                check_names=check_names,
            )
        except KafkaError as error:
            if login is None or error.code is ErrorCode.NETWORK_EXCEPTION:
                raise
            # A client of this node must not be led to think that its own login has failed.
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error.detail) from None
        try:
            return client, await _handshake(client, gate, expected_node_id, hosts)
        except BaseException:
            client.abort()
            raise

    def note_registration(self, node_id: int, broker_epoch: int) -> None:
        """Drop the connections to a node that has registered as another process: the old one will not answer.

        If a host lost its power, its connections are not closed, and requests would wait until they time out.
        """
        known = self._broker_epochs.get(node_id)
        self._broker_epochs[node_id] = broker_epoch
        if known in (None, broker_epoch):
            return
        for (other, _), peer in self._peers.items():
            if other == node_id and peer.client is not None:
                peer.client.abort()
                peer.client = None

    def has_connection(self, node_id: int) -> bool:
        """Return True if any connection to that node is open."""
        return any(
            peer.client is not None and peer.client.is_open
            for (other, _), peer in self._peers.items()
            if other == node_id
        )

    async def is_refused(self, node_id: int) -> bool:
        """Return True if a node's address refuses connections: its machine is up, its process is not."""
        endpoint = self._endpoint_of(node_id)
        if endpoint is None:
            return False
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                transport, _ = await loop.create_connection(asyncio.Protocol, endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            return False
        transport.abort()
        return False

    def close(self) -> None:
        """Abort all connections and open no more."""
        self._is_closed = True
        for peer in self._peers.values():
            if peer.client is not None:
                peer.client.abort()


def _login_at(endpoint: Endpoint, login_of: Callable[[], SaslLogin | None]) -> SaslLogin | None:
    """Return the user as which this node logs in there; None if no login is needed."""
    if endpoint.security_protocol not in (SASL_PLAINTEXT, SASL_SSL):
        return None
    login = login_of()
    if login is None:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Nodes log in at {endpoint.host}:{endpoint.port}, but this node has no user for that "
            "(sasl.mechanism.inter.broker.protocol, listener.name.NAME.MECHANISM.sasl.jaas.config).",
        )
    return login


async def _handshake(
    client: PeerClient, gate: PeerGate, expected_node_id: int, hosts: Sequence[str] | None
) -> PeerIdentity:
    """Prove this node to another, and return the other's identity.

    With `hosts` the certificate of the other must contain its node id or one of these hosts.
    """
    own, nonce = gate.identity(), gate.unique(NONCE_BYTES)
    client.learn_versions({int(PeerApi.PEER_HANDSHAKE): (0, 0)})
    response = await client.request(hello(own, nonce), PeerHandshakeResponse, timeout_s=DIAL_TIMEOUT_S)
    request, peer = prove(
        response, secret=gate.secret, own=own, nonce=nonce, expected_node_id=expected_node_id
    )
    if hosts is not None:
        check_certificate_names(client.certificate_names(), peer.node_id, hosts)
    proven = await client.request(request, PeerHandshakeResponse, timeout_s=DIAL_TIMEOUT_S)
    if proven.error_code:
        raise KafkaError(ErrorCode(proven.error_code), proven.error_message or "")
    client.learn_versions({one.api_key: (one.min_version, one.max_version) for one in proven.api_versions})
    return peer
