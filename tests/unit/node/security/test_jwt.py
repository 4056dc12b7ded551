"""Access tokens are accepted and rejected as by Kafka's BrokerJwtValidator, which runs on the same table
(tests/compat/java/test_access_tokens.py), but tokens signed with shared secrets are rejected, too.
"""

import time

import pytest

from ottla.node.security.access_token import JwtError, VerifiedToken
from ottla.node.security.jwks import MAX_KID_CHARS, KeySet, read_jwks
from ottla.node.security.jwt import MAX_TOKEN_CHARS, MAX_WORD_CHARS, verify_token
from ottla.node.settings.oauthbearer_settings import TokenRules
from tests.tokens import AUDIENCE, ISSUER, Case, cases, claims, document, public_jwk, published, token

NOW_S = int(time.time())
RULES = TokenRules(audiences=frozenset({AUDIENCE}), issuer=ISSUER)
KEYS = read_jwks(published())


def verify(text: str, rules: TokenRules = RULES, keys: KeySet = KEYS) -> VerifiedToken:
    return verify_token(text, keys, rules, NOW_S * 1_000)


@pytest.mark.parametrize("case", cases(NOW_S), ids=lambda one: one.name)
def test_a_token_is_accepted_or_rejected_as_by_kafka(case: Case) -> None:
    try:
        found = verify(case.token, RULES if case.is_expecting else TokenRules())
    except JwtError:
        assert not case.is_accepted
    else:
        assert case.is_accepted and found.principal


def test_a_token_has_a_principal_scopes_and_an_expiry() -> None:
    found = verify(token(claims(NOW_S, sub=" alice ", scope=["read", "write"])))

    assert found == VerifiedToken("alice", (NOW_S + 600) * 1_000, frozenset({"read", "write"}))


def test_the_names_of_claims_can_be_set() -> None:
    rules = TokenRules(subject_claim="email", scope_claim="roles")

    found = verify(token(claims(NOW_S, aud=None, email="a@b", roles=["x"], sub=None)), rules)

    assert (found.principal, found.scopes) == ("a@b", {"x"})


@pytest.mark.parametrize(
    "text",
    [
        token(claims(NOW_S), key="oct", algorithm="HS256"),
        token(claims(NOW_S), key="oct", algorithm="HS256", kid="rsa"),
        token(claims(NOW_S), kid="k" * (MAX_KID_CHARS + 1)),
        token(claims(NOW_S, sub="a" * (MAX_WORD_CHARS + 1))),
        token(claims(NOW_S, sub="a\nb")),
        token('{"sub": "\\ud800", "exp": 9999999999, "iat": 1}'),
        token(claims(NOW_S, exp=1e300)),
        token(claims(NOW_S, exp=-1)),
        token(claims(NOW_S, exp=True)),
        token('{"exp": NaN}'),
        token("[" * 15_000),
        token(claims(NOW_S)) + "=",
        token(claims(NOW_S)).replace(".", ".~", 1),
        "a." + "b" * MAX_TOKEN_CHARS + ".c",
    ],
    ids=lambda _: "token",  # keys differ in each process
)
def test_hostile_tokens_are_rejected(text: str) -> None:
    keys = read_jwks(document(public_jwk("rsa"), public_jwk("oct")))

    with pytest.raises(JwtError):
        verify(text, keys=keys)


def test_the_error_for_an_unknown_key_has_its_id() -> None:
    with pytest.raises(JwtError) as unknown:
        verify(token(claims(NOW_S), kid="new"))
    with pytest.raises(JwtError) as expired:
        verify(token(claims(NOW_S, exp=NOW_S - 100, iat=1)))

    assert (unknown.value.unknown_kid, expired.value.unknown_kid) == ("new", None)
