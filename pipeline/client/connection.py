"""One connection to one node: requests are sent without waiting, answers received in the same order.

It blocks, as a Spark task is a thread of its own. Any failure closes it, and all requests that were waiting
fail: if the answer to a request is lost, its outcome is unknown. Data from a node is checked, never trusted:
lengths, order and contents.

If the settings have a login, a connection begins with it. A login that expires is renewed before the first
request that would come too late (KIP-368): answers that are under way are received first and kept.
"""

import socket
import struct
from collections import deque
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, NamedTuple, NoReturn

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer, schema_of
from ottla.node.secure_client.client_security import SaslLogin
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.framing import NOT_KAFKA, foreign_protocol
from ottla.node.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.clock import monotonic_ms
from ottla.pipeline.client.dialling import dial, is_quiet, receive_into, send_all, words_of
from ottla.pipeline.client.first_contact import FirstContact

# A fetch answer may exceed its limit by one batch, and a batch may be a quarter of this.
MAX_ANSWER_BYTES: Final = 512 * 1024 * 1024
# The memory allocated for an announced length before that many bytes have arrived.
INITIAL_BUFFER_BYTES: Final = 16 * 1024 * 1024
_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID: Final = struct.Struct(">i")
_ERROR_CODE: Final = struct.Struct(">h")
_LAST_CORRELATION_ID: Final = 2**31 - 1
_SOFTWARE: Final = "ottla-pipeline"


class PendingRequest(NamedTuple):
    """A sent request whose answer is expected."""

    correlation_id: int
    api_key: int
    version: int
    deadline_ms: int  # of the monotonic clock


class BrokerConnection:
    """A socket on which the versions are agreed and this client is logged in; made by `connect`."""

    def __init__(
        self,
        stream: socket.socket,
        peer: str,
        settings: ClientSettings,
        contact: FirstContact | None = None,
    ) -> None:
        self.peer = peer
        self.versions: Mapping[int, tuple[int, int]] = {}
        self._socket: socket.socket | None = stream
        self._settings = settings
        self._correlation_id = 0
        self._awaited: deque[PendingRequest] = deque()
        # by correlation id: answers received before a login was renewed
        self._kept: dict[int, memoryview] = {}
        self._contact = contact or FirstContact()
        self._has_served = False  # it has answered a request that needs a login, if there is one
        # on the monotonic clock; None if the login does not expire
        self._renew_login_at_ms: int | None = None

    @classmethod
    def connect(
        cls, host: str, port: int, settings: ClientSettings, contact: FirstContact | None = None
    ) -> "BrokerConnection":
        """Connect to that address; `contact` is what is known of its cluster.

        Raises NETWORK_EXCEPTION if no server answers there in time. Another attempt does not cure
        INVALID_REQUEST, if the server does not speak Kafka's protocol, or INVALID_CONFIG,
        SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM and ILLEGAL_SASL_STATE, if TLS or the login
        fails.
        """
        contact = contact or FirstContact()
        connection = cls(dial(host, port, settings, contact), f"{host}:{port}", settings, contact)
        try:
            connection._agree_on_versions()
            if settings.security.login is not None:
                connection._log_in(settings.security.login)
        except BaseException:
            connection.close()
            raise
        return connection

    # ---- requests and answers ---------------------------------------------------------------------

    def version_of(self, message: type[Any], *, most: int | None = None) -> int:
        """Return the highest common version of an API, at most `most`; UNSUPPORTED_VERSION if none."""
        schema = schema_of(message)
        assert schema.api_key is not None, message
        highest = schema.max_version if most is None else min(most, schema.max_version)
        served = self.versions.get(schema.api_key)
        name = ApiKey(schema.api_key).api_name
        if served is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{self.peer} does not support {name}")
        common = min(highest, served[1])
        if common < max(schema.min_version, served[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.peer} supports {name} versions {served[0]} to {served[1]}, but this "
                f"client {schema.min_version} to {highest}",
            )
        return common

    def send(self, request: object, *, most: int | None = None) -> PendingRequest:
        """Send a request in the highest common version, at most `most`; its answer must be received."""
        return self._send(request, self.version_of(type(request), most=most))

    def receive(self, pending: PendingRequest) -> Any:
        """Return the answer to a request. Answers must be received in the order of their requests.

        Buffers in it are views of memory that belongs to this answer alone. Raises NETWORK_EXCEPTION if the
        connection is lost, REQUEST_TIMED_OUT if no answer came within `request.timeout.ms` of the request,
        and INVALID_REQUEST for an answer that cannot be read.
        """
        assert pending in self._awaited or self._socket is None, (
            "the answer was received already, or the request was sent on another connection"
        )
        if self._socket is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.peer}: the connection was closed")
        assert pending == self._awaited[0], "an earlier request still waits for its answer"
        frame = self._kept.pop(pending.correlation_id, None) or self._receive_frame(pending)
        self._awaited.popleft()
        answer = self._open(pending, frame)
        self._has_served = True
        self._contact.note_answer()
        return answer

    def request(self, request: object, *, most: int | None = None) -> Any:
        """Send a request and receive its answer."""
        return self.receive(self.send(request, most=most))

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for their answers."""
        return len(self._awaited)

    def is_open(self) -> bool:
        """Return True if it can be used, as far as is known.

        If no request is under way, the socket is checked, and closed if the peer has ended the connection or
        sent something.
        """
        if self._socket is None:
            return False
        if self._awaited:
            return True
        if is_quiet(self._socket):
            return True
        self.close()
        return False

    def close(self) -> None:
        """Close the socket. May be called more than once."""
        stream, self._socket = self._socket, None
        self._awaited.clear()
        self._kept.clear()
        if stream is not None:
            stream.close()

    # ---- the socket -------------------------------------------------------------------------------

    def _send(self, request: object, api_version: int) -> PendingRequest:
        if self._renew_login_at_ms is not None and monotonic_ms() >= self._renew_login_at_ms:
            self._renew_login()
        pending = self._write(request, api_version)
        self._awaited.append(pending)
        return pending

    def _exchange(self, request: object, api_version: int) -> tuple[PendingRequest, memoryview]:
        """Send a request of the connection's own and receive its answer; no other may be under way."""
        pending = self._write(request, api_version)
        return pending, self._receive_frame(pending)

    def _write(self, request: object, api_version: int) -> PendingRequest:
        api_key = schema_of(type(request)).api_key
        assert api_key is not None, request
        if self._socket is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.peer}: the connection was closed")
        self._correlation_id = self._correlation_id % _LAST_CORRELATION_ID + 1
        buffers = codec.encode_request(
            api_key, api_version, self._correlation_id, self._settings.client_id, request
        )
        deadline_ms = monotonic_ms() + self._settings.request_timeout_ms
        pending = PendingRequest(self._correlation_id, api_key, api_version, deadline_ms)
        try:
            send_all(self._socket, buffers, deadline_ms)
        except OSError as fault:
            self._raise_lost(fault)
        return pending

    def _receive_frame(self, pending: PendingRequest) -> memoryview:
        head = bytearray(_LENGTH.size)
        self._fill(memoryview(head), pending)
        (length,) = _LENGTH.unpack(head)
        if not _CORRELATION_ID.size <= length <= MAX_ANSWER_BYTES:
            foreign = foreign_protocol(head)
            if foreign is not None:
                self.close()
                where = (
                    "is this the REST port?"
                    if foreign == "HTTP"
                    else "set security.protocol to SSL or SASL_SSL, or use a listener without TLS"
                )
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{self.peer} answers {foreign}, {NOT_KAFKA}: {where}"
                )
            self._refuse(
                f"it announces {length} bytes; a response has {_CORRELATION_ID.size} to {MAX_ANSWER_BYTES}"
            )
        frame = bytearray(min(length, INITIAL_BUFFER_BYTES))
        self._fill(memoryview(frame), pending)
        while (filled := len(frame)) < length:
            frame.extend(bytes(min(filled, length - filled)))
            self._fill(memoryview(frame)[filled:], pending)
        return memoryview(frame)

    def _fill(self, view: memoryview, pending: PendingRequest) -> None:
        assert self._socket is not None
        try:
            with view:
                receive_into(self._socket, view, pending.deadline_ms)
        except TimeoutError:
            self.close()
            name = ApiKey(pending.api_key).api_name
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.peer}: no answer to {name} in {self._settings.request_timeout_ms} ms",
            ) from None
        except OSError as fault:
            self._raise_lost(fault)

    def _open(self, pending: PendingRequest, frame: memoryview) -> Any:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            self._refuse(f"a response to request {correlation_id} came instead of {pending.correlation_id}")
        try:
            return codec.decode_response(pending.api_key, pending.version, frame)[1]
        except KafkaError as fault:
            self._refuse(str(fault))

    def _raise_lost(self, fault: OSError) -> NoReturn:
        self.close()
        if not self._has_served and not isinstance(fault, TimeoutError):
            raise self._first_request_error(fault) from None
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.peer}: {words_of(fault)}") from None

    def _first_request_error(self, fault: OSError) -> KafkaError:
        """Return the error of a connection that ended before it served a request of this client."""
        from ottla.node.secure_client.dial_refusals import tls_refusal, without_login

        security = self._settings.security
        if security.tls is not None:
            import ssl

            # A TLS 1.3 server checks a client's certificate after the client has begun to send.
            if isinstance(fault, ssl.SSLError) and not self.versions:
                return tls_refusal(self.peer, fault)
        if self._contact.has_answered or (self.versions and security.login is not None):
            return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.peer}: {words_of(fault)}")
        if self.versions:
            return self._contact.error_of_ended_connection(without_login(self.peer).detail)
        hint = (
            "it may be a listener with TLS (security.protocol), or another program"
            if security.tls is None
            else "it may ask for a certificate of this client (ssl.keystore.location)"
        )
        return self._contact.error_of_ended_connection(
            f"{self.peer} ended the connection before it reported its API versions; {hint}"
        )

    def _refuse(self, problem: str) -> NoReturn:
        # Not retriable: the server there does not speak Kafka, or not as this client does.
        self.close()
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{self.peer} sent a response that cannot be read: {problem}"
        )

    # ---- login ------------------------------------------------------------------------------------

    def _log_in(self, login: SaslLogin) -> None:
        from ottla.node.secure_client.authentication import (
            RENEWED_AT,
            Response,
            authentication,
            next_step,
            takes_no_logins,
        )

        if ApiKey.SASL_HANDSHAKE not in self.versions:
            raise takes_no_logins(self.peer)
        begun_ms = monotonic_ms()
        steps = authentication(login, self.peer)
        answer: Response | None = None
        while True:
            request, lifetime_ms = next_step(steps, answer)
            if request is None:
                break
            answer = self._open(*self._exchange(request, self.version_of(type(request))))
        # A lifetime of thousands of years is treated as any other: the arithmetic cannot overflow.
        self._renew_login_at_ms = begun_ms + int(RENEWED_AT * lifetime_ms) if lifetime_ms else None

    def _renew_login(self) -> None:
        """Log in again, after all requests under way were answered; the answers are kept for `receive`."""
        login = self._settings.security.login
        assert login is not None, "only logins end"
        try:
            for pending in self._awaited:
                if pending.correlation_id not in self._kept:
                    self._kept[pending.correlation_id] = self._receive_frame(pending)
            self._log_in(login)
        except BaseException:
            self.close()  # the identity that the node now assigns to this client is unknown
            raise

    # ---- versions ---------------------------------------------------------------------------------

    def _agree_on_versions(self) -> None:
        highest = schema_of(ApiVersionsRequest).max_version
        # Version 5 needs the ids of the cluster and the node, which are not known yet.
        response = self._request_versions(min(highest, 4))
        if response is None:
            response = self._request_versions(0)
        if response is None or response.error_code:
            self._refuse("it does not report its API versions")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def _request_versions(self, api_version: int) -> ApiVersionsResponse | None:
        """Ask for the API versions; None if the node answers that it knows only version 0 (KIP-511)."""
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=_release())
        pending, frame = self._exchange(request, api_version)
        if api_version and _is_unsupported_version(frame):
            return None
        response: ApiVersionsResponse = self._open(pending, frame)
        return response


def _is_unsupported_version(frame: Buffer) -> bool:
    at = _CORRELATION_ID.size
    return len(frame) >= at + _ERROR_CODE.size and (
        _ERROR_CODE.unpack_from(frame, at)[0] == ErrorCode.UNSUPPORTED_VERSION
    )


@cache
def _release() -> str:
    try:
        return version("ottla")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0"
