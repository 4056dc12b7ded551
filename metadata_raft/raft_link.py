"""The links between voters: both ends dial, and any open connection carries messages in both directions.

A host name is resolved at each dial, so that a voter that moved is found again. A connection that fails, or
is silent, is dialled again after a growing pause. A node that is not a voter may ask at the same listener for
the addresses of the voters' brokers; its connection is closed after the answer.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, cast

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.link_troubles import LinkTroubles, reason_of, sentence
from ottla.metadata_raft.peer_certificate import check_certificate_names
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_handshake import (
    LINK,
    NONCE_BYTES,
    QUESTION,
    LinkHello,
    LinkIdentity,
    LinkLogin,
    NodeEndpoint,
    answer,
    check_proof,
    hello,
    prove,
    read_hello,
    read_welcome,
    refusal,
    welcome,
)
from ottla.metadata_raft.raft_pending_links import PendingLinks
from ottla.metadata_raft.raft_wire import CLOSED, LinkWire
from ottla.metadata_raft.voters import Voter, VoterSet

HANDSHAKE_SECONDS: Final = 5.0
MAX_LEFT: Final = 64  # the last nodes that left a handshake: any client may do so, so the number is limited
AUTHENTICATION_SECONDS: Final = 3.0  # the time in which a connection must be authenticated
DIAL_SECONDS: Final = 3.0  # of resolving a name and connecting to a host that does not answer
FIRST_PAUSE_SECONDS: Final = 0.05
MAX_PAUSE_SECONDS: Final = 2.0
PING_SECONDS: Final = 2.0
LEAVE_SECONDS: Final = 0.1
SILENCE_SECONDS: Final = 6.0
REFUSAL_LOG_SECONDS: Final = 1.0

# asyncio closes the connection of a client that it rejects without a TLS alert.
REFUSED_IN_SILENCE: Final = (
    "The other end closed the connection during the TLS handshake; if it rejected this node's certificate, "
    "its log says why."
)

log = logging.getLogger(__name__)


class LeftError(KafkaError):
    """The other end left the handshake before it was authenticated; `node_id` is the id that it claims."""

    def __init__(self, node_id: int) -> None:
        super().__init__(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {node_id} closed the connection before it proved that it "
            "knows the cluster's secret: check that its cluster.secret is the same.",
        )
        self.node_id = node_id


class LinkTls(NamedTuple):
    """The two ends of TLS on a link; each presents a certificate and verifies the other's."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    checks_names: bool = True  # whether a certificate must name its node
    needs_node_id: bool = False  # whether it must name the node's id; a host is not sufficient


class LinkListener(NamedTuple):
    """A listener for controllers; `tls` and `users` are called for each connection, since they may change."""

    host: str
    port: int
    tls: Callable[[], LinkTls] | None = None
    users: Callable[[], Mapping[str, str]] | None = None  # passwords by user; None: no logins


class AcceptedLink(NamedTuple):
    """A link that was accepted by a listener that serves other protocols, too."""

    listener_index: int  # 0 for the first, then those of `more`
    sock: socket.socket
    received: bytes  # read from the socket before


class LinkSettings(NamedTuple):
    """The settings of links.

    `listen` is host and port of the controller listener whose `tls` this node also uses to dial others.
    `more` listeners may accept links, too, so that a quorum can change to TLS node by node. If `is_shared`,
    the listeners serve other protocols, too, and the node accepts links and passes them to `take`.
    """

    identity: LinkIdentity
    secret: bytes
    listen: tuple[str, int]
    tls: Callable[[], LinkTls] | None = None  # called for each connection, since certificates are renewed
    more: Sequence[LinkListener] = ()
    users: Callable[[], Mapping[str, str]] | None = None  # of the listener; None: no logins
    login: Callable[[], LinkLogin | None] = lambda: None  # of this node, at other nodes
    is_shared: bool = False

    @property
    def listeners(self) -> Sequence[LinkListener]:
        """All listeners."""
        return (LinkListener(*self.listen, self.tls, self.users), *self.more)

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return "LinkSettings([hidden])"


class RaftLinks:
    """The links of one node; `on_frame` and `on_link` are called on the loop of `run`."""

    def __init__(
        self,
        settings: LinkSettings,
        *,
        chance: Random,
        unique: Callable[[int], bytes],
        on_frame: Callable[[Peer, bytes], None],
        on_link: Callable[[Peer, bool], None],
    ) -> None:
        self._settings = settings
        self._chance = chance
        self._unique = unique
        self._on_frame = on_frame
        self._on_link = on_link
        self._voters = VoterSet.of([])
        self._wires: dict[int, list[tuple[Peer, LinkWire]]] = {}  # by node, the one to write to first
        self._pending_links = PendingLinks()
        self._refusal_logged_at = float("-inf")
        self._dialers: dict[Voter, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._servers: list[asyncio.Server] = []
        self.endpoints: dict[int, Endpoint] = {settings.identity.peer.node_id: settings.identity.endpoint}
        self.refused = 0
        # Ids of nodes, and addresses, that left a handshake and have not completed one since.
        self._left: dict[int | str, None] = {}
        self._troubles = LinkTroubles()

    # ---- start and stop --------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Bind the listeners for controllers, unless they are shared; OSError if an address is in use."""
        settings, loop = self._settings, asyncio.get_running_loop()
        if settings.is_shared:
            return
        try:
            for one in settings.listeners:
                make: Any = partial(LinkWire, partial(self._meet, one))  # a protocol by its methods
                # TLS begins later, so a client that does not complete its handshake counts as a stranger.
                server = await loop.create_server(make, one.host or None, one.port, start_serving=False)
                self._servers.append(server)
                await server.start_serving()
        except BaseException:  # such as a cancellation, when the node is stopped while it starts
            self._close_servers()
            raise

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()

    async def run(self) -> None:
        """Keep the links open until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                self.dial(self._voters)
                while True:
                    await asyncio.sleep(PING_SECONDS)
                    self._ping()
                    self._log_missing()
            finally:
                # No connection is accepted any more while the others are closed.
                self._tasks = None
                wires = [wire for peers in self._wires.values() for _, wire in peers]
                self.close()
                await _until_closed(wires)

    def close(self) -> None:
        """Close all connections."""
        self._close_servers()
        for wires in list(self._wires.values()):
            for _, wire in list(wires):
                wire.close()

    def dial(self, voters: VoterSet) -> None:
        """Set the nodes to keep links to; dialling others ends."""
        self._voters = voters
        self._pending_links.keep_voters(set(voters.by_id))
        if self._tasks is None:
            return
        own_id = self._settings.identity.peer.node_id
        wanted = {voter._replace(directory_id=bytes(16)) for voter in voters if voter.node_id != own_id}
        for voter in sorted(set(self._dialers) - wanted):
            self._dialers.pop(voter).cancel()
        for voter in sorted(wanted - set(self._dialers)):
            self._dialers[voter] = self._tasks.create_task(self._dial_for_ever(voter))

    def _missing(self) -> VoterSet:
        """Return the other voters without a link."""
        own_id = self._settings.identity.peer.node_id
        return VoterSet.of(
            one for one in self._voters if one.node_id != own_id and one.node_id not in self._wires
        )

    def _has_majority(self, missing: VoterSet) -> bool:
        return len(self._voters) - len(missing) > len(self._voters) // 2

    def unlinked(self) -> Mapping[int, str]:
        """Return a text with address and reason for each voter without a link, by node id."""
        return self._troubles.of(self._missing())

    def waits_for(self) -> str | None:
        """Return a sentence with the voters that this node waits for; None if it needs no others.

        It needs links to a majority, or to all voters while their directories are not in the log yet.
        """
        missing, is_new = self._missing(), not self._voters.is_settled
        if not len(missing) or (self._has_majority(missing) and not is_new):
            return None
        return sentence(self._troubles.of(missing), has_majority=False, is_new=is_new)

    def _log_missing(self) -> None:
        missing, now = self._missing(), asyncio.get_running_loop().time()
        has_majority, is_new = self._has_majority(missing), not self._voters.is_settled
        said = self._troubles.due(missing, has_majority=has_majority, now=now, is_new=is_new)
        if said is not None:
            log.warning("%s", said)

    def _ping(self) -> None:
        now = asyncio.get_running_loop().time()
        for wires in list(self._wires.values()):
            for _, wire in list(wires):
                if now - wire.heard_at > SILENCE_SECONDS:
                    wire.abort()
                else:
                    wire.send(b"")

    # ---- use -------------------------------------------------------------------------------------------

    def send(self, node_id: int, frame: bytes) -> None:
        """Send a frame over the link, if there is one."""
        wires = self._wires.get(node_id)
        if wires:
            wires[0][1].send(frame)

    def has_room(self, node_id: int) -> bool:
        """Return True if there is a link and its buffer is not full."""
        wires = self._wires.get(node_id)
        return wires is not None and wires[0][1].has_room

    def _add(self, peer: Peer, wire: LinkWire, *, is_dialled: bool) -> None:
        wires = self._wires.setdefault(peer.node_id, [])
        wires.insert(0 if is_dialled else len(wires), (peer, wire))
        self._troubles.forget(peer.node_id)
        self._on_link(peer, True)
        wire.open(lambda frame: self._hear(peer, wire, frame))

    def _hear(self, peer: Peer, wire: LinkWire, frame: bytes) -> None:
        try:
            self._on_frame(peer, frame)
        except KafkaError as error:
            log.warning(
                "The connection of node %d is closed, because its messages are not valid: %s",
                peer.node_id,
                error,
            )
            self.refused += 1
            wire.abort()

    def _drop(self, peer: Peer, wire: LinkWire) -> None:
        wires = self._wires.get(peer.node_id, [])
        wires[:] = [pair for pair in wires if pair[1] is not wire]
        if not wires:
            self._wires.pop(peer.node_id, None)
        self._on_link(peer, bool(wires))

    # ---- dialling --------------------------------------------------------------------------------------

    async def _dial_for_ever(self, voter: Voter) -> None:
        pause, loop, problem = FIRST_PAUSE_SECONDS, asyncio.get_running_loop(), ""
        while True:
            began = loop.time()
            try:
                await self._dial_once(voter)
            except (KafkaError, OSError, TimeoutError) as error:
                self._troubles.note(voter.node_id, error)
                reason = reason_of(error)
                if reason != problem:
                    problem = reason
                    at = f"{voter.host}:{voter.port}"
                    log.info("No connection to node %d at %s: %s.", voter.node_id, at, reason)
            if loop.time() - began > 2 * MAX_PAUSE_SECONDS:
                pause, problem = FIRST_PAUSE_SECONDS, ""
            await asyncio.sleep(pause * (0.5 + self._chance.random()))
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _dial_once(self, voter: Voter) -> None:
        """Open a connection, and keep it until it is closed."""
        wire = await _connect(voter.host, voter.port, self._settings.tls)
        self._pending_links.note_voter(voter.node_id, wire.peer_host)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                peer_hello, _ = await self._client_handshake(wire, voter)
            peer = Peer(peer_hello.node_id, peer_hello.directory_id)
            self._note_endpoint(peer_hello)
            self._add(peer, wire, is_dialled=True)
            try:
                await wire.closed
            finally:
                self._drop(peer, wire)
        finally:
            wire.abort()

    async def _client_handshake(self, wire: LinkWire, voter: Voter) -> tuple[LinkHello, list[NodeEndpoint]]:
        settings = self._settings
        return await client_handshake(
            wire,
            settings,
            self._unique(NONCE_BYTES),
            purpose=LINK,
            expected_id=voter.node_id,
            host=voter.host,
        )

    def _note_endpoint(self, peer_hello: LinkHello) -> None:
        self.endpoints[peer_hello.node_id] = Endpoint(
            peer_hello.host, peer_hello.port, peer_hello.security_protocol
        )

    # ---- being dialled ---------------------------------------------------------------------------------

    def take(self, link: AcceptedLink) -> None:
        """Take over a connection that the node accepted."""
        if self._tasks is None:
            link.sock.close()
        else:
            self._tasks.create_task(self._take(link))

    async def _take(self, link: AcceptedLink) -> None:
        listener = self._settings.listeners[link.listener_index]
        wire = partial(LinkWire, partial(self._meet, listener), link.received)
        make = cast("Callable[[], asyncio.Protocol]", wire)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(make, link.sock)
        except OSError:
            link.sock.close()

    def _meet(self, listener: LinkListener, wire: LinkWire) -> None:
        if self._tasks is None:
            wire.abort()
            return
        if listener.tls is not None:
            wire.hold()
        pushed_out = self._pending_links.enter(wire)
        if pushed_out is not None:
            pushed_out.abort()
        self._tasks.create_task(self._serve(wire, listener))

    async def _serve(self, wire: LinkWire, listener: LinkListener) -> None:
        peer: Peer | None = None
        try:
            try:
                async with asyncio.timeout(AUTHENTICATION_SECONDS):
                    if listener.tls is not None:
                        await wire.begin_tls(listener.tls().server, AUTHENTICATION_SECONDS)
                    peer_hello = await self._let_in(wire, listener)
            finally:
                self._pending_links.leave(wire)
            for who in (peer_hello.node_id, wire.peer_host):
                self._left.pop(who, None)
            if peer_hello.purpose == QUESTION:
                wire.close()
                return
            peer = Peer(peer_hello.node_id, peer_hello.directory_id)
            if peer_hello.node_id in self._voters:
                self._pending_links.note_voter(peer_hello.node_id, wire.peer_host)
            self._note_endpoint(peer_hello)
            self._add(peer, wire, is_dialled=False)
            await wire.closed
        except (KafkaError, OSError, TimeoutError) as error:
            self._note_refusal(error, wire)
        finally:
            if peer is not None:
                self._drop(peer, wire)
            if peer is not None or not wire.is_closed:
                wire.close()

    def _note_refusal(self, error: Exception, wire: LinkWire) -> None:
        """Log the reason of a rejected connection, at most once per second."""
        self.refused += 1
        if self._leaves_once(error, wire):
            return
        now = asyncio.get_running_loop().time()
        if now - self._refusal_logged_at >= REFUSAL_LOG_SECONDS:
            self._refusal_logged_at = now
            log.info(
                "A connection to the controller listener was rejected (%d so far): %s",
                self.refused,
                reason_of(error),
            )

    def _leaves_once(self, error: Exception, wire: LinkWire) -> bool:
        """Return True if the other end left a handshake without a reason, for the first time.

        A node that stops does so, too. A node that does not trust this one leaves each handshake and soon
        dials again, so only the second time is logged.
        """
        if isinstance(error, LeftError):
            who: int | str = error.node_id
        elif _has_left(error, wire):
            who = wire.peer_host
        else:
            return False
        if who in self._left:
            return False
        if len(self._left) >= MAX_LEFT:
            del self._left[next(iter(self._left))]
        self._left[who] = None
        return True

    async def _let_in(self, wire: LinkWire, listener: LinkListener) -> LinkHello:
        settings = self._settings
        try:
            peer_hello = read_hello(await wire.next_frame(), settings.identity)
            answered = answer(peer_hello, settings.identity, self._unique(NONCE_BYTES), settings.secret)
            wire.send(answered)
            users = None if listener.users is None else listener.users()
            check_proof(await _proof_of(wire, peer_hello), peer_hello, answered, settings.secret, users)
            voter = self._voters.by_id.get(peer_hello.node_id)
            _check_names(wire, listener.tls, peer_hello.node_id, None if voter is None else voter.host)
        except KafkaError as error:
            wire.send(refusal(error))
            raise
        wire.send(welcome(self._node_endpoints()))
        return peer_hello

    def _node_endpoints(self) -> list[NodeEndpoint]:
        return [
            NodeEndpoint(
                node_id=node_id,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for node_id, point in sorted(self.endpoints.items())
            if node_id in self._voters or node_id == self._settings.identity.peer.node_id
        ]


def _has_left(error: Exception, wire: LinkWire) -> bool:
    """Return True if the other end closed the connection without a TLS alert."""
    if isinstance(error, KafkaError):
        return wire.has_left and error.detail == CLOSED
    return isinstance(error, ConnectionError | ssl.SSLEOFError)


async def _proof_of(wire: LinkWire, peer_hello: LinkHello) -> bytes:
    """Return the second frame of a client; LeftError if it closes the connection instead.

    It does so when it stops, or if it rejects this node's proof.
    """
    try:
        return await wire.next_frame()
    except KafkaError:
        raise LeftError(peer_hello.node_id) from None


async def client_handshake(
    wire: LinkWire, settings: LinkSettings, nonce: bytes, *, purpose: int, expected_id: int, host: str
) -> tuple[LinkHello, list[NodeEndpoint]]:
    """Do the client's side of the handshake; return the server's first frame and the voters' brokers."""
    sent = hello(settings.identity, nonce, purpose=purpose)
    wire.send(sent)
    try:
        answered = await wire.next_frame()
    except KafkaError as error:
        if settings.tls is None or error.detail != CLOSED:
            raise
        raise KafkaError(error.code, REFUSED_IN_SILENCE) from None
    try:
        proof, peer_hello = prove(
            sent,
            answered,
            settings.identity,
            settings.secret,
            expected_id=expected_id,
            login=settings.login(),
        )
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise  # The frame was the server's first one, not a rejection.
        # A server that rejects the first frame sends the rejection in place of its own first frame.
        raise _refused(answered, error) from None
    _check_names(wire, settings.tls, peer_hello.node_id, host)
    wire.send(proof)
    return peer_hello, list(read_welcome(await wire.next_frame()))


def _check_names(wire: LinkWire, tls: Callable[[], LinkTls] | None, node_id: int, host: str | None) -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED if the other end presented the certificate of another node."""
    current = None if tls is None else tls()
    if current is not None and current.checks_names:
        hosts = [] if host is None or current.needs_node_id else [host]
        check_certificate_names(wire.certificate_names(), node_id, hosts)


def _refused(frame: bytes, error: KafkaError) -> KafkaError:
    try:
        read_welcome(frame)
    except KafkaError as refused:
        if refused.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return refused
    return error


async def _until_closed(wires: Sequence[LinkWire]) -> None:
    """Wait shortly until the buffers are written; connections of peers that do not read are aborted."""
    if wires:
        await asyncio.wait([wire.closed for wire in wires], timeout=LEAVE_SECONDS)
    for wire in wires:
        wire.abort()


async def _connect(host: str, port: int, tls: Callable[[], LinkTls] | None) -> LinkWire:
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"ssl": tls().client, "server_hostname": host} if tls is not None else {}
    make: Any = LinkWire
    async with asyncio.timeout(DIAL_SECONDS):
        _, protocol = await loop.create_connection(make, host, port, **options)
    wire: LinkWire = protocol
    return wire


async def ask_the_quorum(
    host: str, port: int, settings: LinkSettings, *, nonce: bytes
) -> tuple[bytes, Mapping[int, Endpoint]]:
    """Ask the voter at `host` for the cluster id and the addresses of the voters' brokers.

    KafkaError, OSError or TimeoutError if it does not answer.
    """
    wire = await _connect(host, port, settings.tls)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            server, endpoints = await client_handshake(
                wire, settings, nonce, purpose=QUESTION, expected_id=-1, host=host
            )
    finally:
        wire.abort()
    return server.cluster_id, {
        one.node_id: Endpoint(one.host, one.port, one.security_protocol) for one in endpoints
    }
