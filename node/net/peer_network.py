"""Connections of this node to the others of its cluster: proven by handshake, kept, and made anew when lost.

One for each peer and purpose, so that a long poll of one does not stand before requests of another.
Names are resolved at every dial. A peer that cannot be reached is dialled again after a back-off with jitter,
twice as long each time up to a limit; whoever asks meanwhile waits for that dial and shares its outcome.
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

DIAL_TIMEOUT_S: Final = 5.0  # for a connection and its handshake; a living peer on a full machine needs less
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
    """How to dial nodes that are only controllers; see `tls` and `login` of a `PeerNetwork`."""

    is_one: Callable[[int], bool]  # whether a node is only a controller
    tls: Callable[[], DialTls] | None
    login: Callable[[], SaslLogin | None]


class _Peer:
    """What there is to one peer for one purpose."""

    __slots__ = ("client", "dials", "failure", "failures", "retry_at", "turn")

    def __init__(self) -> None:
        self.client: PeerClient | None = None
        self.dials = 0  # that came to an end
        self.failure: KafkaError | None = None  # of the last of them
        self.turn = asyncio.Lock()
        self.failures = 0
        self.retry_at = 0.0  # by the loop's clock


class PeerNetwork:
    """All connections that this node opened to peers; `endpoint_of` says where a node is at present."""

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
        """`on_lost` is told of each connection that ends.

        `tls` gives by what nodes are dialled whose listener has TLS, `login` the user for those whose
        listener has SASL, both as of now; `controllers` the same for nodes that are only controllers.
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
        """An open connection to that node; NETWORK_EXCEPTION or what the handshake was refused with."""
        peer = self._peers.get((node_id, purpose))
        if peer is None:
            peer = self._peers[node_id, purpose] = _Peer()
        if peer.client is not None and peer.client.is_open:
            return peer.client  # nobody dials
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

        REQUEST_TIMED_OUT when it does not come in time; else a KafkaError as `client` and its requests raise.
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
        """A new connection, proven, and who is at its other end; the caller closes it."""
        gate = self._gate
        if gate is None:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This node has no cluster.secret.")
        tls: DialTls | None = None
        tls_of, login_of, door = self._tls, self._login, self._controllers
        if door is not None and door.is_one(expected_node_id):
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
            # Not everybody with a certificate of that authority is a node, who may be told a password.
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
            # Whoever asks this node for something is not to believe that his own login has failed.
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error.detail) from None
        try:
            return client, await _shake_hands(client, gate, expected_node_id, hosts)
        except BaseException:
            client.abort()
            raise

    def registered(self, node_id: int, broker_epoch: int) -> None:
        """A node has registered, perhaps as another process: what is asked of an earlier one has no answer.

        Where a host lost its power nobody ends its connections, and who waits would wait for a time-out.
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
        """Whether any connection to that node stands."""
        return any(
            peer.client is not None and peer.client.is_open
            for (other, _), peer in self._peers.items()
            if other == node_id
        )

    async def is_refused(self, node_id: int) -> bool:
        """Whether nobody listens where that node was: its machine is there, its process is not."""
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
        """Drop all connections and make no more."""
        self._is_closed = True
        for peer in self._peers.values():
            if peer.client is not None:
                peer.client.abort()


def _login_at(endpoint: Endpoint, login_of: Callable[[], SaslLogin | None]) -> SaslLogin | None:
    """Return by which user this node logs in there; None where nobody has to."""
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


async def _shake_hands(
    client: PeerClient, gate: PeerGate, expected_node_id: int, hosts: Sequence[str] | None
) -> PeerIdentity:
    """Prove this node to another, and return who that is.

    With `hosts` the certificate of the other must name it, or one of these.
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
