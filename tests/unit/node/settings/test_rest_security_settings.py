"""The settings of TLS and logins of the REST API, and the contradictions between them."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.config import BrokerConfig, parse_config

KEYS = {"ottla.rest.listeners": "https://:0", "ottla.rest.ssl.keystore.location": "/node.pem"}
TOKENS = {
    "sasl.oauthbearer.jwks.endpoint.url": "https://login.example.com/keys",
    "sasl.oauthbearer.expected.audience": "ottla",
    "sasl.oauthbearer.expected.issuer": "https://login.example.com",
}


def refusal(**settings: str) -> str:
    with pytest.raises(KafkaError) as refused:
        parse_config({name.replace("_", "."): value for name, value in settings.items()})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    return refused.value.detail


def config(settings: dict[str, str]) -> BrokerConfig:
    return parse_config(settings)


def test_by_default_the_rest_api_has_no_tls_and_no_logins() -> None:
    found = config({})

    assert found.rest_security is None and found.rest_logins.methods == ()


def test_settings_of_the_rest_api_win_over_those_of_listeners() -> None:
    given = {"ssl.keystore.location": "/other.pem", "ssl.key.password": "secret", "ssl.client.auth": "none"}

    security = config(KEYS | given).rest_security

    assert security is not None and security.keystore.location == "/node.pem"
    assert security.keystore.key_password == "secret" and security.client_auth == "none"


def test_only_the_setting_of_the_rest_api_makes_it_ask_for_certificates() -> None:
    trust = {"ssl.truststore.location": "/ca.pem"}
    of_listener = {
        "listeners": "SSL://:0",
        "inter.broker.listener.name": "SSL",
        "ssl.client.auth": "required",
    }

    others = config(KEYS | trust | of_listener | {"ssl.keystore.location": "/node.pem"}).rest_security
    own = config(KEYS | trust | {"ottla.rest.ssl.client.auth": "REQUIRED"}).rest_security

    assert others is not None and others.client_auth == "none"
    assert own is not None and own.client_auth == "required"


def test_https_needs_a_keystore() -> None:
    assert "ottla.rest.ssl.keystore.location: https addresses" in refusal(ottla_rest_listeners="https://:0")


def test_settings_of_tls_without_an_https_address_stop_the_start() -> None:
    assert "no https address" in refusal(ottla_rest_ssl_client_auth="required")
    # If the API is turned off, its settings may stay.
    assert config({"ottla.rest.listeners": "", "ottla.rest.ssl.client.auth": "required"})


@pytest.mark.parametrize("address", ["http://:0", "http://10.0.0.1:0", "http://127.0.0.1:0,http://[::]:0"])
@pytest.mark.parametrize("method", ["basic", "bearer"])
def test_passwords_and_tokens_in_plaintext_stop_the_start(address: str, method: str) -> None:
    message = refusal(ottla_rest_listeners=address, ottla_rest_authentication=method)

    assert "ottla.rest.authentication.without.tls" in message


@pytest.mark.parametrize("address", ["http://127.0.0.1:0", "http://localhost:0", "http://[::1]:0"])
def test_passwords_in_plaintext_are_allowed_at_loopback_addresses(address: str) -> None:
    logins = config({"ottla.rest.listeners": address, "ottla.rest.authentication": "basic"}).rest_logins

    assert logins.methods == ("basic",) and not logins.warning


def test_passwords_in_plaintext_can_be_allowed_and_cause_a_warning() -> None:
    found = config({"ottla.rest.authentication": "basic", "ottla.rest.authentication.without.tls": "true"})

    assert any("without TLS" in one for one in found.warnings)


def test_logins_by_certificate_need_an_https_address_that_asks_for_one() -> None:
    assert "certificate" in refusal(ottla_rest_authentication="certificate")
    message = refusal(
        ottla_rest_listeners="https://:0",
        ottla_rest_ssl_keystore_location="/node.pem",
        ottla_rest_authentication="certificate",
    )
    assert "ottla.rest.ssl.client.auth" in message


def test_bearer_accepts_tokens_by_the_settings_of_oauthbearer() -> None:
    found = config(KEYS | TOKENS | {"ottla.rest.authentication": "bearer,basic,bearer"}).rest_logins

    assert found.methods == ("bearer", "basic")
    assert found.tokens is not None and found.tokens.rules.issuer == "https://login.example.com"
    local = {"ottla.rest.listeners": "http://localhost:0", "ottla.rest.authentication": "bearer"}
    with pytest.raises(KafkaError, match=r"jwks\.endpoint\.url"):
        config(local)


def test_settings_of_tokens_without_bearer_or_oauthbearer_stop_the_start() -> None:
    with pytest.raises(KafkaError, match="no listener with OAUTHBEARER"):
        config(KEYS | TOKENS | {"ottla.rest.authentication": "basic"})


def test_an_unknown_way_to_log_in_is_rejected() -> None:
    assert "every entry must be one of" in refusal(ottla_rest_authentication="digest")


def test_the_text_of_the_settings_shows_no_secret() -> None:
    given = KEYS | {"ottla.rest.ssl.key.password": "very-secret"}

    assert "very-secret" not in repr(config(given).rest_security)
