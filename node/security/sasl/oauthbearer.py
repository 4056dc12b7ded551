"""OAUTHBEARER (RFC 7628): a token in one message, as Kafka's OAuthBearerSaslServer reads it.

    client  n,[a=AUTHZID],^Aauth=Bearer TOKEN^A(KEY=VALUE^A)*^A     ^A is the byte 1
    server  nothing, or {"status":"invalid_token"} if the token is not accepted
    client  ^A, after which the authentication has failed

Extensions (the other keys) are parsed and ignored; Kafka's own handler accepts any, too.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.node.security.access_token import JwtError, VerifiedToken
from ottla.node.security.sasl.sasl_error import SaslError

INVALID_TOKEN: Final = '{"status":"invalid_token"}'

_SEPARATOR: Final = b"\x01"
_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR: Final = rb"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST: Final = re.compile(rb"n,(?:a=(?P<authzid>" + _NAME + rb"))?,\x01(?P<pairs>(?:" + _PAIR + rb")*)\x01")
_AUTH: Final = re.compile(rb"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class OauthBearerRequest(NamedTuple):
    """The token of a client, and the principal that it claims to be, "" if it claims none."""

    token: str
    authorization_id: str

    def __repr__(self) -> str:
        """Return the authorization id without the token, which must not appear anywhere."""
        return f"OauthBearerRequest(authorization_id={self.authorization_id!r})"


def read_request(message: bytes) -> OauthBearerRequest:
    """Parse the first message of a client; SaslError if it is malformed."""
    found = _FIRST.fullmatch(message)
    if found is None:
        raise SaslError("the first OAUTHBEARER message cannot be read")
    pairs = dict(pair.split(b"=", 1) for pair in found["pairs"].split(_SEPARATOR) if pair)
    if b"auth" not in pairs:
        raise SaslError("the OAUTHBEARER message has no auth")
    auth = _AUTH.fullmatch(pairs[b"auth"])
    if auth is None:
        raise SaslError("the auth of the OAUTHBEARER message cannot be read")
    if auth["scheme"].lower() != b"bearer":
        raise SaslError("the scheme of the OAUTHBEARER message is not Bearer")
    return OauthBearerRequest(auth["token"].decode(), (found["authzid"] or b"").decode())


class OauthBearerExchange:
    """One authentication. `verify`, called in a thread, returns a token's contents or raises JwtError."""

    is_slow = True  # it verifies the signature of a token, which may be long

    def __init__(self, verify: Callable[[str], VerifiedToken]) -> None:
        self.user = ""
        self.is_complete = False
        self.expires_ms: int | None = None  # the session ends when the token expires
        self._verify = verify
        self._has_failed = False

    def respond(self, message: bytes) -> bytes:
        """Return the answer to the client's next message; SaslError if the authentication fails."""
        if self._has_failed:
            # Any other message gets Kafka's answer to an unreadable first one. Kafka would verify a second
            # token; here a login has one only, so that each wrong one is counted as a failed login.
            reply = INVALID_TOKEN if message == _SEPARATOR else ""
            raise SaslError("the token of the client is invalid", message=reply)
        if self.is_complete:
            raise SaslError("the client sent a message after the login had ended")
        request = read_request(message)
        try:
            token = self._verify(request.token)
        except JwtError:
            self._has_failed = True
            return INVALID_TOKEN.encode()
        if request.authorization_id not in ("", token.principal):
            raise SaslError(
                "the authorization id is not the principal of the token",
                message="Authentication failed: Client requested an authorization id "
                f"({request.authorization_id}) that is different from the token's principal name "
                f"({token.principal})",
            )
        self.user, self.expires_ms, self.is_complete = token.principal, token.expires_ms, True
        return b""
