"""Each setting of security is either honoured, or named by an error that stops the start."""

import dataclasses
from typing import Final

import pytest

from ottla.logstore.words.config_def import ConfigType
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.settings.settings_not_honoured import NOT_HONOURED

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JAAS: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="anna-secret";'
# One listener of each kind, and every other part that settings of security can apply to.
SECURE: Final = {
    "listeners": "PLAINTEXT://:9092,ENC://:9093,LOG://:9094",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ENC:SSL,LOG:SASL_SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "ssl.keystore.location": "/own.pem",
    "ssl.truststore.location": "/authorities.pem",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://login.example.com/keys",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "https://login.example.com",
    "authorizer.class.name": STANDARD,
}
OF_SECURITY: Final = (
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "delegation.token.secret.key",
    "listener.security.protocol.map",
    "principal.builder.class",
    "super.users",
    *sorted(
        name
        for name in {*BROKER_CONFIG_DEF.keys, *NOT_HONOURED}
        if name.startswith(("ssl.", "sasl.", "security."))
    ),
)
PLACES: Final = (
    "",
    "listener.name.enc.",
    "listener.name.log.",
    "listener.name.plaintext.",
    "listener.name.nowhere.",
    "listener.name.log.plain.",
    "listener.name.log.scram-sha-256.",  # not enabled
    "listener.name.log.gssapi.",
    "listener.name.log.kerberos.",
    "listener.name.enc.plain.",
    "LISTENER.NAME.ENC.",
)
BASELINE: Final = parse_config(SECURE)
# These have an effect only together with other settings, or with another inter-broker listener.
DEPENDENT: Final = {
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "security.inter.broker.protocol",
}
# Stores at a listener without TLS promise no protection from clients, so they may be set there.
STORES: Final = ("ssl.keystore.", "ssl.truststore.", "ssl.key.", "ssl.allow.", "ssl.endpoint.")


def value_of(name: str) -> str:
    """Return a value that is not the default, empty if only no value at all differs from it."""
    special = {
        "ssl.client.auth": "requested",
        "ssl.enabled.protocols": "TLSv1.3",
        "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "sasl.jaas.config": JAAS,
        "sasl.oauthbearer.jwks.endpoint.url": "https://other.example.com/keys",
        "super.users": "User:admin",
        "listener.security.protocol.map": "PLAINTEXT:SSL,ENC:SSL,LOG:SASL_SSL",
    }
    if name in special:
        return special[name]
    key = BROKER_CONFIG_DEF.keys.get(name)
    if key is not None and key.type is ConfigType.BOOLEAN:
        return "false" if key.default else "true"
    if key is not None and key.type in (ConfigType.INT, ConfigType.LONG):
        return "12345"
    return "PKCS12" if name.endswith(".type") else "other"


def difference(config: BrokerConfig, before: BrokerConfig) -> list[str]:
    """Return the attributes in which two configurations differ, besides the texts of settings."""
    names = {one.name for one in dataclasses.fields(config)} - {"values", "static_texts", "warnings"}
    return [name for name in sorted(names) if getattr(config, name) != getattr(before, name)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [name for name in OF_SECURITY if value_of(name)])
def test_a_setting_of_security_is_honoured_or_named_by_an_error(name: str, place: str) -> None:
    value = value_of(name)
    try:
        config = parse_config({**SECURE, place + name: value})
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_CONFIG
        assert name in error.detail or name.rpartition(".")[0] in error.detail  # or another one of its store
        assert "anna-secret" not in error.detail
        return

    if config.warnings:
        assert config.warnings == (
            f"The Apache Kafka setting {place}{name} is not supported and has no effect.",
        )
        assert name == "ssl.secure.random.implementation"
    elif place == "listener.name.plaintext.":
        assert name.startswith(STORES)
    elif name not in DEPENDENT:
        assert difference(config, BASELINE), "the setting is accepted but has no effect"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "listener.name.log.sasl.jaas.config",
            JAAS,
            r"name the mechanism, too.*listener\.name\.log\.plain\.sasl",
        ),
        ("listener.name.log.gssapi.sasl.jaas.config", JAAS, "there is no mechanism GSSAPI here"),
        (
            "listener.name.log.scram-sha-256.sasl.jaas.config",
            JAAS,
            "does not have SCRAM-SHA-256 in sasl.enabled",
        ),
        ("listener.name.lgo.plain.sasl.jaas.config", JAAS, "there is no listener LGO. Name one of ENC, LOG"),
        ("listener.name.nowhere.ssl.client.auth", "required", "there is no listener NOWHERE"),
        ("listener.name.plaintext.ssl.client.auth", "required", "no listener PLAINTEXT with TLS"),
        ("listener.name.enc.super.users", "User:admin", "cannot be set for one listener. Write super.users"),
        ("listener.name.log.plain.ssl.client.auth", "required", "only sasl.jaas.config and connections.max"),
        ("listener.name.enc.principal.builder.class", "a.B", "does not enforce it yet"),
        ("ssl.client.auht", "required", "does not know this setting"),
        ("SSL.CLIENT.AUTH", "required", "does not know this setting"),
        ("LISTENER.NAME.ENC.SSL.CLIENT.AUTH", "required", "does not know this setting"),
        ("authorizer.clas.name", STANDARD, "does not know this setting"),
        ("plain.sasl.jaas.config", JAAS, "does not know this setting"),
        ("ssl.provider", "BCFIPS", "does not enforce it yet"),
        ("listener.name." + "x." * 50_000 + "ssl.client.auth", "required", "there is no listener X"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_the_error_says_what_to_write_instead(name: str, value: str, words: str) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        parse_config({**SECURE, name: value})

    assert "anna-secret" not in refused.value.detail and len(refused.value.detail) < 1_000


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.enc.ssl.client.auth",
        "listener.name.ENC.ssl.client.auth",
        "listener.name.Enc.ssl.client.auth",
    ],
)
def test_the_case_of_listener_names_does_not_matter(name: str) -> None:
    config = parse_config({**SECURE, name: "required"})

    assert config.listener_security["ENC"].client_auth == "required"
    assert config.listener_security["LOG"].client_auth == "none"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.nowhere.max.connections", "5"),
        ("confluent.ssl.something", "x"),
        ("ssl.protocol", "TLSv1.3"),
        ("security.providers", " "),
    ],
)
def test_a_setting_that_promises_no_security_does_not_stop_the_start(name: str, value: str) -> None:
    parse_config({**SECURE, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ottla.secured", "true"),
        ("ottla.rest.authenticaton", "basic"),
        ("ottla.sasl.plain.without.tsl", "true"),
        ("cluster.secrets", "anna"),
        ("config.providers", "file"),
        ("client.quota.callback.class", "org.example.Quotas"),
    ],
)
def test_misspelt_names_and_providers_of_secrets_stop_the_start(name: str, value: str) -> None:
    with pytest.raises(KafkaError, match=f"Invalid configuration {name}: "):
        parse_config({**SECURE, name: value})


@pytest.mark.parametrize(
    ("changes", "is_honoured"),
    [
        ({"ssl.client.auth": "required"}, True),  # ENC has TLS without logins
        ({"listener.name.log.ssl.client.auth": "required"}, False),  # LOG has logins
        ({"ssl.client.auth": "required", "listener.name.enc.ssl.client.auth": "none"}, False),
        ({"ssl.client.auth": "none", "listener.name.enc.ssl.client.auth": "none"}, True),
    ],
)
def test_client_certificates_apply_only_to_listeners_without_logins(
    changes: dict[str, str], is_honoured: bool
) -> None:
    if is_honoured:
        parse_config({**SECURE, **changes})
    else:
        with pytest.raises(KafkaError, match=r"ssl\.client\.auth: there is no listener"):
            parse_config({**SECURE, **changes})
