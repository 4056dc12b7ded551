"""A generator of the requests of a login, for asynchronous and blocking clients.

It yields a request, is sent the response, and finally returns the lifetime of the session. Deriving keys
takes milliseconds, so an asynchronous client drives it in a thread.
"""

from collections.abc import Generator, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.secure_client.client_security import ClientSecurityError, SaslLogin
from ottla.node.secure_client.sasl_login import Mechanism, mechanism_of, token_refused
from ottla.node.secure_client.scram_client import ServerRefusedError
from ottla.node.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.node.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MAX_STEPS: Final = 8  # SCRAM takes 2
# A login is renewed at this share of its lifetime, so that requests in flight still finish. Kafka's clients
# renew at 85 to 95 %.
RENEWED_AT: Final = 0.85

Request = SaslHandshakeRequest | SaslAuthenticateRequest
Response = SaslHandshakeResponse | SaslAuthenticateResponse
Steps = Generator[Request, Response, int]


def authentication(login: SaslLogin, peer: str) -> Steps:
    """Log in: yield requests, receive responses, return the session's lifetime in ms, 0 if it is unlimited.

    If the login fails: SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM or ILLEGAL_SASL_STATE, with a
    message for the user.
    """
    # A renewed login begins with a handshake, too. It needs version 1: tokens after version 0 have no header.
    response = yield SaslHandshakeRequest(mechanism=login.mechanism)
    assert isinstance(response, SaslHandshakeResponse)
    if response.error_code:
        raise _handshake_refused(login, peer, response.error_code, response.mechanisms)
    try:
        mechanism = mechanism_of(login)
    except ClientSecurityError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    token: bytes | None = mechanism.first()
    for _ in range(MAX_STEPS):
        assert token is not None
        response = yield SaslAuthenticateRequest(auth_bytes=token)
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            token_refused(login)
            raise _refused(login, peer, response.error_code, response.error_message)
        token = _answer(mechanism, bytes(response.auth_bytes), peer)
        if mechanism.is_complete:
            return max(0, int(response.session_lifetime_ms))
    raise KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"the login to {peer} did not end after {MAX_STEPS} messages"
    )


def takes_no_logins(peer: str) -> KafkaError:
    """Return the error for a listener without SASL."""
    return KafkaError(
        ErrorCode.ILLEGAL_SASL_STATE,
        f"the listener at {peer} has no SASL; set security.protocol to PLAINTEXT or SSL, or use the address "
        "of a SASL listener",
    )


def next_step(steps: Steps, answer: Response | None) -> tuple[Request | None, int]:
    """Return the next request of a login, or None and the lifetime after the last response.

    It may take milliseconds, so asynchronous clients call it in a thread.
    """
    try:
        return (next(steps) if answer is None else steps.send(answer)), 0
    except StopIteration as end:
        return None, int(end.value)


def _answer(mechanism: Mechanism, token: bytes, peer: str) -> bytes | None:
    try:
        return mechanism.respond(token)
    except ServerRefusedError as error:
        raise KafkaError(
            ErrorCode.SASL_AUTHENTICATION_FAILED, f"the login to {peer} was aborted: {error}"
        ) from None


def _handshake_refused(login: SaslLogin, peer: str, error_code: int, mechanisms: Sequence[str]) -> KafkaError:
    if error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return takes_no_logins(peer)
    if error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(mechanisms)
        return KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{peer} does not offer {login.mechanism}, but {offered or 'no mechanism'}; set sasl.mechanism",
        )
    return _refused(login, peer, error_code, None)


def _refused(login: SaslLogin, peer: str, error_code: int, message: str | None) -> KafkaError:
    try:
        code = ErrorCode(error_code)
    except ValueError:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
    of_user = f" of the user {login.user}" if login.user else ""
    reason = (message or code.name)[:1000].rstrip(".")
    return KafkaError(code, f"{peer} refused the login{of_user} with {login.mechanism}: {reason}")
