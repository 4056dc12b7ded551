"""PLAIN (RFC 4616): a user and a password in one message, as Kafka's PlainSaslServer reads it."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.metadata_raft.image import ScramCredential
from ottla.metadata_raft.scram import ScramMechanism, keys_of
from ottla.node.security.sasl.false_credentials import FalseCredential
from ottla.node.security.sasl.sasl_error import OTHER_AUTHORIZATION_ID, SaslError

INVALID: Final = "Authentication failed: Invalid username or password"


class PlainCredentials(NamedTuple):
    """The user that a client claims to be, and the password that proves it."""

    user: str
    password: str

    def __repr__(self) -> str:
        """Return the user without the password, which must not appear anywhere."""
        return f"PlainCredentials(user={self.user!r})"


def read_plain(token: bytes) -> PlainCredentials:
    """Parse the only message of a client; SaslError if it is malformed.

    It is `[authzid] NUL user NUL password` in UTF-8. An authorization id must be equal to the user.
    """
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslError("the PLAIN message is not UTF-8") from None
    if len(parts) != 3:
        raise SaslError(f"the PLAIN message has {len(parts)} parts instead of 3")
    authorization_id, user, password = parts
    if not user:
        raise SaslError("no user", message="Authentication failed: username not specified")
    if not password:
        raise SaslError("no password", message="Authentication failed: password not specified")
    if authorization_id not in ("", user):
        raise SaslError(
            "the authorization id is not the user",
            message=OTHER_AUTHORIZATION_ID,
        )
    return PlainCredentials(user, password)


def check_password(given: PlainCredentials, expected: str | None) -> None:
    """Raise SaslError unless the password is the expected one, which is None if the user does not exist.

    The time that it takes reveals neither the password nor if the user exists.
    """
    is_right = hmac.compare_digest(given.password.encode(), (expected or "").encode())
    if expected is None or not is_right:
        raise SaslError("wrong user or password", message=INVALID)


def check_stored_password(
    given: PlainCredentials,
    credential_of: Callable[[str, ScramMechanism], ScramCredential | None],
    false_credential_of: Callable[[str], FalseCredential],
) -> ScramCredential:
    """Return the credential of a SCRAM user if the password is right; SaslError if it is not.

    It derives keys from the password, which takes milliseconds. For a user that does not exist it does so
    with a credential from `false_credential_of`.
    """
    mechanism = ScramMechanism.SCRAM_SHA_512
    credential = credential_of(given.user, mechanism)
    if credential is None:
        weaker = credential_of(given.user, ScramMechanism.SCRAM_SHA_256)
        if weaker is not None:
            mechanism, credential = ScramMechanism.SCRAM_SHA_256, weaker
    false = false_credential_of(given.user)
    compared = credential
    if compared is None:
        mechanism, compared = false
    password = given.password.encode()
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, compared.salt, compared.iterations)
    found = keys_of(mechanism, salted).stored_key
    if not hmac.compare_digest(found, compared.stored_key) or credential is None:
        raise SaslError("wrong user or password", message=INVALID)
    return credential


class PlainExchange:
    """One authentication against the users in the settings of a listener."""

    is_slow = False
    expires_ms: int | None = None

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self.user = ""
        self.is_complete = False
        self._password_of = password_of

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's message; SaslError if the authentication fails."""
        given = read_plain(token)
        self.user = given.user
        check_password(given, self._password_of(given.user))
        self.is_complete = True
        return b""


class StoredPlainExchange:
    """One authentication against the SCRAM users of the cluster, whose passwords are stored as keys.

    `respond` derives these keys, which takes milliseconds, so it must be called in a thread.
    """

    is_slow = True
    expires_ms: int | None = None

    def __init__(
        self,
        credential_of: Callable[[str, ScramMechanism], ScramCredential | None],
        false_credential_of: Callable[[str], FalseCredential],
    ) -> None:
        self.user = ""
        self.is_complete = False
        self._credential_of = credential_of
        self._false_credential_of = false_credential_of

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's message; SaslError if the authentication fails."""
        given = read_plain(token)
        self.user = given.user
        check_stored_password(given, self._credential_of, self._false_credential_of)
        self.is_complete = True
        return b""
