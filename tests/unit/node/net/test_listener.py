"""The connections that a listener lets in, counts and closes, and its log lines."""

import asyncio
import logging
import ssl
import struct
from typing import Any, cast

import pytest

from ottla.metadata_raft.acl_set import AuthorizerSettings
from ottla.node.authorization.authorizer import Authorizer
from ottla.node.net.act_for import Caller
from ottla.node.net.answers import Pending, Service
from ottla.node.net.client_lines import MAX_OF_ADDRESS
from ottla.node.net.connection import Connection
from ottla.node.net.connection_quota import ConnectionLimits, ConnectionQuota
from ottla.node.net.connection_reserve import MAX_ADMINISTRATORS, MAX_LOCAL, MAX_LOGGING_IN, MAX_UNPROVEN
from ottla.node.net.connection_states import Serving
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.listener import STALLED_SWEEPS, Listener, ListenerLimits
from ottla.node.net.login import LoginCounts
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.server_tls import ListenerTls, ServerTls
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi
from tests.unit.node.fakes import Timers


def listener(
    quota: ConnectionQuota | None = None,
    name: str = "PLAINTEXT",
    *,
    is_for_peers: bool = False,
    **limits: Any,
) -> Listener:
    service = Service(serve=lambda connection, frame: None, fail=lambda connection, frame, error: None)
    never = Timers().loop
    made = Listener(
        name=name,
        service=service,
        memory=ReceiveMemory(),
        quota=quota if quota is not None else ConnectionQuota(),
        limits=ListenerLimits(**limits),
        start_task=lambda work: cast("asyncio.Task[Any]", work),
        gathered=GatheredAnswers(never),
        is_for_peers=is_for_peers,
    )
    made.loop = never
    return made


class Socket:
    """A socket with a file descriptor."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def setsockopt(self, level: int, name: int, value: int) -> None: ...


class Transport(asyncio.Transport):
    """A transport that knows its two addresses and whether it was closed."""

    def __init__(self, client: str | None, file_number: int | None = None) -> None:
        extra: dict[str, object] = {"sockname": ("::ffff:127.0.0.1", 9092)}
        extra["peername"] = None if client is None else (client, 40_000)
        if file_number is not None:
            extra["socket"] = Socket(file_number)
        super().__init__(extra)
        self.is_aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_aborted = True


def connect(
    to: Listener, client: str = "10.0.0.1", file_number: int | None = None
) -> tuple[Connection, Transport]:
    connection, transport = Connection(to), Transport(client, file_number)
    connection.connection_made(transport)
    return connection, transport


def _send(connection: Connection, data: bytes) -> None:
    while data:
        room = connection.get_buffer(-1)
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        connection.buffer_updated(count)


def _sweep_often(to: Listener) -> None:
    for _ in range(STALLED_SWEEPS + 2):
        to.sweep()


def test_an_ipv4_client_of_a_dual_stack_socket_is_named_as_one() -> None:
    connection, _ = connect(listener(), "::ffff:10.0.0.7")

    assert connection.info.client_host == "10.0.0.7"
    assert connection.info.local_host == "127.0.0.1"


def test_a_connection_whose_client_has_reset_it_is_closed_unserved() -> None:
    """Limits and ACLs need its address, which is unknown; the bytes that it had sent could still be read."""
    connection, transport = Connection(listener()), Transport(client=None)

    connection.connection_made(transport)
    _send(connection, b"\0\0\0\x0a")

    assert transport.is_aborted
    connection.connection_lost(None)


def test_a_connection_accepted_in_the_turn_in_which_the_listener_stops_is_closed() -> None:
    to = listener()
    connection, transport = connect(to)

    to.stop_accepting()
    _, late = connect(to)

    assert late.is_aborted and not transport.is_aborted
    connection.connection_lost(None)


def test_connections_beyond_the_limit_are_closed() -> None:
    to = listener(ConnectionQuota(ConnectionLimits(max_connections=2)))
    kept = [connect(to)[1] for _ in range(2)]

    _, refused = connect(to)

    assert refused.is_aborted
    assert not any(transport.is_aborted for transport in kept)


def test_peers_that_do_not_read_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    to = listener()
    to.unsent.limit_bytes = 250
    peers = [connect(to) for _ in range(4)]
    for _, transport in peers:
        monkeypatch.setattr(transport, "get_write_buffer_size", lambda: 100)

    peers[0][0].pause_writing()
    peers[0][0].resume_writing()
    for connection, _ in (peers[1], peers[2], peers[0], peers[3]):
        connection.pause_writing()

    # The peer that has read in between is not the slowest.
    assert [transport.is_aborted for _, transport in peers] == [False, True, True, False]
    assert to.unsent.used_bytes == 200


def test_connections_leave_open_files_to_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    to = listener()

    assert not connect(to, file_number=191)[1].is_aborted
    assert connect(to, file_number=192)[1].is_aborted


def test_each_address_has_its_limit_and_some_have_their_own() -> None:
    limits = ConnectionLimits(max_connections_per_ip=1, max_connections_per_ip_overrides={"10.0.0.9": 2})
    to = listener(ConnectionQuota(limits))
    outcome = [
        connect(to, client)[1].is_aborted
        for client in ("10.0.0.1", "10.0.0.1", "10.0.0.9", "10.0.0.9", "10.0.0.9")
    ]

    assert outcome == [False, True, False, False, True]


def test_the_limits_hold_for_all_listeners_together() -> None:
    quota = ConnectionQuota(ConnectionLimits(max_connections=3, max_connections_per_ip=2))
    outer, inner = listener(quota), listener(quota, "INNER")
    outcome = [
        connect(to, client)[1].is_aborted
        for to, client in ((outer, "a"), (inner, "a"), (outer, "a"), (inner, "b"))
    ]

    assert outcome == [False, False, True, True]


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    quota = ConnectionQuota(ConnectionLimits(listener_max_connections={"INNER": 1}))
    outer, inner = listener(quota), listener(quota, "INNER")
    outcome = [connect(to)[1].is_aborted for to in (inner, inner, outer, outer)]

    assert outcome == [False, True, False, False]


def test_a_new_limit_holds_for_new_connections() -> None:
    to = listener(quota := ConnectionQuota())
    kept = [connect(to)[1] for _ in range(3)]

    quota.limit(ConnectionLimits(max_connections=2))

    assert connect(to)[1].is_aborted
    assert not any(transport.is_aborted for transport in kept)


def test_the_programs_of_this_machine_are_let_in_beyond_the_limit_up_to_a_number() -> None:
    to = listener(ConnectionQuota(ConnectionLimits(max_connections=1)))
    connect(to)

    local = [connect(to, "127.0.0.1") for _ in range(MAX_LOCAL)]
    _, one_more = connect(to, "127.0.0.1")
    local[0][0].connection_lost(None)
    _, successor = connect(to, "127.0.0.1")

    assert not any(transport.is_aborted for _, transport in local)
    assert one_more.is_aborted and not successor.is_aborted


def test_an_administrators_program_has_room_for_its_second_connection() -> None:
    to = listener(ConnectionQuota(ConnectionLimits(max_connections=1)), is_for_peers=True)
    connect(to)

    bootstrap, _ = connect(to, "127.0.0.1")
    to_the_node, transport = connect(to, "127.0.0.1")

    # Neither has to prove that it is a peer before it is served.
    assert not transport.is_aborted
    assert not to.quota.reserve.refusal_of(bootstrap) and not to.quota.reserve.refusal_of(to_the_node)


def full_listener_for_peers() -> tuple[Listener, Timers]:
    served: list[bytes] = []
    to = listener(ConnectionQuota(ConnectionLimits(max_connections=1)), is_for_peers=True)
    to.service = to.service._replace(serve=lambda connection, frame: served.append(bytes(frame)))
    timers = Timers()
    to.loop = timers.loop
    connect(to)
    return to, timers


def frame(api_key: int) -> bytes:
    return struct.pack(">ihhi", 8, api_key, 0, 7)


def test_a_peer_is_let_in_beyond_the_limit_when_it_proves_itself_in_time() -> None:
    to, timers = full_listener_for_peers()

    peer, transport = connect(to)
    _send(peer, frame(PeerApi.PEER_HANDSHAKE))
    peer.recognize(2)
    _send(peer, frame(ApiKey.PRODUCE))

    assert not transport.is_aborted and timers.pending == []
    peer.connection_lost(None)


def test_a_connection_beyond_the_limit_that_proves_nothing_in_time_is_closed() -> None:
    to, timers = full_listener_for_peers()

    unproven, transport = connect(to)
    _send(unproven, frame(ApiKey.API_VERSIONS))
    assert not transport.is_aborted
    timers.pending[0].run()

    assert transport.is_aborted


def test_nothing_else_is_served_beyond_the_limit() -> None:
    to, timers = full_listener_for_peers()

    client, transport = connect(to)
    _send(client, frame(ApiKey.PRODUCE))

    assert transport.is_aborted
    client.connection_lost(None)
    assert timers.pending == []


def test_among_many_beyond_the_limit_the_oldest_unproven_connection_is_closed() -> None:
    to, _ = full_listener_for_peers()

    peer, of_peer = connect(to)
    peer.recognize(2)
    others = [connect(to)[1] for _ in range(MAX_UNPROVEN + 2)]

    assert not of_peer.is_aborted
    assert [transport.is_aborted for transport in others] == [True, True] + [False] * MAX_UNPROVEN


def test_a_connection_that_ends_makes_room() -> None:
    to = listener(ConnectionQuota(ConnectionLimits(max_connections_per_ip=1)))
    first, _ = connect(to)

    first.connection_lost(None)

    assert not connect(to)[1].is_aborted


def test_idle_connections_are_closed_and_others_are_not() -> None:
    to = listener(connections_max_idle_ms=80_000)  # 16 sweeps of five seconds
    idle, idle_transport = connect(to)
    busy, busy_transport = connect(to)

    for _ in range(20):
        busy.last_active_tick = to.tick
        to.sweep()

    assert idle_transport.is_aborted and idle.state is Serving.CLOSED
    assert not busy_transport.is_aborted


def test_a_connection_that_waits_long_with_a_large_frame_is_closed_when_memory_is_scarce() -> None:
    to = listener()
    loop = asyncio.new_event_loop()
    future: asyncio.Future[Any] = loop.create_future()
    to.service = Service(
        serve=lambda connection, frame: Pending(future, list), fail=lambda connection, frame, error: None
    )
    small, small_transport = connect(to)
    large, large_transport = connect(to)
    for connection, size in ((small, 100), (large, 100_000)):
        _send(connection, size.to_bytes(4, "big") + bytes(size))

    _sweep_often(to)
    assert not large_transport.is_aborted
    to.memory.limit_bytes = 2 * to.memory.used_bytes - 1
    _sweep_often(to)

    assert large_transport.is_aborted
    assert not small_transport.is_aborted
    loop.close()


def test_without_an_idle_limit_no_connection_is_closed() -> None:
    to = listener(connections_max_idle_ms=-1)
    _, transport = connect(to)

    for _ in range(1000):
        to.sweep()

    assert not transport.is_aborted


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP to a listener of the Kafka protocol"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "it speaks TLS to a listener without TLS"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes is larger than socket.request.max.bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes is impossible"),
    ],
)
def test_another_protocol_is_named_in_the_log(
    first: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    to = listener()
    connection, _ = connect(to)

    with caplog.at_level(logging.WARNING):
        _send(connection, first)

    assert connection.state is Serving.CLOSED
    assert words in caplog.text


def test_a_flood_of_bad_connections_is_logged_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    to = listener()
    connection, _ = connect(to)

    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            to.log_rejected(connection.info, "it is bad")

    assert len(caplog.records) == MAX_OF_ADDRESS


@pytest.mark.parametrize(
    ("client", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.0.0.9", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::1", False),
    ],
)
def test_a_client_of_this_machine_is_known_as_one(client: str, is_local: bool) -> None:
    connection, _ = connect(listener(), client)
    assert connection.info.is_local is is_local


def test_records_have_their_pipe_as_long_as_there_are_connections() -> None:
    made = listener()
    first, second = connect(made)[0], connect(made)[0]
    pipe = made.open_pipe()
    assert made.open_pipe() is pipe

    first.connection_lost(None)
    assert pipe.put(b"x", 1) == 1

    second.connection_lost(None)
    with pytest.raises(OSError, match="Bad file descriptor"):
        pipe.put(b"x", 1)


# ---- administrators beyond the limits --------------------------------------------------------------------

ADMINISTRATOR, USER = "User:admin", "User:alice"


class Gate:
    """Lets clients log in; the test says when a client has."""

    counts = LoginCounts()

    def begin(self, connection: Connection) -> None:
        connection.serve_by(Service(serve=lambda connection, frame: None, fail=lambda *_: None))


def full_listener_with_logins(
    quota: ConnectionQuota | None = None, name: str = "CLIENTS"
) -> tuple[Listener, Timers]:
    """Return a listener whose limit of connections is reached."""
    served: list[bytes] = []
    authorizer = Authorizer(AuthorizerSettings(super_users=frozenset({ADMINISTRATOR})))
    never = Timers()
    to = Listener(
        name=name,
        service=Service(
            serve=lambda connection, frame: served.append(bytes(frame)),
            fail=lambda connection, frame, error: None,
        ),
        memory=ReceiveMemory(),
        quota=quota or ConnectionQuota(ConnectionLimits(max_connections=1)),
        limits=ListenerLimits(),
        start_task=lambda work: cast("asyncio.Task[Any]", work),
        gathered=GatheredAnswers(never.loop),
        access_of=authorizer.access,
        login_gate=Gate(),
    )
    to.loop = never.loop
    connect(to)
    return to, never


def log_in(to: Listener, principal: str) -> tuple[Connection, Transport]:
    connection, transport = connect(to)
    connection.identify(principal)
    connection.serve_after_login(to.service)
    return connection, transport


def test_an_administrator_who_logs_in_from_elsewhere_is_served_beyond_the_limit() -> None:
    to, timers = full_listener_with_logins()

    connection, transport = log_in(to, ADMINISTRATOR)
    _send(connection, frame(ApiKey.METADATA))

    assert not transport.is_aborted and timers.pending == []


def test_a_user_who_logs_in_beyond_the_limit_is_served_nothing() -> None:
    to, _ = full_listener_with_logins()

    connection, transport = log_in(to, USER)
    _send(connection, frame(ApiKey.METADATA))

    assert transport.is_aborted


@pytest.mark.parametrize(
    ("verify_mode", "is_let_in"),
    [(ssl.CERT_NONE, False), (ssl.CERT_OPTIONAL, True), (ssl.CERT_REQUIRED, True)],
)
def test_with_tls_alone_a_client_that_may_show_a_certificate_is_let_in_beyond_the_limit(
    verify_mode: ssl.VerifyMode, is_let_in: bool
) -> None:
    to, context = (
        listener(ConnectionQuota(ConnectionLimits(max_connections=1))),
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
    )
    context.verify_mode = verify_mode
    to.tls = ListenerTls(ServerTls(context, lambda certificate: "User:anybody"))
    connect(to)

    _, transport = connect(to)

    assert transport.is_aborted is not is_let_in


def test_a_client_beyond_the_limit_that_does_not_log_in_in_time_is_closed() -> None:
    to, timers = full_listener_with_logins()

    _, transport = connect(to)
    assert not transport.is_aborted
    timers.pending[0].run()

    assert transport.is_aborted


def test_administrators_beyond_the_limit_are_few() -> None:
    to, _ = full_listener_with_logins()

    kept = [log_in(to, ADMINISTRATOR) for _ in range(MAX_ADMINISTRATORS)]
    one_more, transport = log_in(to, ADMINISTRATOR)
    _send(one_more, frame(ApiKey.METADATA))
    for connection, _ in kept:
        _send(connection, frame(ApiKey.METADATA))
    kept[0][0].connection_lost(None)
    successor, successor_transport = log_in(to, ADMINISTRATOR)
    _send(successor, frame(ApiKey.METADATA))

    assert transport.is_aborted
    assert not any(one.is_aborted for _, one in kept)
    assert not successor_transport.is_aborted


def test_many_connections_that_may_log_in_push_no_peer_out() -> None:
    quota = ConnectionQuota(ConnectionLimits(max_connections=1))
    of_clients, _ = full_listener_with_logins(quota)
    of_peers = listener(quota, "PEERS", is_for_peers=True)
    of_peers.loop = Timers().loop
    _, peer = connect(of_peers)

    connections = [connect(of_clients, f"10.0.1.{number}")[1] for number in range(MAX_UNPROVEN + 2)]

    assert not peer.is_aborted
    assert [one.is_aborted for one in connections] == [True, True] + [False] * MAX_UNPROVEN


def test_many_connections_of_one_address_push_each_other_out_while_an_administrator_logs_in() -> None:
    to, _ = full_listener_with_logins()
    administrator, transport = connect(to, "10.9.9.9")

    connections = [connect(to, "10.0.0.2")[1] for _ in range(3 * MAX_UNPROVEN)]
    administrator.identify(ADMINISTRATOR)
    administrator.serve_after_login(to.service)
    _send(administrator, frame(ApiKey.METADATA))

    assert not transport.is_aborted
    assert [one.is_aborted for one in connections].count(False) == MAX_LOGGING_IN


def test_many_connections_of_one_address_push_each_other_out_at_a_listener_for_peers() -> None:
    to, _ = full_listener_for_peers()
    _, peer = connect(to, "10.9.9.9")

    connections = [connect(to, "10.0.0.2")[1] for _ in range(2 * MAX_UNPROVEN)]

    assert not peer.is_aborted
    assert [one.is_aborted for one in connections].count(False) == MAX_UNPROVEN - 1


def test_rights_that_everyone_has_make_no_administrator() -> None:
    to, _ = full_listener_with_logins()
    to.access_of = Authorizer(AuthorizerSettings(allow_everyone_if_no_acl_found=True)).access

    connection, transport = log_in(to, USER)
    _send(connection, frame(ApiKey.METADATA))

    assert transport.is_aborted


def test_the_place_of_an_administrator_is_not_for_callers_of_a_nodes_rest_api() -> None:
    to, _ = full_listener_with_logins()
    of_admin, admin_transport = log_in(to, ADMINISTRATOR)
    of_user, user_transport = log_in(to, ADMINISTRATOR)

    of_admin.act_for(Caller(ADMINISTRATOR, "10.0.0.3", is_local=False))
    of_user.act_for(Caller(USER, "10.0.0.3", is_local=False))

    assert not admin_transport.is_aborted and user_transport.is_aborted
