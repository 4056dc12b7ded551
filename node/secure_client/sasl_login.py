"""Makes the messages of a SASL mechanism from the settings of a login.

PLAIN and OAUTHBEARER send their secret in a single message, so they need TLS. A server that rejects a token
sends the reason first; after the client has answered that message, it ends the login (RFC 7628).
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

MAX_TOKEN_BYTES: Final = 64 * 1024  # the limit of a login's frame
NONCE_BYTES: Final = 24


class Mechanism(Protocol):
    """The client's side of a SASL mechanism."""

    is_complete: bool

    def first(self) -> bytes:
        """Return the first message."""

    def respond(self, token: bytes) -> bytes | None:
        """Return the answer to the server's next message, or None after the last one."""


class _OneMessage:
    """A mechanism with a single message, which the server accepts with an empty one."""

    def __init__(self, message: bytes) -> None:
        self.is_complete = False
        self._message = message
        self._has_failed = False

    def first(self) -> bytes:
        return self._message

    def respond(self, token: bytes) -> bytes | None:
        if token or self._has_failed:
            self._has_failed = True
            return b"\x01"  # the server sent the reason, and fails the login after this answer
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
    """Return the access token of a login: fetched, from its settings or from its file.

    ClientSecurityError if the file cannot be used; KafkaError, as in `token_for`, if the fetch fails.
    """
    if login.credentials is not None:
        from ottla.node.secure_client.token_endpoint import token_for  # loads http.client, so only on demand

        return token_for(login.credentials)
    return login.token or _token_in(login.token_file)


def token_refused(login: SaslLogin) -> None:
    """Drop the cached token of a login, since a server rejected it; the next login fetches another."""
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
