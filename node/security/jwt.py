"""Verifies access tokens (JWT, RFC 7519) as Kafka's BrokerJwtValidator does, against the keys of a provider.

It is stricter than Kafka: signatures with a shared secret are rejected, and each part must be plain
base64url. Pure: the time is an argument. The module is loaded only if OAUTHBEARER is enabled, since it needs
PyJWT and `cryptography`.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Final

from jwt import PyJWS, PyJWTError

from ottla.node.security.access_token import JwtError, VerifiedToken
from ottla.node.security.jwks import ALGORITHMS, MAX_KID_CHARS, KeySet
from ottla.node.settings.oauthbearer_settings import TokenRules

MAX_TOKEN_CHARS: Final = 32_768
MAX_WORD_CHARS: Final = 1_024  # of the name of a principal or a scope, like the limit of other ids
MAX_SECONDS: Final = 1 << 52  # of a date; the year 140 million
_BLANKS: Final = "".join(map(chr, range(33)))  # as Java trims
_PART: Final = re.compile(r"[A-Za-z0-9_-]+")


def verify_token(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> VerifiedToken:
    """Return the contents of a token; JwtError if it is not signed by one of these keys, or breaks a rule."""
    parts = token.split(".")
    if len(token) > MAX_TOKEN_CHARS or len(parts) != 3 or not all(map(_PART.fullmatch, parts)):
        raise JwtError("it does not consist of three parts in base64url")
    _check_signature(token, _object_of(parts[0], "header"), keys)
    claims = _object_of(parts[1], "payload")
    expires_s = _check_times(claims, rules, now_ms / 1_000)
    _check_issuer_and_audience(claims, rules)
    return VerifiedToken(
        _word(claims.get(rules.subject_claim), rules.subject_claim),
        expires_s * 1_000,
        _scopes(claims, rules.scope_claim),
    )


def _check_signature(token: str, header: Mapping[str, object], keys: KeySet) -> None:
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise JwtError(f"the algorithm {str(algorithm)[:50]} is not accepted")
    if "crit" in header or "b64" in header:
        raise JwtError("its header has crit or b64, which are not supported")
    if kid is not None and (not isinstance(kid, str) or len(kid) > MAX_KID_CHARS):
        raise JwtError("the id of its key (kid) is not text, or is too long")
    key = keys.find(kid, algorithm)
    if key is None:
        raise JwtError(f"the provider has no key {kid!r} for {algorithm}", unknown_kid=kid)
    try:
        PyJWS().decode_complete(token, key.public_key, algorithms=[algorithm])
    except PyJWTError as error:
        raise JwtError(f"its signature is not accepted: {error}") from None


def _check_times(claims: Mapping[str, object], rules: TokenRules, now_s: float) -> int:
    """Return the time at which the token expires, in seconds; JwtError if it is not valid now."""
    expires_s, issued_s = _seconds(claims, "exp"), _seconds(claims, "iat")
    not_before_s = _seconds(claims, "nbf") if claims.get("nbf") is not None else None
    now_s = int(now_s)
    if now_s - rules.clock_skew_s >= expires_s:
        raise JwtError("it has expired")
    if expires_s < issued_s or (not_before_s is not None and expires_s < not_before_s):
        raise JwtError("it expires (exp) before it begins (iat, nbf)")
    if not_before_s is not None and now_s + rules.clock_skew_s < not_before_s:
        raise JwtError("it is not valid yet")
    return expires_s


def _seconds(claims: Mapping[str, object], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SECONDS:
        raise JwtError(f"{name} is missing or not a date")
    return int(value)


def _check_issuer_and_audience(claims: Mapping[str, object], rules: TokenRules) -> None:
    issuer = claims.get("iss")
    if rules.issuer is not None and issuer != rules.issuer:
        raise JwtError("its issuer (iss) is not sasl.oauthbearer.expected.issuer")
    if issuer is not None and not isinstance(issuer, str):
        raise JwtError("its issuer (iss) is not text")
    named = claims.get("aud")
    audiences = [named] if isinstance(named, str) else [] if named is None else named
    if not isinstance(audiences, list) or not all(isinstance(one, str) for one in audiences):
        raise JwtError("its audience (aud) is neither text nor a list of texts")
    if named is None and not rules.audiences:
        return
    if not rules.audiences.intersection(audiences):
        raise JwtError("its audience (aud) names none of sasl.oauthbearer.expected.audience")


def _scopes(claims: Mapping[str, object], name: str) -> frozenset[str]:
    value = claims.get(name)
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    scopes = [_word(one, name) for one in listed]
    if len(set(scopes)) != len(scopes):
        raise JwtError(f"{name} has a value twice")
    return frozenset(scopes)


def _word(value: object, name: str) -> str:
    word = value.strip(_BLANKS) if isinstance(value, str) else ""
    if not word or not word.isprintable() or len(word) > MAX_WORD_CHARS:
        raise JwtError(f"{name} is missing, not printable text, or too long")
    return word


def _object_of(part: str, what: str) -> dict[str, object]:
    """Decode a part of a token as a JSON object; JwtError if it is not one, or has a name twice."""
    try:
        text = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
        parsed = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except (ValueError, binascii.Error, RecursionError):
        raise JwtError(f"its {what} is not JSON in base64url") from None
    if not isinstance(parsed, dict):
        raise JwtError(f"its {what} is not a JSON object")
    return parsed


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name occurs twice")
    return names


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
