"""A client's connection to one node: sends requests, returns answers in order, each within a timeout.

It starts with ApiVersions and then uses, for every API, the highest version that both sides know. Failures
are a `KafkaError`: NETWORK_EXCEPTION if the connection is lost or cannot be made, REQUEST_TIMED_OUT,
UNSUPPORTED_VERSION, and INVALID_REQUEST for bytes that are no response. After a timeout or invalid bytes the
connection is closed, since later answers could not be matched to requests (Kafka's clients do the same).

A connection may be encrypted, and start with a login. If the login expires, it is renewed before the first
request that would come too late: requests in flight are answered first, and others wait.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

from ottla.logstore.words.dial_errors import dial_problem, tls_problem
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.metadata_raft.peer_certificate import names_in
from ottla.node.secure_client.authentication import (
    RENEWED_AT,
    Response,
    authentication,
    next_step,
    takes_no_logins,
)
from ottla.node.secure_client.client_context import client_context
from ottla.node.secure_client.client_security import ClientSecurity, SaslLogin
from ottla.node.secure_client.dial_refusals import handshake_cut, tls_refusal, without_login
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.framing import NOT_KAFKA, FrameSplitter, foreign_protocol
from ottla.node.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME: Final = "ottla"
SOFTWARE_VERSION: Final = "0.2.0.dev0"
MAX_IN_FLIGHT: Final = 5  # as Kafka's max.in.flight.requests.per.connection; further requests wait
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024  # a fetch asks for far less; metadata of a huge cluster fits
DEFAULT_TIMEOUT_S: Final = 30.0
CLOCK_TOLERANCE_S: Final = 0.001  # the loop's clock has milliseconds
_API_VERSIONS_VERSION: Final = 4  # since 4 features with a minimum of 0 are listed; every node answers it

R = TypeVar("R")


class _Expected(NamedTuple):
    """An awaited answer, and its deadline."""

    answer: "asyncio.Future[Any]"
    deadline: float  # by the loop's clock
    timeout_s: float
    request_type: type[object]

    def exceeded(self, peer: str) -> KafkaError:
        name = self.request_type.__name__.removesuffix("Request")
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"{peer} did not answer {name} within {self.timeout_s:.3g} s"
        )


class _Awaited(NamedTuple):
    """A request that was sent, with all that is needed to read its answer."""

    correlation_id: int
    api_key: int
    version: int
    expected: _Expected


class _PeerProtocol(asyncio.BufferedProtocol):
    """The byte side of a connection: splits responses, and knows whether the peer takes more."""

    def __init__(self, peer: str, *, is_of_client: bool) -> None:
        """If `is_of_client`, errors say how to connect; between nodes, waiting may resolve them."""
        self.peer = peer
        self.is_of_client = is_of_client
        self.has_tls = False
        self.refusal: KafkaError | None = None  # that ended a client's connection
        self.transport: asyncio.Transport | None = None
        self.awaited: deque[_Awaited] = deque()
        self.writable = asyncio.Event()
        self.writable.set()
        self.loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self.loop.create_future()
        # One timer watches all requests: most are answered long before it fires.
        self._watch: asyncio.TimerHandle | None = None
        self._watched_deadline = 0.0
        self.foreign: str | None = None  # the protocol of a peer that does not speak Kafka's
        self.tls_problem = ""  # that ended the connection of a node
        self.may_need_login = False  # whether a missing login is the likely cause if the peer closes now
        self._splitter = FrameSplitter(MAX_RESPONSE_BYTES)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self.has_tls = transport.get_extra_info("sslcontext") is not None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._splitter.received(nbytes):
                self._answer(frame)
        except KafkaError as error:
            self.foreign = foreign_protocol(self._splitter.head)
            self.fail(error)

    def _answer(self, frame: memoryview) -> None:
        if not self.awaited:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{self.peer} sent an unexpected response")
        awaited = self.awaited.popleft()
        version = awaited.version
        # A node that does not know our ApiVersions says so in version 0 (KIP-511).
        if awaited.api_key == ApiKey.API_VERSIONS and bytes(frame[4:6]) == b"\x00\x23":
            version = 0
        try:
            correlation_id, response = codec.decode_response(awaited.api_key, version, frame)
            if correlation_id != awaited.correlation_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{self.peer} answered in the wrong order")
        except KafkaError as error:
            _give(awaited.expected.answer, error)
            raise
        if awaited.api_key != ApiKey.API_VERSIONS:
            self.may_need_login = False
        answer = awaited.expected.answer
        if not answer.done():
            answer.set_result(response)

    def wait_for(self, awaited: _Awaited) -> None:
        """Await the answer of a request that is sent now; `fail` if it comes too late."""
        self.awaited.append(awaited)
        deadline = awaited.expected.deadline
        if self._watch is None or deadline < self._watched_deadline:
            self._watch_until(deadline)

    def _watch_until(self, deadline: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch, self._watched_deadline = self.loop.call_at(deadline, self._fail_overdue), deadline

    def _fail_overdue(self) -> None:
        """Fail the first overdue request; usually the deadline was that of a request already answered."""
        self._watch = None
        waiting = [awaited.expected for awaited in self.awaited]
        first = min(waiting, key=lambda expected: expected.deadline, default=None)
        if first is None:
            return
        if first.deadline <= self.loop.time() + CLOCK_TOLERANCE_S:
            self.fail(first.exceeded(self.peer))
        else:
            self._watch_until(first.deadline)

    def fail(self, error: KafkaError) -> None:
        """Close the connection, and fail all awaited requests with `error`."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        while self.awaited:
            _give(self.awaited.popleft().expected.answer, error)
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # A TLS 1.3 server checks a client's certificate after the client has started to send.
        if self.is_of_client and isinstance(exc, ssl.SSLError):
            error = self.refusal = tls_refusal(self.peer, exc)
        elif self.may_need_login and self.awaited:
            error = without_login(self.peer)
        else:
            self.tls_problem = tls_problem(exc)
            message = f"the connection to {self.peer} was lost"
            if self.tls_problem:
                message = f"{message}: {self.tls_problem}"
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, message)
        self.fail(error)
        self.writable.set()
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()


class PeerClient:
    """An open connection to one node; made by `connect`, ended by `close`."""

    def __init__(self, protocol: _PeerProtocol, client_id: str) -> None:
        self.peer = protocol.peer
        self.versions: Mapping[int, tuple[int, int]] = {}
        self._protocol = protocol
        self._client_id = client_id
        self._next_correlation_id = 0
        self._turns = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._login: SaslLogin | None = None
        self.renew_login_at = float("inf")  # by the loop's clock
        self._renewal = asyncio.Lock()

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the connection has ended, no matter which side ended it."""
        self._protocol.lost.add_done_callback(lambda lost: callback())

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        security: ClientSecurity | None = None,
        tls: ssl.SSLContext | None = None,
        login: SaslLogin | None = None,
        check_names: Callable[[frozenset[str]], None] | None = None,
    ) -> "PeerClient":
        """Return a connection that has agreed on versions; NETWORK_EXCEPTION if no node answers there.

        `security` is that of a client of the cluster. INVALID_CONFIG if its TLS fails, an error of
        `authentication` if its login does. `tls` is a context to use instead of that of `security`, `login`
        the login of a node. `check_names` checks the names in the certificate of the other end before
        anything is sent to it.
        """
        peer = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        if tls is None and security is not None and security.tls is not None:
            tls = await asyncio.to_thread(client_context, security.tls)
        try:
            async with asyncio.timeout(timeout_s):
                _, protocol = await loop.create_connection(
                    lambda: _PeerProtocol(peer, is_of_client=security is not None),
                    host,
                    port,
                    ssl=tls,
                    server_hostname=host if tls else None,
                )
        except TimeoutError:
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"no connection to {peer} within {timeout_s:.3g} s"
            ) from None
        except (OSError, OverflowError, ValueError) as error:  # the last two: no port, no name
            if security is not None and isinstance(error, ssl.SSLError):
                raise tls_refusal(peer, error) from None
            if tls is not None and isinstance(error, ConnectionResetError | ConnectionAbortedError):
                raise handshake_cut(peer) from None
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION, f"no connection to {peer}: {_reason(error)}"
            ) from None
        client = cls(protocol, client_id)
        if check_names is not None:
            try:
                check_names(client.certificate_names())
            except KafkaError:
                client.abort()
                raise
        try:
            await client._agree_on_versions(timeout_s)
            client._login = login
            if security is not None:
                client._login = security.login
                protocol.may_need_login = security.login is None
            if client._login is not None:
                if ApiKey.SASL_HANDSHAKE not in client.versions:
                    raise takes_no_logins(peer)
                await client._log_in(client._login, loop.time() + timeout_s)
        except BaseException as error:
            client.abort()
            if isinstance(error, KafkaError):
                raise _unknown_peer_error(peer, protocol, error) if not client.versions else error from None
            raise
        return client

    async def _agree_on_versions(self, timeout_s: float) -> None:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        version = _API_VERSIONS_VERSION
        response = await self._exchange(request, ApiVersionsResponse, version, timeout_s)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = [api.max_version for api in response.api_keys if api.api_key == ApiKey.API_VERSIONS]
            version = min(version, max(known, default=0))
            response = await self._exchange(request, ApiVersionsResponse, version, timeout_s)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), f"{self.peer} does not report its API versions")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def certificate_names(self) -> frozenset[str]:
        """Return the names in the certificate that the node has shown; empty without TLS."""
        transport = self._protocol.transport
        return names_in(None if transport is None else transport.get_extra_info("peercert"))

    def learn_versions(self, versions: Mapping[int, tuple[int, int]]) -> None:
        """Add APIs that the peer serves too, but does not list in ApiVersions."""
        self.versions = {**self.versions, **versions}

    @property
    def is_open(self) -> bool:
        """Return True if requests may be sent: not when the login is about to expire and is not renewed."""
        is_renewed = self._login is not None or self._protocol.loop.time() < self.renew_login_at
        transport = self._protocol.transport
        # `abort` sets `lost` in the next turn of the loop only, and an aborted connection answers nothing.
        is_closing = transport is None or transport.is_closing()
        return is_renewed and not is_closing and not self._protocol.lost.done()

    def stop_renewing_login(self) -> None:
        """Stop renewing the login: the connection acts for a caller that did not log in on it."""
        self._login = None

    def version_for(self, message_type: type[object], max_version: int | None = None) -> int:
        """Return the highest version of a request that both sides know; UNSUPPORTED_VERSION without one."""
        schema = schema_of(message_type)
        assert schema.api_key is not None
        theirs = self.versions.get(schema.api_key)
        name = schema.name.removesuffix("Request")
        if theirs is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{self.peer} does not support {name}")
        ours = schema.max_version if max_version is None else min(schema.max_version, max_version)
        version = min(ours, theirs[1])
        if version < max(schema.min_version, theirs[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.peer} supports {name} versions {theirs[0]} to {theirs[1]}, but this "
                f"client {schema.min_version} to {ours}",
            )
        return version

    async def request(
        self,
        message: object,
        response_type: type[R],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_version: int | None = None,
    ) -> R:
        """Return the answer to `message`, a `response_type`. Error codes in it are left to the caller.

        A failure is a KafkaError, as the module says; UNSUPPORTED_VERSION also if all versions that both
        sides know are above `max_version`.
        """
        version = self.version_for(type(message), max_version)
        return await self._exchange(message, response_type, version, timeout_s)

    # ---- login ------------------------------------------------------------------------------------

    async def _log_in(self, login: SaslLogin, deadline: float) -> None:
        """Authenticate this client; raises the errors of `authentication`."""
        loop = self._protocol.loop
        begun = loop.time()
        steps = authentication(login, self.peer)
        answer: Response | None = None
        while True:
            request, lifetime_ms = await asyncio.to_thread(next_step, steps, answer)
            if request is None:
                break
            coming: asyncio.Future[Response] = loop.create_future()
            expected = _Expected(coming, deadline, max(0.0, deadline - begun), type(request))
            self._send(request, self.version_for(type(request)), expected)
            answer = await coming
        self.renew_login_at = begun + RENEWED_AT * lifetime_ms / 1000 if lifetime_ms else float("inf")

    async def _renew_login(self, deadline: float) -> None:
        """Log in again after all requests in flight are answered; other requests wait until it is done."""
        async with self._renewal:
            if self._login is None or self._protocol.loop.time() < self.renew_login_at:
                return  # another request has done it
            taken = 0
            try:
                async with asyncio.timeout_at(deadline):
                    while taken < MAX_IN_FLIGHT:
                        await self._turns.acquire()
                        taken += 1
                    await self._log_in(self._login, deadline)
            except TimeoutError:
                error = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, f"{self.peer} did not renew the login in time"
                )
                self._protocol.fail(error)
                raise error from None
            except BaseException:
                self.abort()  # the peer's view of this client's identity is unknown now
                raise
            finally:
                for _ in range(taken):
                    self._turns.release()

    async def _exchange(self, message: object, response_type: type[R], version: int, timeout_s: float) -> R:
        protocol, loop = self._protocol, self._protocol.loop
        if loop.time() >= self.renew_login_at:
            await self._renew_login(loop.time() + timeout_s)
        answer: asyncio.Future[R] = loop.create_future()
        expected = _Expected(answer, loop.time() + timeout_s, timeout_s, type(message))
        try:
            if self._turns.locked() or not protocol.writable.is_set():
                await self._wait_for_turn(expected)
            else:
                await self._turns.acquire()  # at once
            try:
                self._send(message, version, expected)
                response = await answer
            finally:
                self._turns.release()
        except asyncio.CancelledError:
            self.abort()  # its answer may still come, and no later one could be matched
            raise
        assert isinstance(response, response_type)
        return response

    async def _wait_for_turn(self, expected: _Expected) -> None:
        """Wait until fewer requests are in flight and the peer reads; then the turn is the caller's."""
        try:
            async with asyncio.timeout_at(expected.deadline):
                await self._turns.acquire()
                try:
                    await self._protocol.writable.wait()
                except BaseException:
                    self._turns.release()
                    raise
        except TimeoutError:
            error = expected.exceeded(self.peer)
            self._protocol.fail(error)
            raise error from None

    async def send_without_answer(self, message: object, *, max_version: int | None = None) -> None:
        """Send a request that is never answered: Produce with acks=0."""
        await self._protocol.writable.wait()
        if self._protocol.loop.time() >= self.renew_login_at:
            await self._renew_login(self._protocol.loop.time() + DEFAULT_TIMEOUT_S)
        self._send(message, self.version_for(type(message), max_version))

    def _send(self, message: object, version: int, expected: _Expected | None = None) -> None:
        if self._protocol.refusal is not None:
            raise self._protocol.refusal
        if not self.is_open or self._protocol.transport is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to {self.peer} was lost")
        api_key = schema_of(type(message)).api_key
        assert api_key is not None
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        try:
            frame = codec.encode_request(api_key, version, correlation_id, self._client_id, message)
        except ValueError as error:  # a value typed by a user does not fit
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request cannot be sent: {error}") from None
        if expected is not None:
            self._protocol.wait_for(_Awaited(correlation_id, api_key, version, expected))
        self._protocol.transport.writelines(frame)

    async def close(self) -> None:
        """Send what is still in the buffer, close, and wait up to 30 s for the end of the connection."""
        if self._protocol.transport is not None:
            self._protocol.transport.close()
        await asyncio.wait([self._protocol.lost], timeout=DEFAULT_TIMEOUT_S)

    def abort(self) -> None:
        """Close at once; requests in flight fail with NETWORK_EXCEPTION."""
        self._protocol.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"closed the connection to {self.peer}"))


def _unknown_peer_error(peer: str, protocol: _PeerProtocol, error: KafkaError) -> KafkaError:
    """Return a clearer error for a connection without agreed versions: the peer may be no node at all."""
    if protocol.foreign == "HTTP":
        return KafkaError(error.code, f"{peer} speaks HTTP, {NOT_KAFKA}: is this the REST port?")
    if protocol.foreign == "TLS":
        return KafkaError(
            error.code,
            f"{peer} requires TLS, {NOT_KAFKA} in plaintext: set security.protocol to SSL or SASL_SSL",
        )
    if error.code is ErrorCode.INVALID_REQUEST:
        return KafkaError(error.code, f"{peer} does not speak the Kafka protocol: {error.detail}")
    if protocol.tls_problem:
        return KafkaError(error.code, f"no connection to {peer}: {protocol.tls_problem}")
    if error.code is ErrorCode.NETWORK_EXCEPTION and protocol.has_tls:
        return KafkaError(
            error.code,
            f"{peer} closed the connection after the TLS handshake; it may ask for a certificate of this "
            "client (ssl.keystore.location)",
        )
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        return KafkaError(
            error.code,
            f"{peer} closed the connection before it reported its API versions; it may be a TLS port "
            "(security.protocol), or another program",
        )
    return error


def _give(answer: "asyncio.Future[Any]", error: KafkaError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # mark it as retrieved: the waiting task may be gone


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        words = f" ({error.strerror})" if isinstance(error, socket.gaierror) and error.strerror else ""
        return f"the name cannot be resolved{words}"
    return dial_problem(error)
