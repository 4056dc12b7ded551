"""The settings of TLS, resolved for one listener."""

from collections.abc import Mapping

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF, listener_setting
from ottla.node.settings.listener_settings import Listener
from ottla.node.settings.security_settings import ListenerSecurity, listener_security

KEYSTORE = {"ssl.keystore.location": "own.pem"}
TRUSTSTORE = {"ssl.truststore.location": "ca.pem"}


def resolved(
    texts: Mapping[str, str], own: Mapping[str, str] | None = None, protocol: str = "SSL"
) -> ListenerSecurity:
    listener = Listener(name="OUTER", host="", port=9093, security_protocol=protocol)
    overrides = {name: BROKER_CONFIG_DEF.parse(name, text) for name, text in (own or {}).items()}
    return listener_security(listener, BROKER_CONFIG_DEF.parse_all(texts), overrides)


def test_a_setting_of_the_listener_wins_over_that_of_all() -> None:
    security = resolved(
        {**KEYSTORE, **TRUSTSTORE, "ssl.key.password": "all", "ssl.client.auth": "REQUIRED"},
        {"ssl.keystore.location": "outer.pem", "ssl.enabled.protocols": "TLSv1.3"},
    )

    assert security.keystore.location == "outer.pem"
    assert security.keystore.key_password == "all"
    assert security.enabled_protocols == ("TLSv1.3",)
    assert security.client_auth == "required"


def test_a_sasl_ssl_listener_ignores_the_client_auth_of_all_listeners() -> None:
    texts = {**KEYSTORE, **TRUSTSTORE, "ssl.client.auth": "required"}

    assert resolved(texts, protocol="SASL_SSL").client_auth == "none"
    assert resolved(texts, {"ssl.client.auth": "requested"}, "SASL_SSL").client_auth == "requested"


def test_the_text_of_the_settings_shows_no_password() -> None:
    shown = repr(
        resolved(
            {
                "ssl.keystore.key": "hush-1",
                "ssl.keystore.certificate.chain": "hush-2",
                "ssl.key.password": "hush-3",
                "ssl.truststore.certificates": "hush-4",
            }
        )
    )

    assert "hush" not in shown


@pytest.mark.parametrize(
    ("texts", "setting"),
    [
        ({}, "ssl.keystore.location"),
        ({"ssl.keystore.key": "k"}, "ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "c"}, "ssl.keystore.key"),
        (
            {**KEYSTORE, "ssl.keystore.key": "k", "ssl.keystore.certificate.chain": "c"},
            "ssl.keystore.location",
        ),
        (
            {
                "ssl.keystore.key": "k",
                "ssl.keystore.certificate.chain": "c",
                "ssl.keystore.type": "PKCS12",
            },
            "ssl.keystore.type",
        ),
        ({**KEYSTORE, "ssl.keystore.password": "p"}, "ssl.keystore.password"),
        ({**KEYSTORE, "ssl.keystore.type": "PKCS12"}, "ssl.keystore.password"),
        ({**KEYSTORE, **TRUSTSTORE, "ssl.truststore.password": "p"}, "ssl.truststore.password"),
        (
            {**KEYSTORE, "ssl.truststore.type": "PKCS12", "ssl.truststore.password": "p"},
            "ssl.truststore.password",
        ),
        ({**KEYSTORE, **TRUSTSTORE, "ssl.truststore.certificates": "c"}, "ssl.truststore.location"),
        ({**KEYSTORE, "ssl.client.auth": "required"}, "ssl.truststore.location"),
        ({**KEYSTORE, "ssl.client.auth": "requested"}, "ssl.truststore.location"),
    ],
)
def test_the_error_about_contradicting_settings_names_setting_and_listener(
    texts: dict[str, str], setting: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        resolved(texts)

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.detail.startswith(f"Invalid configuration {setting}: the listener OUTER (SSL) ")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ssl.keystore.type", "JKS", "keytool -importkeystore"),
        ("ssl.truststore.type", "BCFKS", "must be one of: PEM, PKCS12"),
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2", "must be one of: TLSv1.2, TLSv1.3"),
        ("ssl.enabled.protocols", "", "must not be empty"),
        ("ssl.client.auth", "maybe", "must be one of: required, requested, none"),
    ],
)
def test_an_unsupported_value_is_rejected(name: str, value: str, message: str) -> None:
    for each in (name, f"listener.name.outer.{name}"):
        with pytest.raises(KafkaError) as refused:
            BROKER_CONFIG_DEF.parse(each, value)

        assert refused.value.code is ErrorCode.INVALID_CONFIG
        assert each in refused.value.detail and message in refused.value.detail


def test_a_keystore_can_be_changed_while_the_node_runs_only_for_one_listener() -> None:
    name = "ssl.keystore.location"

    assert listener_setting(f"listener.name.my.outer.{name}") == ("MY.OUTER", name)
    assert BROKER_CONFIG_DEF.key(name).read_only
    assert not BROKER_CONFIG_DEF.key(f"listener.name.outer.{name}").read_only
    assert BROKER_CONFIG_DEF.key("listener.name.outer.ssl.client.auth").read_only
