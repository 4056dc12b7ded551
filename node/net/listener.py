"""A listening socket and its connections, with their limits.

Closes connections beyond the node's `ConnectionQuota` or beyond its share of open files, and those that sent
nothing for `connections.max.idle.ms`. A flood of bad connections is logged in at most ten lines a second.
"""

import asyncio
import logging
import math
import resource
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.handing_over import StartTask
from ottla.node.net.acceptor import Acceptor
from ottla.node.net.answers import Answer, CloseConnection, Pending, Service
from ottla.node.net.arrivals import Arrivals, give_to
from ottla.node.net.client_lines import ClientLines, log_all_left_out
from ottla.node.net.connection import Connection
from ottla.node.net.connection_info import NO_PEER, ConnectionInfo, plain_address
from ottla.node.net.connection_quota import ConnectionQuota
from ottla.node.net.connection_reserve import is_opening
from ottla.node.net.file_pipe import FilePipe
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.link_door import LinkDoor, TakeLink
from ottla.node.net.login import FailureLimits, LoginCounts, LoginGate, OnFailedLogin
from ottla.node.net.pacing import pace, stop_pacing
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.receive_windows import ReceiveWindows, widest_bytes
from ottla.node.net.send_buffers import SendBuffers
from ottla.node.net.server_tls import ListenerTls
from ottla.node.net.tls_transport import TlsShared, TlsTransport
from ottla.node.net.unsent_answers import UnsentAnswers

MIN_BACKLOG = 512  # a whole fleet may reconnect after a restart: with Kafka's 50 the kernel dropped SYNs
MAX_SWEEP_SECONDS = 5.0
# While memory is scarce, a frame that has not grown for this long, or a large one that waits for its answer,
# is given up.
STALLED_SWEEPS = 6
# The open files that connections leave to the logs, at most a quarter of ulimit -n: a log that can open none
# fails.
MAX_RESERVED_FILES = 1024
STOPS = "the node is stopping"
TLS_MECHANISM = "SSL"  # the mechanism of logins by certificate in the audit log

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """Limits of a listener and its connections, with Kafka's names and defaults, except a larger backlog."""

    socket_request_max_bytes: int = 100 * 1024 * 1024
    connections_max_idle_ms: int = 600_000
    connection_failed_authentication_delay_ms: int = 100
    socket_listen_backlog_size: int = MIN_BACKLOG
    socket_send_buffer_bytes: int = 100 * 1024


class Listener:
    """One `host:port` of the setting `listeners`, from `start` to `stop_accepting`."""

    def __init__(
        self,
        *,
        name: str,
        security_protocol: str = "PLAINTEXT",
        service: Service[Connection],
        memory: ReceiveMemory,
        quota: ConnectionQuota,
        limits: ListenerLimits,
        start_task: StartTask,
        gathered: GatheredAnswers,
        access_of: Callable[[str, str], Access] = Access,
        on_peer_lost: Callable[[int], None] | None = None,
        must_pause: Callable[[], bool] = lambda: False,
        is_for_peers: bool = False,
        is_protected: bool = False,
        unsent: UnsentAnswers | None = None,
        receive_windows: ReceiveWindows | None = None,
        send_buffers: SendBuffers | None = None,
        tls: ListenerTls | None = None,
        handshakes: HandshakeExecutor | None = None,
        login_gate: LoginGate[Connection] | None = None,
        on_failed_login: OnFailedLogin | None = None,
        failures: FailureLimits | None = None,
        take_link: TakeLink | None = None,
    ) -> None:
        """`access_of` returns the rights of a principal from an address; by default everything is allowed.
        Connections to a listener that `is_protected` do not count for the connection rate of the node.

        With `tls` its connections are encrypted, and handshakes are computed in `handshakes`; with a
        `login_gate` its clients have to log in. `on_failed_login` is called for each refused certificate, and
        `failures` limits how often clients may fail at either. `handshakes`, `unsent`, `receive_windows` and
        `send_buffers` belong to the node; by default the listener has its own. Links among voters that arrive
        here are given to `take_link`; None if there are none.
        """
        self.name = name
        self.security_protocol = security_protocol
        self.service = service
        self.access_of = access_of
        self.opening_service = Service(serve=self._serve_opening, fail=service.fail)
        self._is_for_peers = is_for_peers  # whether nodes of the cluster dial it
        self._is_protected = is_protected
        self.memory = memory
        self.quota = quota
        self.limits = limits
        self.max_frame_bytes = limits.socket_request_max_bytes
        self.start_task = start_task
        self.gathered = gathered
        self.must_pause = must_pause  # True while clients that send much should wait for the disk
        self.tick = 0
        self.connections: dict[Connection, None] = {}  # in the order of their arrival
        self.accepted = 0  # connections since the node started, refused ones included
        self.receive_windows = receive_windows or ReceiveWindows(widest_bytes())
        self.send_buffers = send_buffers or SendBuffers(limits.socket_send_buffer_bytes)
        self.unsent = unsent or UnsentAnswers()
        self.tls = tls
        self.login_gate = login_gate
        self._on_failed_login = on_failed_login
        self.logins = LoginCounts() if login_gate is None else login_gate.counts
        self._failures = failures
        self._handshakes = handshakes
        self._shared_tls: TlsShared | None = None
        self.host = ""
        self.port = 0
        self._congestion_control = b""  # the system's, for other machines; b"" if it was kept
        self._on_peer_lost = on_peer_lost
        self.arrivals = Arrivals(self, quota.rates)
        self._links = None if take_link is None else LinkDoor(self, take_link, has_tls=tls is not None)
        self._peers: Counter[int] = Counter()  # number of connections of each proven node
        self._lines = ClientLines(log)
        self._is_stopping = False
        self._acceptor: Acceptor | None = None
        self._file_pipe: FilePipe | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        # The kernel assigns the lowest free descriptor, so a high one means that few are left.
        open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.file_limit = open_files - min(open_files // 4, MAX_RESERVED_FILES)
        # Negative values mean "never", as in Kafka; so does 0, with which Kafka would close every connection.
        idle_seconds = (
            limits.connections_max_idle_ms / 1000 if limits.connections_max_idle_ms > 0 else math.inf
        )
        self._sweep_seconds = min(MAX_SWEEP_SECONDS, idle_seconds / 8)
        self._idle_ticks = max(1, idle_seconds / self._sweep_seconds)

    async def bind(self, host: str, port: int) -> None:
        """Bind the address, so that its port is known; no client is let in before `start`.

        `host` "" is every address of the machine, port 0 any free one. OSError if the address is in use.
        """
        self.loop = asyncio.get_running_loop()
        if self.tls is not None:
            executor = self._handshakes or HandshakeExecutor()
            failed_delay_s = self.limits.connection_failed_authentication_delay_ms / 1000
            self._shared_tls = TlsShared(
                self.loop,
                executor,
                self.start_task,
                failed_delay_s,
                self._certificate_refused,
                counts=self.logins,
                counts_success=self.login_gate is None,
                limits=self._failures,
                is_for_peers=self._is_for_peers,
            )
        acceptor = self._acceptor = Acceptor(self._new_protocol)
        backlog = max(MIN_BACKLOG, self.limits.socket_listen_backlog_size)
        if not host and socket.has_dualstack_ipv6():
            bound = await acceptor.take(_dual_stack_socket(port), backlog)
        else:
            found = await self.loop.getaddrinfo(
                host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            # Only the first: with port 0 each address of a name would get a port of its own.
            bound = await acceptor.bind(str(found[0][4][0]), port, backlog)
        self._congestion_control = stop_pacing(bound)
        self.host, self.port = host, bound.getsockname()[1]

    def _new_protocol(self) -> asyncio.BufferedProtocol:
        """Create the protocol object of an accepted socket, which may have to wait first."""
        if self._links is not None:
            return self._links.new()
        if self.quota.rates.are_set:
            return self.arrivals.new()
        self.quota.rates.enter(self.name, is_protected=self._is_protected)
        return self.make_protocol()

    def take_over(self, transport: asyncio.Transport, early: memoryview) -> None:
        """Serve a connection that is no link among voters, as soon as the connection rates allow it."""
        if self.quota.rates.are_set:
            self.arrivals.take(transport, early)
            return
        self.quota.rates.enter(self.name, is_protected=self._is_protected)
        give_to(self.make_protocol(), transport, early)

    def make_protocol(self) -> asyncio.BufferedProtocol:
        """Create the protocol object that serves one socket."""
        if self.tls is None:
            return Connection(self)
        assert self._shared_tls is not None
        return TlsTransport(Connection(self), self.tls.current, self._shared_tls)

    @property
    def is_protected(self) -> bool:
        """Return True if its connections do not count for the connection rate of the node."""
        return self._is_protected

    async def start(self) -> None:
        """Start to accept connections."""
        assert self._acceptor is not None
        await self._acceptor.start()
        self._sweep_timer = self.loop.call_later(self._sweep_seconds, self.sweep)

    def stop_accepting(self) -> None:
        """Accept no more connections; open ones continue."""
        self._is_stopping = True
        self.arrivals.close()
        if self._links is not None:
            self._links.close()
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None

    def close_connections(self) -> None:
        """Close each connection once the responses that are ready are sent."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in list(self.connections):
            connection.close()

    def abort_connections(self) -> None:
        """Abort all connections."""
        for connection in list(self.connections):
            connection.abort(STOPS)

    # ---- called by connections -------------------------------------------------------------------

    def describe(self, transport: asyncio.BaseTransport) -> ConnectionInfo:
        number = self.quota.next_number()
        local = transport.get_extra_info("sockname") or ("", 0)
        peer = transport.get_extra_info("peername") or ("", 0)
        local_host, client_host = plain_address(local[0]), plain_address(peer[0])
        return ConnectionInfo(
            number=number,
            connection_id=f"{local_host}:{local[1]}-{client_host}:{peer[1]}-{number}",
            listener_name=self.name,
            security_protocol=self.security_protocol,
            access=self.access_of(ANONYMOUS, client_host),
            client_host=client_host,
            client_port=peer[1],
            local_host=local_host,
            local_port=local[1],
        )

    def pace(self, connection: Connection, sock: socket.socket) -> None:
        """Give a connection to another machine the congestion control of the system back."""
        if self._congestion_control and not connection.info.is_local:
            pace(sock, self._congestion_control)

    def admit(self, connection: Connection) -> str:
        """Count a new connection; return the reason why it must be closed, or "" if it is let in."""
        self.connections[connection] = None
        self.accepted += 1
        refusal = self.quota.enter(self.name, connection.info.client_host)
        if self._is_stopping:
            return STOPS  # accepted in the turn of the stop: `close_connections` would miss it
        if connection.file_number >= self.file_limit:
            return "the limit of open files is almost reached (ulimit -n), and the rest is reserved for logs"
        if refusal:
            return self.quota.reserve.admit(
                connection,
                refusal,
                self.loop.call_later,
                may_be_peer=self._is_for_peers,
                may_log_in=self.login_gate is not None
                or (self.tls is not None and self.tls.asks_for_certificates),
            )
        return ""

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.quota.leave(self.name, connection.info.client_host, connection.info.number)
        self.quota.reserve.leave(connection)
        if not self.connections and self._file_pipe is not None:
            self._file_pipe.close()
            self._file_pipe = None
        peer_id = connection.info.peer_id
        if peer_id != NO_PEER:
            self._peers[peer_id] -= 1
            if not self._peers[peer_id]:
                del self._peers[peer_id]
                if self._on_peer_lost is not None:
                    self._on_peer_lost(peer_id)

    def open_pipe(self) -> FilePipe:
        """Return the pipe from files to sockets that all connections share; the last one to end closes it.

        OSError if too many files are open.
        """
        if self._file_pipe is None:
            self._file_pipe = FilePipe()
        return self._file_pipe

    def recognize(self, connection: Connection, peer_id: int) -> None:
        """Note that a connection is a peer's; `on_peer_lost` is called when the peer's last one ends."""
        self.quota.reserve.leave(connection)
        info = connection.info
        access = Access(info.access.principal, info.client_host)  # a node may do everything
        connection.info = replace(info, peer_id=peer_id, access=access)
        self._peers[peer_id] += 1

    def is_beyond_limits(self, connection: Connection) -> bool:
        """Return True if a connection beyond the limits is not identified yet."""
        return bool(self.quota.reserve.refusal_of(connection))

    def admit_administrator(self, connection: Connection) -> None:
        """Keep an administrator's connection beyond the limits, if there is room for it."""
        self.quota.reserve.admit_administrator(connection)

    def is_administrator(self, connection: Connection) -> bool:
        """Return True if a connection has a place reserved for administrators, beyond the limits."""
        return self.quota.reserve.is_administrator(connection)

    def has_peer(self, peer_id: int) -> bool:
        """Return True if a node of the cluster has a connection to this listener."""
        return peer_id in self._peers

    def log_rejected(self, info: ConnectionInfo, reason: str) -> None:
        """Log why a connection is closed, in one line; in a flood the lines are only counted."""
        self._lines.log(
            logging.WARNING, info.client_host, "Closed connection %s: %s", info.connection_id, reason
        )

    def _certificate_refused(self, client_host: str, reason: str) -> None:
        if self._on_failed_login is not None:
            self._on_failed_login("", plain_address(client_host), self.name, TLS_MECHANISM, reason)

    def _serve_opening(self, connection: Connection, frame: memoryview) -> Answer | Pending:
        """Serve the handshake of peers on a connection beyond the limits, and close it for any other request.

        The login of an administrator is served by the login gate.
        """
        if not is_opening(frame):
            raise CloseConnection(self.quota.reserve.refusal_of(connection))
        return self.service.serve(connection, frame)

    def sweep(self) -> None:
        """Close idle connections and take unused memory back; called every few seconds.

        While memory is scarce, connections that hold a large frame without progress are closed, too.
        """
        self.tick += 1
        log_all_left_out()
        for connection in list(self.connections):
            idle_ticks = self.tick - connection.last_active_tick
            if idle_ticks > self._idle_ticks and not connection.is_throttled:
                connection.expire()
            elif idle_ticks > STALLED_SWEEPS and self.memory.is_scarce and connection.is_inside_frame:
                connection.abort("a frame made no progress while memory is short")
            elif idle_ticks > STALLED_SWEEPS and self.memory.is_scarce and connection.waits_with_large_frame:
                connection.abort("a large frame has to wait while memory is short")
            else:
                connection.shrink()
        self._sweep_timer = self.loop.call_later(self._sweep_seconds, self.sweep)


def _dual_stack_socket(port: int) -> socket.socket:
    """Return a TCP socket bound to every address of both families."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setblocking(False)
    try:
        sock.bind(("::", port))
    except OSError:
        sock.close()
        raise
    return sock
