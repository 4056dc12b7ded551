"""Logins by SASL, state by state: the requests allowed in each, and errors that close the connection."""

import asyncio
import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.sasl_gate import SaslGate
from ottla.node.net.answers import Answer, Pending
from ottla.node.net.connection import Connection
from ottla.node.net.connection_quota import ConnectionLimits, ConnectionQuota
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.listener import Listener, ListenerLimits
from ottla.node.net.login import LOGIN_SECONDS
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.security.sasl.failed_logins import FailedLogins
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.settings.failed_login_settings import DEFAULT_BURST
from ottla.node.settings.sasl_settings import ListenerSasl, MechanismSettings
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersionsRequest
from ottla.node.wire.messages.list_groups import ListGroupsRequest
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.node.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.replica.replica_world import ReplicaWorld
from tests.unit.node.security.sasl.test_scram import final_of

VERSIONS, HANDSHAKE, AUTHENTICATE = ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
SHA_512 = ScramMechanism.SCRAM_SHA_512
SALT = b"salt"
SALTED = hashlib.pbkdf2_hmac("sha512", b"secret", SALT, 4_096)
KEPT = {("anna", SHA_512): ScramCredential(SALT, *keys_of(SHA_512, SALTED), 4_096)}
INVALID = "Authentication failed: Invalid username or password"


class Loop:
    """The loop of a test, whose timers fire when the test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now_s = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.create_future = loop.create_future
        self.call_soon = loop.call_soon

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> Any:
        timer = (self.now_s + delay_s, lambda: callback(*args))
        self.timers.append(timer)
        return Timer(self.timers, timer)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        due = [one for one in self.timers if one[0] <= self.now_s]
        self.timers[:] = [one for one in self.timers if one not in due]
        for _, callback in due:
            callback()


class Timer:
    """The handle of a timer of that loop."""

    def __init__(self, timers: list[Any], timer: Any) -> None:
        self._timers, self._timer = timers, timer

    def cancel(self) -> None:
        if self._timer in self._timers:
            self._timers.remove(self._timer)


class Transport(asyncio.Transport):
    """A transport that keeps what was sent."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 40_000), "sockname": ("10.0.0.2", 9092)})
        self.sent = b""
        self.is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def writelines(self, buffers: Any) -> None:
        self.sent += b"".join(map(bytes, buffers))

    def abort(self) -> None:
        self.is_closed = True

    def close(self) -> None:
        self.is_closed = True


class Client:
    """A client of a SASL listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *mechanisms: str,
        passwords: dict[str, str] | None = None,
        max_reauth_ms: int = 0,
        failures: FailedLogins | None = None,
        executor: HandshakeExecutor | None = None,
        full_listener_for_nodes: bool = False,
        is_for_nodes_only: bool = False,
    ) -> None:
        self.real, self.loop = loop, Loop(loop)
        world = ReplicaWorld()
        world.supported_features = {}  # type: ignore[attr-defined]
        self.dispatcher = dispatcher = dispatcher_of(world)
        self.settings = ListenerSasl(
            listener="SASL",
            mechanisms={
                name: MechanismSettings(
                    name=name,
                    max_reauth_ms=max_reauth_ms,
                    passwords=passwords if name == "PLAIN" else None,
                )
                for name in mechanisms or ("PLAIN", "SCRAM-SHA-512")
            },
            max_receive_bytes=1_000,
            failed_delay_ms=100,
        )
        self.failures = FailedLogins() if failures is None else failures
        self.gate = SaslGate(
            lambda: self.settings,
            dispatcher,
            executor=executor or HandshakeExecutor(),
            failures=self.failures,
            unique=bytes,
            false_credentials=FalseCredentials(dict, key=b"key"),
            credential_of=lambda user, mechanism: KEPT.get((user, mechanism)),
            on_failed_login=lambda *login: self.failed_logins.append(login),
            is_for_nodes_only=is_for_nodes_only,
            loop_of=lambda: cast(Any, self.loop),
        )
        self.failed_logins: list[tuple[str, ...]] = []  # events of the audit log
        self.listener = Listener(
            name="SASL",
            service=dispatcher.service,
            memory=ReceiveMemory(),
            quota=ConnectionQuota(ConnectionLimits(max_connections=0) if full_listener_for_nodes else None),
            is_for_peers=full_listener_for_nodes,
            limits=ListenerLimits(),
            start_task=loop.create_task,
            gathered=GatheredAnswers(loop),
            access_of=Access,
            login_gate=self.gate,
        )
        self.listener.loop = loop
        self.complaints: list[str] = []
        self.listener.log_rejected = lambda info, reason: self.complaints.append(reason)  # type: ignore[method-assign]
        self.connection, self.transport = Connection(self.listener), Transport()
        self.connection.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """Send bytes, and let the loop do what is ready."""

        async def arrive() -> None:
            rest = data
            while rest and not self.transport.is_closed:
                room = self.connection.get_buffer(-1)
                count = min(len(room), len(rest))
                room[:count], rest = rest[:count], rest[count:]
                self.connection.buffer_updated(count)

        self.real.run_until_complete(arrive())
        self.turn()

    def turn(self) -> None:
        for _ in range(6):
            self.real.run_until_complete(asyncio.sleep(0))

    def wait(self, seconds: float) -> None:
        self.loop.wait(seconds)
        self.turn()

    def take(self, key: int, version: int) -> Any:
        """Return the next response, which must be to a request of this kind."""
        assert self.transport.sent, f"no answer; complaints: {self.complaints}"
        (size,) = struct.unpack_from(">i", self.transport.sent)
        sent, self.transport.sent = self.transport.sent[: size + 4], self.transport.sent[size + 4 :]
        return codec.decode_response(key, version, sent, 4)[1]

    def ask(self, key: int, version: int, request: Any) -> Any:
        self.send(request_frame(key, version, request))
        return self.take(key, version)

    def shake_hands(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.ask(AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))

    def fails(self, token: bytes) -> str:
        """Send a token that fails; return the error message after the delay of the response."""
        self.send(request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token)))
        assert not self.transport.sent and not self.transport.is_closed, "the response is delayed"
        self.wait(0.11)
        response = self.take(AUTHENTICATE, 2)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert self.transport.is_closed and not self.transport.sent
        return str(response.error_message)

    def is_served(self) -> bool:
        """Return True if every request is served."""
        self.send(request_frame(VERSIONS, 0, ApiVersionsRequest()))
        if self.transport.is_closed:
            return False
        return bool(self.take(VERSIONS, 0).error_code == 0)

    @property
    def principal(self) -> str:
        return self.connection.info.access.principal


def request_frame(key: int, version: int, request: Any) -> bytes:
    return b"".join(codec.encode_request(key, version, 7, "test", request))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def client(loop: asyncio.AbstractEventLoop) -> Client:
    return Client(loop, passwords={"anna": "secret", "bert": "other"})


def versions(version: int = 3, name: str = "test") -> bytes:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return request_frame(VERSIONS, version, request)


def log_in(client: Client) -> None:
    assert client.shake_hands().error_code == 0
    assert client.authenticate(b"\0anna\0secret").error_code == 0


# ---- the states ------------------------------------------------------------------------------------------


def test_a_client_asks_for_versions_chooses_a_mechanism_and_logs_in(client: Client) -> None:
    client.send(versions())
    assert client.take(VERSIONS, 3).error_code == 0
    chosen = client.shake_hands()
    assert (chosen.error_code, chosen.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-512"])
    done = client.authenticate(b"\0anna\0secret")

    assert (done.error_code, done.auth_bytes, done.session_lifetime_ms) == (0, b"", 0)
    assert client.principal == "User:anna" and client.connection.info.sasl_mechanism == "PLAIN"
    assert client.is_served()
    assert not client.loop.timers and client.connection.login is None, "the login was dropped"
    assert client.gate.counts.by_name() == {
        "successful": 1,
        "failed": 0,
        "successful_again": 0,
        "failed_again": 0,
        "expired": 0,
    }


def test_scram_takes_two_messages(client: Client) -> None:
    client.shake_hands("SCRAM-SHA-512")
    bare = b"n=anna,r=nonce"
    first = client.authenticate(b"n,," + bare)
    assert client.principal == "User:ANONYMOUS"
    signature = client.authenticate(
        final_of_kept(b"secret", bare, bytes(first.auth_bytes)),
    )

    assert signature.error_code == 0 and bytes(signature.auth_bytes).startswith(b"v=")
    assert client.principal == "User:anna"


def final_of_kept(password: bytes, bare: bytes, answer: bytes) -> bytes:
    return final_of(SHA_512, password.decode(), bare, answer, salt=SALT)


@pytest.mark.parametrize(("version", "name", "code"), [(99, "test", 35), (3, "b a d", 42)])
def test_versions_that_were_refused_may_be_asked_for_again(
    client: Client, version: int, name: str, code: int
) -> None:
    request = bytearray(versions(3, name))
    request[6:8] = version.to_bytes(2)
    client.send(bytes(request))
    assert client.take(VERSIONS, 0 if version == 99 else 3).error_code == code

    client.send(versions())
    assert client.take(VERSIONS, 3).error_code == 0


def test_versions_are_asked_for_once(client: Client) -> None:
    client.send(versions())
    client.take(VERSIONS, 3)
    client.send(versions())

    assert client.transport.is_closed and not client.transport.sent
    assert "Unexpected ApiVersions request" in client.complaints[0]


@pytest.mark.parametrize("after_versions", [False, True])
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.LIST_GROUPS, AUTHENTICATE, 12_001])
def test_any_other_request_before_a_mechanism_is_chosen_closes_the_connection_unanswered(
    client: Client, key: int, after_versions: bool
) -> None:
    if after_versions:
        client.send(versions())
        client.take(VERSIONS, 3)
    client.send(struct.pack(">ihhih", 10, key, 0, 7, -1))

    assert client.transport.is_closed and not client.transport.sent
    assert "during SASL handshake" in client.complaints[0]


def test_an_unknown_mechanism_is_answered_with_the_enabled_ones_and_closes(client: Client) -> None:
    client.send(request_frame(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="GSSAPI")))
    assert not client.transport.sent
    client.wait(0.11)

    refused = client.take(HANDSHAKE, 1)
    assert (refused.error_code, refused.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-512"])
    assert client.transport.is_closed
    assert client.complaints == ["Failed authentication: Unsupported SASL mechanism GSSAPI"]


def test_another_request_during_a_login_is_refused_by_its_own_answer(client: Client) -> None:
    client.shake_hands()
    client.send(request_frame(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()))
    client.wait(0.11)

    assert client.take(ApiKey.LIST_GROUPS, 4).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.transport.is_closed


def test_a_version_of_authenticate_that_is_not_served_closes(client: Client) -> None:
    client.shake_hands()
    client.send(struct.pack(">ihhih", 10, AUTHENTICATE, 9, 7, -1))

    assert client.transport.is_closed and not client.transport.sent


def test_after_version_0_of_the_handshake_tokens_have_no_header(client: Client) -> None:
    client.shake_hands(version=0)
    client.send(struct.pack(">i", 12) + b"\0anna\0secret")

    assert client.transport.sent == b"\0\0\0\0"
    client.transport.sent = b""
    assert client.principal == "User:anna" and client.is_served()


def test_a_failed_token_without_a_header_closes_the_connection(client: Client) -> None:
    client.shake_hands(version=0)
    client.send(struct.pack(">i", 11) + b"\0anna\0wrong")
    assert not client.transport.is_closed
    client.wait(0.11)

    assert client.transport.is_closed and not client.transport.sent


def test_after_a_login_or_where_none_is_needed_the_requests_of_a_login_are_refused(client: Client) -> None:
    log_in(client)

    assert client.shake_hands().error_code == ErrorCode.ILLEGAL_SASL_STATE
    refused = client.authenticate(b"")
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
    assert client.is_served()


# ---- failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "token", "message"),
    [
        ("PLAIN", b"\0anna\0wrong", INVALID),
        ("PLAIN", b"\0nobody\0secret", INVALID),
        (
            "PLAIN",
            b"garbage",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "PLAIN",
        ),
        (
            "SCRAM-SHA-512",
            b"garbage",
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "SCRAM-SHA-512",
        ),
    ],
)
def test_a_failed_login_gets_kafkas_error_message(
    client: Client, mechanism: str, token: bytes, message: str
) -> None:
    client.shake_hands(mechanism)

    assert client.fails(token) == message
    assert client.principal == "User:ANONYMOUS" and client.gate.counts.failed == 1


def test_users_of_scram_log_in_by_plain_too_with_their_keys_made_in_a_thread(
    loop: asyncio.AbstractEventLoop,
) -> None:
    for token, code in ((b"\0anna\0secret", 0), (b"\0anna\0wrong", 58), (b"\0nobody\0secret", 58)):
        client = Client(loop)
        client.shake_hands()
        client.send(request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token)))
        for _ in range(10_000):
            if client.transport.sent:
                break
            loop.run_until_complete(asyncio.sleep(0.001))
            client.wait(0.001)
        assert client.take(AUTHENTICATE, 2).error_code == code
        assert client.principal == ("User:ANONYMOUS" if code else "User:anna")


def test_requests_sent_with_a_login_are_served_after_it_but_not_after_a_failure(
    loop: asyncio.AbstractEventLoop,
) -> None:
    for password, is_served in ((b"secret", True), (b"wrong", False)):
        client = Client(loop, passwords={"anna": "secret"})
        client.send(
            request_frame(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            + request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0anna\0" + password))
            + request_frame(VERSIONS, 0, ApiVersionsRequest())
        )
        client.wait(0.11)
        assert client.take(HANDSHAKE, 1).error_code == 0
        assert client.take(AUTHENTICATE, 2).error_code == (0 if is_served else 58)
        assert bool(client.transport.sent) == is_served and client.transport.is_closed != is_served


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0", b"\0\0\0\3abc", b"\0\0\0\x40" + b"\xff" * 64]
)
def test_garbage_closes_the_connection_unanswered(client: Client, garbage: bytes) -> None:
    client.send(garbage)

    assert client.transport.is_closed and not client.transport.sent and len(client.complaints) == 1


def test_a_large_request_before_the_login_is_refused_by_its_size_and_not_after_it(client: Client) -> None:
    log_in(client)
    client.send((1_001).to_bytes(4))
    assert not client.transport.is_closed

    other = Client(client.real)
    other.send((1_001).to_bytes(4))
    assert other.transport.is_closed and "sasl.server.max.receive.size" in other.complaints[0]


def test_a_login_that_takes_too_long_is_closed(client: Client) -> None:
    client.shake_hands()
    client.wait(9.9)
    assert not client.transport.is_closed
    client.wait(0.2)

    assert client.transport.is_closed
    assert client.complaints == ["its authentication took longer than 10 s"]


def test_an_invalid_mechanism_name_is_not_logged(client: Client) -> None:
    """It may be a password from the wrong place of a client's settings."""
    for wrong in ("secret-word", "SECRET WORD", "S" * 21, ""):
        other = Client(client.real, passwords={})
        other.send(request_frame(HANDSHAKE, 1, SaslHandshakeRequest(mechanism=wrong)))
        other.wait(0.11)

        assert other.take(HANDSHAKE, 1).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert other.complaints == ["Failed authentication: Unsupported SASL mechanism with an invalid name"]
        assert other.failed_logins[0][3:] == ("", "Unsupported SASL mechanism with an invalid name")


def test_a_client_that_leaves_in_the_middle_of_a_login_leaves_nothing_behind(client: Client) -> None:
    client.shake_hands()
    client.connection.connection_lost(None)

    assert not client.loop.timers


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_that_leaves_before_it_has_sent_a_token_has_not_failed(
    client: Client, mechanism: str
) -> None:
    client.shake_hands(mechanism)
    client.connection.connection_lost(None)

    assert client.gate.counts.failed == 0 and not client.failed_logins and not len(client.failures)


@pytest.mark.parametrize("user", ["anna", "nobody"])
@pytest.mark.parametrize("waits", [False, True], ids=["disconnects", "waits"])
def test_a_client_that_leaves_with_the_salt_of_a_user_counts_as_a_failed_login(
    client: Client, user: str, waits: bool
) -> None:
    client.shake_hands("SCRAM-SHA-512")
    assert client.authenticate(f"n,,n={user},r=nonce".encode()).error_code == 0
    if waits:
        client.wait(LOGIN_SECONDS)
        assert client.transport.is_closed
    client.connection.connection_lost(None)

    assert client.gate.counts.failed == 1
    assert len(client.failures) == 1, "and against its address"
    reason = (
        "its authentication took longer than 10 s" if waits else "the client disconnected during its login"
    )
    assert client.failed_logins == [(user, "10.0.0.1", "SASL", "SCRAM-SHA-512", reason)]


def test_unused_salts_count_as_failures_of_an_address(
    loop: asyncio.AbstractEventLoop,
) -> None:
    failures = FailedLogins()
    for number in range(DEFAULT_BURST + 101):
        client = Client(loop, failures=failures)
        client.shake_hands("SCRAM-SHA-512")
        client.send(
            request_frame(
                AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=f"n,,n=user-{number},r=x".encode())
            )
        )
        if client.transport.is_closed:
            break
        client.connection.connection_lost(None)

    assert client.transport.is_closed and number >= DEFAULT_BURST, "rejected unread"
    before = client.gate.counts.failed
    client.connection.connection_lost(None)
    assert client.gate.counts.failed == before, "rejected logins do not extend the delay"


class FullExecutor:
    """An executor with too many waiting logins."""

    def submit(
        self,
        address: str,
        work: Callable[[], object],
        settle: Callable[[object], None],
        refuse: Callable[[], None],
    ) -> None:
        refuse()


class SlowExecutor:
    """An executor that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(
        self,
        address: str,
        work: Callable[[], object],
        settle: Callable[[object], None],
        refuse: Callable[[], None],
    ) -> None:
        self.waiting.append(lambda: settle(work()))


@pytest.mark.parametrize("password", [b"secret", b"wrong"])
def test_a_client_that_leaves_while_its_password_is_checked_has_failed_once(
    loop: asyncio.AbstractEventLoop, password: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    executor = SlowExecutor()
    client = Client(loop, "PLAIN", executor=cast(HandshakeExecutor, executor))
    client.shake_hands()
    client.send(request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0anna\0" + password)))
    client.connection.connection_lost(None)
    for answer in executor.waiting:
        answer()
    client.turn()

    counts = client.gate.counts
    assert (counts.failed, counts.successful, len(client.failed_logins)) == (1, 0, 1)
    assert client.principal == "User:ANONYMOUS" and not client.loop.timers and caplog.text == ""


def test_a_login_for_which_a_node_is_too_busy_is_not_held_against_its_address(
    loop: asyncio.AbstractEventLoop,
) -> None:
    # With the users of the cluster, whose passwords take milliseconds to check.
    client = Client(loop, "PLAIN", executor=cast(HandshakeExecutor, FullExecutor()))
    client.shake_hands()
    client.send(request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0anna\0secret")))
    assert client.transport.is_closed and "too many logins wait" in client.complaints[0]
    client.connection.connection_lost(None)

    assert client.gate.counts.failed == 0 and not client.failed_logins and not len(client.failures)


def test_a_client_that_has_logged_in_leaves_without_a_failure(client: Client) -> None:
    log_in(client)
    client.connection.connection_lost(None)

    assert client.gate.counts.failed == 0 and not len(client.failures)


def test_failed_logins_of_an_address_are_delayed_longer_and_finally_rejected_unread(
    loop: asyncio.AbstractEventLoop,
) -> None:
    failures = FailedLogins()
    for _ in range(DEFAULT_BURST + 19):
        failures.note("10.0.0.1", 100.0)
    client = Client(loop, passwords={"anna": "secret"}, failures=failures)
    client.shake_hands()
    client.send(request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0anna\0wrong")))
    client.wait(1.9)
    assert not client.transport.sent
    client.wait(0.2)
    assert client.take(AUTHENTICATE, 2).error_code == 58

    for _ in range(200):
        failures.note("10.0.0.1", 100.0)
    client = Client(loop, passwords={"anna": "secret"}, failures=failures)
    client.shake_hands()
    client.send(request_frame(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0anna\0secret")))
    assert client.transport.is_closed and client.principal == "User:ANONYMOUS"


def test_nodes_at_a_listener_of_their_own_log_in_whatever_others_at_their_address_have_failed(
    loop: asyncio.AbstractEventLoop,
) -> None:
    failures = FailedLogins()
    for _ in range(DEFAULT_BURST + 200):
        failures.note("10.0.0.1", 100.0)
    client = Client(loop, passwords={"anna": "secret"}, failures=failures, is_for_nodes_only=True)

    log_in(client)

    assert client.principal == "User:anna"


# ---- logins that expire ----------------------------------------------------------------------------------


@pytest.fixture
def limited(loop: asyncio.AbstractEventLoop) -> Client:
    client = Client(loop, passwords={"anna": "secret", "bert": "other"}, max_reauth_ms=5_000)
    client.shake_hands()
    assert client.authenticate(b"\0anna\0secret").session_lifetime_ms == 5_000
    return client


def test_a_client_logs_in_again_over_the_same_connection(limited: Client) -> None:
    for _ in range(3):
        limited.wait(4)
        assert limited.is_served()
        log_in(limited)
    limited.wait(4)

    assert limited.is_served() and limited.principal == "User:anna"
    assert limited.gate.counts.successful_again == 3 and len(limited.loop.timers) == 1


def test_a_client_that_does_not_log_in_again_is_closed_at_its_next_request(limited: Client) -> None:
    limited.wait(5.1)
    assert not limited.transport.is_closed, "it may still log in"

    assert not limited.is_served()
    assert not limited.transport.sent and limited.gate.counts.expired == 1


def test_even_an_expired_login_may_be_renewed(limited: Client) -> None:
    limited.wait(60)
    log_in(limited)

    assert limited.is_served()


def test_there_is_at_least_a_second_between_two_logins(limited: Client) -> None:
    limited.wait(2)
    log_in(limited)
    limited.wait(0.5)

    assert limited.shake_hands().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert limited.is_served()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0bert\0other", "Cannot change principals during re-authentication from User.anna: User.bert"),
        (b"\0anna\0wrong", INVALID),
        (
            b"",
            "Authentication failed during re-authentication due to invalid credentials with SASL mechanism "
            "PLAIN",
        ),
    ],
)
def test_a_client_that_fails_to_log_in_again_is_closed(limited: Client, token: bytes, message: str) -> None:
    limited.wait(2)
    limited.shake_hands()

    assert limited.fails(token) == message
    assert limited.gate.counts.failed_again == 1 and limited.principal == "User:anna"


def test_another_mechanism_fails_with_the_next_token(limited: Client) -> None:
    limited.wait(2)
    assert limited.shake_hands("SCRAM-SHA-512").error_code == 0

    assert limited.fails(b"n,,n=anna,r=nonce") == (
        "SASL mechanism 'SCRAM-SHA-512' requested by client is not supported for re-authentication of "
        "mechanism 'PLAIN'"
    )


def test_nothing_else_is_served_while_a_client_logs_in_again(limited: Client) -> None:
    limited.wait(2)
    limited.shake_hands()
    limited.send(request_frame(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()))
    limited.wait(0.11)

    assert limited.take(ApiKey.LIST_GROUPS, 4).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert limited.transport.is_closed


def test_settings_that_change_hold_for_the_next_login(limited: Client) -> None:
    limited.wait(2)
    plain = replace(limited.settings.mechanisms["PLAIN"], max_reauth_ms=9_000, passwords={"anna": "new"})
    limited.settings = replace(limited.settings, mechanisms={"PLAIN": plain})
    assert limited.shake_hands().mechanisms == ["PLAIN"]
    limited.settings = replace(limited.settings, mechanisms={})

    done = limited.authenticate(b"\0anna\0new")

    assert (done.error_code, done.session_lifetime_ms) == (0, 9_000)


@pytest.mark.parametrize("waits_s", [0.0, 6.0])
def test_a_client_logs_in_again_while_answers_are_owed_and_gets_all_in_order(
    limited: Client, monkeypatch: pytest.MonkeyPatch, waits_s: float
) -> None:
    """The login of the client may have expired after `waits_s`."""
    acknowledged = limited.real.create_future()
    serve = limited.dispatcher.serve

    def serve_pending(connection: Connection, frame: memoryview) -> Answer | Pending:
        if frame[:2] != ApiKey.PRODUCE.to_bytes(2):
            return serve(connection, frame)
        correlation_id = bytes(frame[4:8])
        return Pending(acknowledged, lambda _: [b"\0\0\0\4" + correlation_id], is_carried_out=True)

    monkeypatch.setattr(limited.dispatcher, "serve", serve_pending)
    limited.wait(2.0)

    limited.send(struct.pack(">ihhih", 10, ApiKey.PRODUCE, 9, 1_234, -1))
    limited.wait(waits_s)
    limited.send(request_frame(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")))
    assert not limited.transport.sent, "later requests are answered later"
    acknowledged.set_result(None)
    limited.turn()

    assert limited.transport.sent[:8] == struct.pack(">ii", 4, 1_234)
    limited.transport.sent = limited.transport.sent[8:]
    assert limited.take(HANDSHAKE, 1).error_code == 0
    again = limited.authenticate(b"\0anna\0secret")
    assert (again.error_code, again.session_lifetime_ms) == (0, 5_000)
    assert limited.gate.counts.successful_again == 1 and limited.is_served()


# ---- listeners for nodes ---------------------------------------------------------------------------------


def test_a_client_beyond_the_limits_that_logs_in_is_served_nothing_but_the_proof_of_a_node(
    loop: asyncio.AbstractEventLoop,
) -> None:
    full = Client(loop, passwords={"anna": "secret"}, full_listener_for_nodes=True)

    log_in(full)
    assert not full.transport.is_closed
    full.send(request_frame(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()))

    assert full.transport.is_closed and not full.transport.sent
    assert "max.connections=0 is reached" in full.complaints[0]


@pytest.mark.parametrize("max_reauth_ms", [0, 5_000])
def test_a_node_beyond_the_limits_is_served_everything_once_it_has_proven_itself(
    loop: asyncio.AbstractEventLoop, max_reauth_ms: int
) -> None:
    full = Client(
        loop, passwords={"anna": "secret"}, max_reauth_ms=max_reauth_ms, full_listener_for_nodes=True
    )
    log_in(full)

    full.connection.recognize(7)

    assert full.is_served() and full.connection.info.peer_id == 7
    if max_reauth_ms:
        full.wait(4)
        log_in(full)
        full.wait(4)
        assert full.is_served() and full.gate.counts.successful_again == 1


# ---- the audit log ---------------------------------------------------------------------------------------


def test_the_audit_log_has_the_user_of_a_failed_login_and_never_the_password(client: Client) -> None:
    client.shake_hands()
    client.fails(b"\0anna\0guessed-password")

    ((user, address, listener, mechanism, reason),) = client.failed_logins
    assert (user, listener, mechanism) == ("anna", "SASL", "PLAIN")
    assert address == client.connection.info.client_host
    assert "guessed-password" not in reason and "wrong user or password" in reason


def test_a_login_that_takes_too_long_is_a_failed_one(client: Client) -> None:
    client.shake_hands()
    client.wait(LOGIN_SECONDS + 1)

    assert [login[4] for login in client.failed_logins] == ["its authentication took longer than 10 s"]


def test_an_unknown_mechanism_is_a_failed_login(client: Client) -> None:
    client.send(request_frame(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="GSSAPI")))

    assert client.failed_logins[0][4] == "Unsupported SASL mechanism GSSAPI"


def test_a_successful_login_is_not_in_the_audit_log(client: Client) -> None:
    log_in(client)

    assert client.failed_logins == []
