"""Kafka's BrokerJwtValidator as the reference for access tokens: both accept the same contents."""

import base64
import time
from pathlib import Path

import pytest

from ottla.node.security.access_token import JwtError
from ottla.node.security.jwks import read_jwks
from ottla.node.security.jwt import verify_token
from ottla.node.settings.oauthbearer_settings import TokenRules
from tests.compat.java.conftest import AskJava
from tests.tokens import AUDIENCE, ISSUER, Case, cases, published

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_tokens_are_accepted_and_rejected_as_by_kafka(ask_java: AskJava, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(published())
    tokens = cases(int(time.time()))
    lines = [f"{'expecting' if one.is_expecting else 'anything'} {one.token}\n" for one in tokens]

    output = ask_java("JwtReference", str(keys), AUDIENCE, ISSUER, questions="".join(lines).encode())

    answers = output.decode().split("\n")[:-1]
    named = [one.name for one in tokens]
    assert dict(zip(named, answers, strict=True)) == dict(zip(named, map(answer_of, tokens), strict=True))
    assert 10 < answers.count("rejected") < len(answers) - 10


def answer_of(case: Case) -> str:
    expecting = TokenRules(audiences=frozenset({AUDIENCE}), issuer=ISSUER)
    rules = expecting if case.is_expecting else TokenRules()
    try:
        found = verify_token(case.token, read_jwks(published()), rules, int(time.time() * 1_000))
    except JwtError:
        return "rejected"
    principal = base64.b64encode(found.principal.encode()).decode()
    return f"{principal} {found.expires_ms} {','.join(sorted(found.scopes))}"
