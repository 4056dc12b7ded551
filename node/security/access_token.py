"""What an access token (JWT) has to say, what it says, and why it is not accepted. `jwt` verifies tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError


class JwtError(Exception):
    """A token that is not accepted; the text goes to the log.

    `unknown_kid` is the id of its key where the provider's keys have none such: it may have a new one.
    """

    def __init__(self, reason: str, *, unknown_kid: str | None = None) -> None:
        super().__init__(reason)
        self.unknown_kid = unknown_kid


class VerifiedToken(NamedTuple):
    """Whom a token names, and until when."""

    principal: str
    expires_ms: int
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What tokens must say. Without an audience none may have one; without an issuer it is not looked at."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"


def token_rules(
    *,
    audiences: Sequence[str],
    issuer: str | None,
    clock_skew_s: int = 30,
    subject_claim: str = "sub",
    scope_claim: str = "scope",
    accepts_any: bool = False,
) -> TokenRules:
    """Return the rules of these settings; INVALID_CONFIG where tokens that the provider made for others would
    be accepted, unless `accepts_any`.
    """
    missing = [
        name for name, value in (("audience", audiences), ("issuer", issuer)) if not value and not accepts_any
    ]
    if missing:
        names = " and ".join(f"sasl.oauthbearer.expected.{name}" for name in missing)
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{names} must be set: without, tokens that were made for other services are accepted.",
        )
    return TokenRules(
        audiences=frozenset(audiences),
        issuer=issuer or None,
        clock_skew_s=clock_skew_s,
        subject_claim=subject_claim,
        scope_claim=scope_claim,
    )
