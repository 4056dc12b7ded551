"""The verified contents of an access token (JWT), and the error for a rejected one. `jwt` verifies tokens."""

from typing import NamedTuple


class JwtError(Exception):
    """The reason why a token is rejected, for the log.

    `unknown_kid` is the key id of the token if none of the fetched keys has it: the provider may have added
    a key since.
    """

    def __init__(self, reason: str, *, unknown_kid: str | None = None) -> None:
        super().__init__(reason)
        self.unknown_kid = unknown_kid


class VerifiedToken(NamedTuple):
    """The principal of a valid token, the time at which it expires, and its scopes."""

    principal: str
    expires_ms: int
    scopes: frozenset[str]
