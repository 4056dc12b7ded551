"""Logins by SASL: the requests that a connection of a SASL listener may send until its client has logged in.

    VERSIONS      ApiVersions, or SaslHandshake at once
    HANDSHAKE     SaslHandshake
    MECHANISM     SaslHandshake, of a client that logs in again
    TOKENS        SaslAuthenticate, or tokens without a header after version 0 of SaslHandshake
    OTHER         a client that logs in again with another mechanism: its next request fails
    COMPLETE      everything; if the login expires, SaslHandshake begins another one
    FAILED        nothing; the response is delayed for a while, sent, and the connection is closed

    VERSIONS  -> HANDSHAKE   ApiVersions was answered without an error
    VERSIONS, HANDSHAKE, MECHANISM -> TOKENS   the listener has the mechanism
    MECHANISM -> OTHER       it is not the mechanism of the login before
    TOKENS    -> COMPLETE    the mechanism is satisfied
    COMPLETE  -> MECHANISM   SaslHandshake was received
    any       -> FAILED

The `Service` of a connection determines the requests that it may send; after a login that does not expire it
is the node's own, so none of this costs anything then. Texts and codes are those of Kafka's
SaslServerAuthenticator.
"""

import asyncio
import base64
import logging
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Final, cast

from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import SCRAM_MECHANISMS, ScramMechanism
from ottla.node.kafka_api.dispatch import Dispatcher, Read
from ottla.node.kafka_api.served_apis import SERVED, is_advertised
from ottla.node.net.answers import Answer, CloseConnection, Pending, Service
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.connection import Connection
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.login import LOGIN_SECONDS, LoginCounts, OnFailedLogin
from ottla.node.security.access_token import VerifiedToken
from ottla.node.security.sasl.exchange import Exchange
from ottla.node.security.sasl.failed_logins import FailedLogins
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.security.sasl.oauthbearer import OauthBearerExchange
from ottla.node.security.sasl.plain import PlainExchange, StoredPlainExchange
from ottla.node.security.sasl.sasl_error import SaslError
from ottla.node.security.sasl.scram import ScramExchange
from ottla.node.settings.sasl_settings import ListenerSasl
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.node.wire.messages.sasl_handshake import SaslHandshakeResponse
from ottla.node.wire.peer_api import api_of
from ottla.node.wire.sasl_mechanisms import OAUTHBEARER, PLAIN

MIN_SECONDS_BETWEEN_LOGINS: Final = 1.0  # on one connection, as in Kafka
NONCE_BYTES: Final = 24
_MECHANISM: Final = re.compile("[A-Z0-9_-]{1,20}")  # RFC 4422
_SIZE: Final = struct.Struct(">i")
_KEY: Final = struct.Struct(">h")

CredentialOf = Callable[[str, ScramMechanism], ScramCredential | None]

log = logging.getLogger(__name__)
_lines = ClientLines(log)


class State(Enum):
    """The states of a login."""

    VERSIONS = 0
    HANDSHAKE = 1
    MECHANISM = 2
    TOKENS = 3
    OTHER = 4
    COMPLETE = 5
    FAILED = 6


class SaslLogin:
    """The login of one connection."""

    __slots__ = (
        "before",
        "began_s",
        "connection",
        "exchange",
        "has_tried",
        "is_logged",
        "is_raw",
        "mechanism",
        "on_left",
        "settings",
        "state",
        "timer",
    )

    def __init__(self, connection: Connection, on_left: "Callable[[SaslLogin], None]") -> None:
        self.connection = connection
        self.on_left = on_left  # called when the connection has ended
        self.state = State.VERSIONS
        self.mechanism = ""
        self.settings: ListenerSasl | None = None  # set by SaslHandshake
        self.exchange: Exchange | None = None
        self.is_raw = False  # tokens have no header
        self.is_logged = False  # the failure is in the audit log
        self.has_tried = False  # a token was received: if the login ends without success, it has failed
        self.before: tuple[str, str] | None = None  # mechanism and principal of the login before
        self.began_s = 0.0  # when the client began to log in again
        self.timer: asyncio.TimerHandle | None = None  # limits the duration of the login, then its lifetime

    @property
    def kind(self) -> str:
        """Kafka's word for this login."""
        return "authentication" if self.before is None else "re-authentication"

    def cancel_timer(self) -> None:
        """Cancel the timer of this login."""
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()

    def connection_ended(self) -> None:
        """Drop the login; a client that disconnects between its first token and the end has failed."""
        self.cancel_timer()
        self.on_left(self)


class SaslGate:
    """Lets the clients of one listener log in."""

    def __init__(
        self,
        settings: Callable[[], ListenerSasl],
        dispatcher: Dispatcher,
        *,
        executor: HandshakeExecutor,
        failures: FailedLogins,
        unique: Callable[[int], bytes],
        false_credentials: FalseCredentials,
        credential_of: CredentialOf | None = None,
        verifier: Callable[[], Callable[[str], VerifiedToken] | None] = lambda: None,
        now_ms: Callable[[], int] | None = None,
        on_failed_login: OnFailedLogin | None = None,
        is_for_nodes_only: bool = False,
        loop_of: Callable[[], asyncio.AbstractEventLoop] = asyncio.get_running_loop,
    ) -> None:
        """`settings` returns the current settings; a login keeps the settings that it began with.

        `unique` returns random bytes; `false_credentials` are shown for users that do not exist. `failures`
        are shared by all listeners. `credential_of` finds the SCRAM users, by default those in the metadata
        on this node. `verifier` returns the function that verifies the tokens of OAUTHBEARER, which expire by
        the clock `now_ms`. Nodes of the cluster, at a listener of their own, are not rejected for the failed
        logins of others at their address: a follower would drop out for it.
        """
        self._is_for_nodes_only = is_for_nodes_only
        self.counts = LoginCounts()
        self._settings = settings
        self._dispatcher = dispatcher
        self._executor = executor
        self._failures = failures
        self._unique = unique
        self._false_credentials = false_credentials
        self._credential_of = credential_of or dispatcher.scram_credential
        self._verifier = verifier
        self._now_ms = now_ms
        self._on_failed_login = on_failed_login
        self._loop_of = loop_of
        self._login_service = Service(serve=self._serve, fail=self._fail)
        self._failed_service = Service(serve=_serve_failed, fail=self._fail)
        everything = dispatcher.service
        self._limited_service = Service(
            serve=self._serve_limited, serve_run=everything.serve_run, fail=everything.fail
        )
        self._expired_service = Service(serve=self._serve_expired, fail=everything.fail)

    def begin(self, connection: Connection) -> None:
        """Serve only the login on a new connection until its client has logged in."""
        connection.login = login = SaslLogin(connection, self._count_disconnected)
        self._begin(login)

    def _begin(self, login: SaslLogin) -> None:
        login.cancel_timer()
        login.timer = self._loop_of().call_later(LOGIN_SECONDS, self._time_out, login)
        login.connection.serve_by(self._login_service, self._settings().max_receive_bytes)

    # ---- after a login that expires ------------------------------------------------------------------

    def _serve_limited(self, connection: Connection, frame: memoryview) -> Answer | Pending:
        """Serve every request, and let the client log in again."""
        login = cast(SaslLogin, connection.login)
        if not _is_request(frame, ApiKey.SASL_HANDSHAKE) or not self._may_begin_again(login):
            return self._dispatcher.serve(connection, frame)
        login.before = (login.mechanism, connection.info.access.principal)
        login.began_s = self._loop_of().time()
        login.state = State.MECHANISM
        self._begin(login)
        return self._serve(connection, frame)

    def _serve_expired(self, connection: Connection, frame: memoryview) -> Answer | Pending:
        """Let the client log in again; any other request closes the connection."""
        login = cast(SaslLogin, connection.login)
        if _is_request(frame, ApiKey.SASL_HANDSHAKE) and self._may_begin_again(login):
            return self._serve_limited(connection, frame)
        self.counts.expired += 1
        raise CloseConnection("the client's login has expired, and it did not log in again")

    def _may_begin_again(self, login: SaslLogin) -> bool:
        return self._loop_of().time() - login.began_s >= MIN_SECONDS_BETWEEN_LOGINS

    # ---- a login -------------------------------------------------------------------------------------

    def _serve(self, connection: Connection, frame: memoryview) -> Answer | Pending:
        """Answer a request of a client that has not logged in; CloseConnection if it must log in first."""
        login = cast(SaslLogin, connection.login)
        if login.state is State.TOKENS and login.is_raw:
            return self._take_token(login, bytes(frame), None)
        if len(frame) < 8:
            raise CloseConnection("the client sent bytes before its login that are not a Kafka request")
        if login.state is State.OTHER:
            return self._refuse_other_mechanism(login, frame)
        (key,) = _KEY.unpack_from(frame)
        if key == ApiKey.API_VERSIONS and login.state is not State.TOKENS:
            return self._serve_versions(login, frame)
        if login.state is State.TOKENS:
            return self._serve_authenticate(login, frame, key)
        if key != ApiKey.SASL_HANDSHAKE:
            raise CloseConnection(f"Unexpected Kafka request of type {_name(key)} during SASL handshake.")
        waiting = self._dispatcher.wait_for_logins(connection.info.listener_name)
        if waiting is not None:  # the credentials are not loaded yet
            return Pending(waiting, lambda _: self._serve(connection, frame))
        return self._serve_handshake(login, frame)

    def _serve_versions(self, login: SaslLogin, frame: memoryview) -> Answer | Pending:
        if login.state is not State.VERSIONS:
            raise CloseConnection(
                f"Unexpected ApiVersions request received during SASL authentication state {login.state.name}"
            )
        answer = self._dispatcher.serve(login.connection, frame)
        version = int.from_bytes(frame[2:4])
        is_served = is_advertised(SERVED, ApiKey.API_VERSIONS, version)
        # After size and correlation id, the response begins with the error code.
        if type(answer) is not list or (is_served and not any(bytes(cast(bytes, answer[0])[8:10]))):
            login.state = State.HANDSHAKE
        return answer

    def _serve_handshake(self, login: SaslLogin, frame: memoryview) -> Answer | Pending:
        read = self._dispatcher.read(frame)
        login.settings = settings = self._settings()
        verify = self._verifier()
        # The verifier of tokens is created a moment after the settings have it.
        enabled = [one for one in settings.mechanisms if one != OAUTHBEARER or verify is not None]
        mechanism = read.request.mechanism
        if mechanism not in enabled:
            refused = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
            )
            # Other text may be a value from the wrong place of a client's settings, even a password.
            named = mechanism if _MECHANISM.fullmatch(mechanism) else "with an invalid name"
            return self._fail_login(
                login, self._dispatcher.answer(read, refused), f"Unsupported SASL mechanism {named}"
            )
        login.is_raw, login.is_logged, login.has_tried = read.version == 0, False, False
        if login.before is not None and login.before[0] != mechanism:
            login.state, login.mechanism = State.OTHER, mechanism
        else:
            login.state, login.mechanism = State.TOKENS, mechanism
            login.exchange = self._exchange(mechanism, settings, verify)
        return self._dispatcher.answer(read, SaslHandshakeResponse(mechanisms=enabled))

    def _exchange(
        self, mechanism: str, settings: ListenerSasl, verify: Callable[[str], VerifiedToken] | None
    ) -> Exchange:
        scram = SCRAM_MECHANISMS.get(mechanism)
        if scram is not None:
            return ScramExchange(
                scram,
                lambda user: self._credential_of(user, scram),
                lambda user: self._false_credentials.of(user, scram),
                nonce=base64.b64encode(self._unique(NONCE_BYTES)),
            )
        if mechanism == OAUTHBEARER:
            assert verify is not None
            return OauthBearerExchange(verify)
        assert mechanism == PLAIN, mechanism
        passwords = settings.mechanisms[PLAIN].passwords
        if passwords is None:
            return StoredPlainExchange(self._credential_of, self._false_credentials.of_password)
        return PlainExchange(passwords.get)

    def _serve_authenticate(self, login: SaslLogin, frame: memoryview, key: int) -> Answer | Pending:
        if key != ApiKey.SASL_AUTHENTICATE:
            reason = f"Unexpected Kafka request of type {_name(key)} during SASL authentication."
            answer = self._dispatcher.refuse(frame, KafkaError(ErrorCode.ILLEGAL_SASL_STATE, reason))
            if type(answer) is Pending:
                raise CloseConnection(reason)
            return self._fail_login(login, cast(Answer, answer), reason)
        read = self._dispatcher.read(frame)
        return self._take_token(login, bytes(read.request.auth_bytes), read)

    def _refuse_other_mechanism(self, login: SaslLogin, frame: memoryview) -> Answer | Pending:
        assert login.before is not None
        reason = (
            f"SASL mechanism '{login.mechanism}' requested by client is not supported for "
            f"re-authentication of mechanism '{login.before[0]}'"
        )
        read = None
        if not login.is_raw and _is_request(frame, ApiKey.SASL_AUTHENTICATE):
            read = self._dispatcher.read(frame)
        return self._refuse_token(login, reason, read)

    # ---- tokens --------------------------------------------------------------------------------------

    def _take_token(self, login: SaslLogin, token: bytes, read: Read | None) -> Answer | Pending:
        """Continue a login with a token; without `read` the answer has no header either."""
        address, exchange = login.connection.info.client_host, login.exchange
        assert exchange is not None
        if not self._is_for_nodes_only and self._failures.is_refused(address, self._loop_of().time()):
            reason = "too many logins from its address have failed"
            self._audit(login, reason)
            login.state = State.FAILED
            raise CloseConnection(reason)
        login.has_tried = True
        if not exchange.is_slow:
            return self._answer_token(login, _respond(exchange, token), read)
        done: asyncio.Future[object] = self._loop_of().create_future()

        def settle(outcome: object) -> None:
            if not done.done():
                done.set_result(outcome)

        self._executor.submit(
            address, lambda: _respond(exchange, token), settle, lambda: settle(_TOO_MANY_WAIT)
        )
        return Pending(done, lambda outcome: self._answer_token(login, outcome, read))

    def _answer_token(self, login: SaslLogin, outcome: object, read: Read | None) -> Answer | Pending:
        """Answer with the result of a mechanism for a token."""
        exchange = login.exchange
        if exchange is None:  # the client has disconnected meanwhile, which was counted
            raise CloseConnection(_LEFT)
        if isinstance(outcome, CloseConnection):
            login.state = State.FAILED  # a busy node does not count as a failure of the address
            raise outcome
        if isinstance(outcome, SaslError):
            message = outcome.message or (
                f"Authentication failed during {login.kind} due to invalid credentials with SASL mechanism "
                f"{login.mechanism}"
            )
            return self._refuse_token(login, message, read, f"{message} ({outcome})")
        assert isinstance(outcome, bytes)
        lifetime_ms = 0
        if login.mechanism == OAUTHBEARER and outcome:
            # The client should confirm this error, but may disconnect instead.
            self._audit(login, "its token is invalid")
        if exchange.is_complete:
            principal = f"User:{exchange.user}"
            if login.before is not None and login.before[1] != principal:
                before, now = (one.replace(":", ".", 1) for one in (login.before[1], principal))
                return self._refuse_token(
                    login, f"Cannot change principals during re-authentication from {before}: {now}", read
                )
            lifetime_ms = self._complete(login, principal, exchange.expires_ms)
        if read is None:
            return [_SIZE.pack(len(outcome)) + outcome]
        response = SaslAuthenticateResponse(auth_bytes=outcome, session_lifetime_ms=lifetime_ms)
        return self._dispatcher.answer(read, response)

    def _complete(self, login: SaslLogin, principal: str, expires_ms: int | None) -> int:
        """Serve a client that has logged in; return the lifetime of its login (ms), 0 without a limit."""
        connection = login.connection
        login.cancel_timer()
        login.state, login.exchange = State.COMPLETE, None
        if login.before is None:
            self.counts.successful += 1
            connection.identify(principal)
            connection.info = replace(connection.info, sasl_mechanism=login.mechanism)
        else:
            self.counts.successful_again += 1
        assert login.settings is not None
        max_reauth_ms = login.settings.mechanisms[login.mechanism].max_reauth_ms
        lifetime_ms = self._lifetime_ms(max_reauth_ms, expires_ms)
        if lifetime_ms <= 0:
            connection.login = None
            connection.serve_after_login(self._dispatcher.service)
            return 0
        connection.serve_after_login(self._limited_service)
        login.timer = self._loop_of().call_later(lifetime_ms / 1000, self._expire, login)
        return lifetime_ms

    def _lifetime_ms(self, max_reauth_ms: int, expires_ms: int | None) -> int:
        """Return the lifetime of a login in milliseconds, 0 for as long as the connection lasts.

        It ends when the client's token expires, but no later than the listener allows.
        """
        limits_ms = [max_reauth_ms]
        if expires_ms is not None:
            assert self._now_ms is not None
            # A token that has just expired, within the skew of clocks, still has a moment.
            limits_ms.append(max(1, expires_ms - self._now_ms()))
        return min((one for one in limits_ms if one > 0), default=0)

    def _expire(self, login: SaslLogin) -> None:
        login.timer = None
        if login.state is State.COMPLETE:
            login.connection.serve_by(self._expired_service)

    # ---- failures ------------------------------------------------------------------------------------

    def _refuse_token(
        self, login: SaslLogin, message: str, read: Read | None, reason: str = ""
    ) -> Answer | Pending:
        answer: Answer = None
        if read is not None:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message
            )
            answer = self._dispatcher.answer(read, response)
        return self._fail_login(login, answer, reason or message)

    def _fail_login(self, login: SaslLogin, answer: Answer, reason: str) -> Answer | Pending:
        """Delay the answer for a while, then send it and close the connection."""
        connection, loop = login.connection, self._loop_of()
        self._audit(login, reason)
        login.cancel_timer()
        self._count_failure(login)
        settings = self._settings()
        connection.serve_by(self._failed_service, settings.max_receive_bytes)
        held_s = self._failures.note(connection.info.client_host, loop.time())
        held_s = max(held_s, settings.failed_delay_ms / 1000)
        done: asyncio.Future[None] = loop.create_future()
        loop.call_later(held_s, _settle, done)

        def send(_: object) -> Answer:
            # After the answer, even if more requests of the connection have arrived.
            loop.call_soon(connection.refuse, f"Failed {login.kind}: {reason}")
            return answer

        return Pending(done, send, keeps_nothing=True)

    def _time_out(self, login: SaslLogin) -> None:
        login.timer = None
        reason = f"its {login.kind} took longer than {LOGIN_SECONDS:.0f} s"
        self._audit(login, reason)
        if login.has_tried:
            self._failures.note(login.connection.info.client_host, self._loop_of().time())
        self._count_failure(login)
        login.connection.abort(reason)

    def _count_disconnected(self, login: SaslLogin) -> None:
        """Count a client that disconnected between its first token and the end of its login.

        It has seen salts and challenges: a client that only wants those has tried to log in, too.
        """
        if login.state is not State.TOKENS or not login.has_tried:
            return
        self._audit(login, _LEFT)
        self._failures.note(login.connection.info.client_host, self._loop_of().time())
        self._count_failure(login)

    def _count_failure(self, login: SaslLogin) -> None:
        """Count the login as failed."""
        login.state, login.exchange = State.FAILED, None
        if login.before is None:
            self.counts.failed += 1
        else:
            self.counts.failed_again += 1

    def _audit(self, login: SaslLogin, reason: str) -> None:
        """Write a failed login to the audit log."""
        if self._on_failed_login is not None and not login.is_logged:
            login.is_logged = True
            info, exchange = login.connection.info, login.exchange
            user = exchange.user if exchange is not None else ""
            self._on_failed_login(user, info.client_host, info.listener_name, login.mechanism, reason)

    def _fail(self, connection: Connection, frame: memoryview, error: BaseException) -> Answer:
        info = connection.info
        message = "The login of connection %s failed."
        _lines.log(logging.ERROR, info.client_host, message, info.connection_id, error=error)
        raise CloseConnection("its login failed because of an internal error of this node")


_LEFT: Final = "the client disconnected during its login"
_TOO_MANY_WAIT: Final = CloseConnection("too many logins wait for their passwords to be checked")


def _respond(exchange: Exchange, token: bytes) -> object:
    """Return the answer of a mechanism, or its error; may run in a thread."""
    try:
        return exchange.respond(token)
    except SaslError as error:
        return kept(error)
    except Exception as error:
        _lines.log(logging.ERROR, "", "A SASL mechanism failed.", error=error)
        return SaslError("an internal error of this node")


def _settle(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


def _serve_failed(connection: Connection, frame: memoryview) -> Answer | Pending:
    raise CloseConnection("its login has failed")


def _is_request(frame: memoryview, key: ApiKey) -> bool:
    return bytes(frame[:2]) == _KEY.pack(key)


def _name(key: int) -> str:
    """Return the name of an API as Kafka writes it in errors."""
    try:
        return api_of(key).name
    except (ValueError, KafkaError):
        return str(key)
