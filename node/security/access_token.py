"""The contents of an access token (JWT), and the error for one that is refused. `jwt` verifies them."""

from typing import NamedTuple


class JwtError(Exception):
    """A token that is not accepted; the text goes to the log.

    `unknown_kid` is the id of its key where the provider's keys have none such: it may have a new one.
    """

    def __init__(self, reason: str, *, unknown_kid: str | None = None) -> None:
        super().__init__(reason)
        self.unknown_kid = unknown_kid


class VerifiedToken(NamedTuple):
    """The principal that a token names, and the end of its time."""

    principal: str
    expires_ms: int
    scopes: frozenset[str]
