"""PLAIN (RFC 4616): a user and a password in one message, as Kafka's PlainSaslServer reads it."""

import hmac
from typing import Final, NamedTuple

from ottla.node.security.sasl.sasl_error import OTHER_AUTHORIZATION_ID, SaslError

MECHANISM: Final = "PLAIN"
INVALID: Final = "Authentication failed: Invalid username or password"


class PlainCredentials(NamedTuple):
    """The user that a client claims to be, and the password that proves it."""

    user: str
    password: str

    def __repr__(self) -> str:
        """Return the user alone: a password is shown nowhere."""
        return f"PlainCredentials(user={self.user!r})"


def read_plain(token: bytes) -> PlainCredentials:
    """Return what a client's only message says; SaslError if it is none of PLAIN.

    It is `[authzid] NUL user NUL password` in UTF-8. The authorization id may only be the user.
    """
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslError("a PLAIN message is no UTF-8") from None
    if len(parts) != 3:
        raise SaslError(f"a PLAIN message has {len(parts)} parts instead of 3")
    authorization_id, user, password = parts
    if not user:
        raise SaslError("no user", told="Authentication failed: username not specified")
    if not password:
        raise SaslError("no password", told="Authentication failed: password not specified")
    if authorization_id not in ("", user):
        raise SaslError(
            "the authorization id is not the user",
            told=OTHER_AUTHORIZATION_ID,
        )
    return PlainCredentials(user, password)


def check_password(given: PlainCredentials, expected: str | None) -> None:
    """Raise SaslError unless the password is the one that is expected, None for a user that does not exist.

    How long that takes tells nothing about either.
    """
    is_right = hmac.compare_digest(given.password.encode(), (expected or "").encode())
    if expected is None or not is_right:
        raise SaslError("wrong user or password", told=INVALID)
