"""The settings of OAUTHBEARER: the required ones, and the URLs that keys may be fetched from."""

from typing import Any

import pytest

from ottla.logstore.words.config_def import ConfigDef
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.config import parse_config
from ottla.node.settings.oauthbearer_settings import (
    OAUTHBEARER_SETTINGS,
    JwksPauses,
    OauthBearer,
    TokenRules,
    check_url,
    oauth_bearer,
)

DEFAULTS = {
    "sasl.oauthbearer.jwks.endpoint.url": "https://id.example/keys",
    "sasl.oauthbearer.expected.audience": "ottla,other",
    "sasl.oauthbearer.expected.issuer": "https://id.example",
}


def settings(**changes: Any) -> OauthBearer:
    names = {name.replace("_", "."): value for name, value in changes.items()}
    texts = {name: text for name, text in {**DEFAULTS, **names}.items() if text is not None}
    return oauth_bearer(ConfigDef("broker", OAUTHBEARER_SETTINGS).parse_all(texts))


def test_the_defaults_are_those_of_kafka() -> None:
    assert settings() == OauthBearer(
        url="https://id.example/keys",
        allowed_hosts=("id.example",),
        truststore_location=None,
        pauses=JwksPauses(3_600_000, 100, 10_000),
        rules=TokenRules(
            audiences=frozenset({"ottla", "other"}),
            issuer="https://id.example",
            clock_skew_s=30,
            subject_claim="sub",
            scope_claim="scope",
        ),
    )


def test_the_settings_of_oauthbearer_are_parsed() -> None:
    found = settings(
        sasl_oauthbearer_clock_skew_seconds="5",
        sasl_oauthbearer_sub_claim_name="email",
        sasl_oauthbearer_jwks_endpoint_refresh_ms="1000",
        ottla_sasl_oauthbearer_truststore_location="/etc/ca.pem",
        ottla_sasl_oauthbearer_allowed_hosts="other.example,ID.example",
    )

    assert (found.rules.clock_skew_s, found.rules.subject_claim) == (5, "email")
    assert (found.pauses.refresh_ms, found.truststore_location) == (1_000, "/etc/ca.pem")
    assert found.allowed_hosts == ("other.example", "ID.example")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl_oauthbearer_jwks_endpoint_url": None}, "needs sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl_oauthbearer_jwks_endpoint_url": "http://id.example/keys"}, "only https"),
        ({"sasl_oauthbearer_jwks_endpoint_url": "https://id.example:x/keys"}, "it is not a URL"),
        ({"ottla_sasl_oauthbearer_allowed_hosts": "other.example"}, "its host is not in"),
        ({"sasl_oauthbearer_expected_issuer": None}, "needs sasl.oauthbearer.expected.issuer,"),
        ({"sasl_oauthbearer_expected_audience": ""}, "needs sasl.oauthbearer.expected.audience,"),
    ],
)
def test_settings_that_would_accept_tokens_of_others_are_rejected(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as refused:
        settings(**changes)

    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_tokens_for_other_services_are_accepted_only_with_the_setting_for_that() -> None:
    found = settings(
        sasl_oauthbearer_expected_issuer=None,
        sasl_oauthbearer_expected_audience=None,
        ottla_sasl_oauthbearer_accept_any="true",
    )

    assert (found.rules.audiences, found.rules.issuer) == (frozenset(), None)


LISTENERS = {
    "listeners": "PLAINTEXT://:9092,SECURE://:9093,OPEN://:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,OPEN:SASL_PLAINTEXT",
    "listener.name.open.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
    "ssl.keystore.location": "node.pem",
    **DEFAULTS,
}


def test_each_listener_may_have_settings_of_oauthbearer_of_its_own() -> None:
    other = {"listener.name.secure.sasl.oauthbearer.expected.audience": "another"}
    made = parse_config({**LISTENERS, **other})

    secure, plain = made.listener_sasl["SECURE"], made.listener_sasl["OPEN"]
    tokens = secure.mechanisms["OAUTHBEARER"].tokens
    assert tokens is not None and tokens.rules.audiences == {"another"}
    assert secure.mechanisms["SCRAM-SHA-512"].tokens is None
    assert list(plain.mechanisms) == ["SCRAM-SHA-512"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl.oauthbearer.expected.issuer": ""}, "SECURE .*needs sasl.oauthbearer.expected.issuer"),
        ({"listener.name.open.sasl.enabled.mechanisms": "OAUTHBEARER"}, "OPEN .*has no TLS, so OAUTHBEARER"),
    ],
)
def test_the_error_names_the_listener(changes: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError, match=message) as refused:
        parse_config({**LISTENERS, **changes})

    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://id.example/keys", True),
        ("https://ID.example:8443/keys?a=b", True),
        ("http://id.example/keys", False),
        ("file:///etc/passwd", False),
        ("https://other.example/keys", False),
        ("https://id.example@other.example/keys", False),
        ("https://user:word@id.example/keys", False),
        ("https://id.example.other.example/keys", False),
        ("https://id.example:x/keys", False),
        ("https:///keys", False),
        ("", False),
    ],
)
def test_keys_are_fetched_only_by_https_from_allowed_hosts(url: str, is_allowed: bool) -> None:
    if is_allowed:
        check_url(url, ("id.example",))
        return
    with pytest.raises(KafkaError) as refused:
        check_url(url, ("id.example",))

    assert refused.value.code is ErrorCode.INVALID_CONFIG
