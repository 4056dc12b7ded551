"""From the settings of a login to the messages of its mechanism.

PLAIN and OAUTHBEARER have one message that says everything, so they belong on TLS alone. A server that does
not take a token says so in a message of its own, which is answered once before it ends the login (RFC 7628).
"""

import secrets
from pathlib import Path
from typing import Final, Protocol

from ottla.node.secure_client.client_security import (
    TOKEN_URL,
    ClientSecurityError,
    SaslLogin,
)
from ottla.node.secure_client.scram_client import ScramClient
from ottla.node.wire.sasl_mechanisms import OAUTHBEARER, PLAIN

MAX_TOKEN_BYTES: Final = 64 * 1024  # a frame of a login may have as much
NONCE_BYTES: Final = 24


class Mechanism(Protocol):
    """The client's side of a mechanism."""

    is_complete: bool

    def first(self) -> bytes:
        """Return the first message."""

    def respond(self, token: bytes) -> bytes | None:
        """Return the answer to the server's next message, None if there is none."""


class _OneMessage:
    """A mechanism with one message, after which the server says nothing but yes."""

    def __init__(self, message: bytes) -> None:
        self.is_complete = False
        self._message = message
        self._has_failed = False

    def first(self) -> bytes:
        return self._message

    def respond(self, token: bytes) -> bytes | None:
        if token or self._has_failed:
            self._has_failed = True
            return b"\x01"  # it said what is wrong, and will fail this login now
        self.is_complete = True
        return None


def mechanism_of(login: SaslLogin) -> Mechanism:
    """Return the mechanism for one login; ClientSecurityError if its token cannot be read."""
    if login.mechanism == PLAIN:
        return _OneMessage(b"\0%b\0%b" % (login.user.encode(), login.password.encode()))
    if login.mechanism == OAUTHBEARER:
        token = token_of(login)
        extensions = "".join(f"{name}={value}\x01" for name, value in login.extensions)
        return _OneMessage(f"n,,\x01auth=Bearer {token}\x01{extensions}\x01".encode())
    nonce = secrets.token_urlsafe(NONCE_BYTES).encode()
    return ScramClient(login.mechanism, login.user, login.password, nonce=nonce)


def token_of(login: SaslLogin) -> str:
    """Return the access token of a login; ClientSecurityError if its file cannot be used.

    KafkaError, as `token_for`, if its provider gives none.
    """
    if login.credentials is not None:
        from ottla.node.secure_client.token_endpoint import token_for  # http, for those who need it

        return token_for(login.credentials)
    return login.token or _token_in(login.token_file)


def token_refused(login: SaslLogin) -> None:
    """Have the next login fetch another token: a server did not take the one that is kept."""
    if login.credentials is not None:
        from ottla.node.secure_client.token_endpoint import forget

        forget(login.credentials)


def _token_in(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise ClientSecurityError(
            TOKEN_URL, f"names {path}, which cannot be read: {error.strerror}"
        ) from None
    token = content.decode("ascii", "replace").strip()
    if not token or len(content) > MAX_TOKEN_BYTES or not token.isprintable() or " " in token:
        raise ClientSecurityError(TOKEN_URL, f"names {path}, which has no token")
    return token
