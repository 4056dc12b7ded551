"""Security settings of clients are read, and unusable ones are rejected by name."""

import pytest

from ottla.node.secure_client.client_security import (
    CLIENT_ID,
    CLIENT_SECRET,
    PLAINTEXT,
    TOKEN_URL,
    URL_ENCODE,
    ClientSecurity,
    ClientSecurityError,
    read_client_security,
)
from ottla.node.secure_client.security_names import READ, REFUSED, WITHOUT_EFFECT

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="anna" password="hidden";',
}
BEARER = "OAuthBearerLoginModule required"
FETCHED = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f'{BEARER} clientId="a" clientSecret="hidden";',
    TOKEN_URL: "https://issuer/token",
}


def read(**given: str) -> ClientSecurity:
    security, idle = read_client_security({name.replace("_", "."): value for name, value in given.items()})
    assert not idle
    return security


def test_without_settings_there_is_neither_tls_nor_a_login() -> None:
    assert read_client_security({"acks": "all"}) == (PLAINTEXT, ())
    assert PLAINTEXT.protocol == "PLAINTEXT" and not PLAINTEXT.files


def test_a_login_has_user_and_password_and_shows_neither_password_nor_key() -> None:
    security, idle = read_client_security(
        {**SCRAM, "ssl.keystore.key": "secret key", "ssl.keystore.certificate.chain": "chain"}
    )

    assert security.login is not None and not idle
    assert (security.login.user, security.login.password) == ("anna", "hidden")
    assert security.protocol == "SASL_SSL"
    assert "hidden" not in repr(security) and "secret key" not in repr(security)
    assert hash(security) != hash(PLAINTEXT)


def test_host_names_are_checked_unless_the_setting_is_empty() -> None:
    for algorithm, checks in (("https", True), ("HTTPS", True), ("", False)):
        found = read(security_protocol="ssl", ssl_endpoint_identification_algorithm=algorithm).tls

        assert found is not None and found.checks_host_names is checks
    default = read(security_protocol="SSL").tls
    assert default is not None and default.checks_host_names


def test_stores_are_pem_or_with_a_password_pkcs12_even_if_their_type_is_jks() -> None:
    def type_of(**given: str) -> str:
        tls = read(security_protocol="SSL", ssl_truststore_location="/t", **given).tls
        assert tls is not None and tls.truststore is not None
        return tls.truststore.type

    assert type_of() == "PEM"
    assert type_of(ssl_truststore_password="p") == "PKCS12"
    assert type_of(ssl_truststore_password="p", ssl_truststore_type="JKS") == "PKCS12"
    assert type_of(ssl_truststore_password="p", ssl_truststore_type="PKCS12") == "PKCS12"


def test_files_are_named_with_their_settings() -> None:
    security = read(
        security_protocol="SASL_SSL",
        ssl_truststore_location="/ca.pem",
        ssl_keystore_location="/own.pem",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=f"{BEARER};",
        sasl_oauthbearer_token_endpoint_url="file:///run/a%20token",
    )

    assert dict(security.files) == {
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.location": "/own.pem",
        "sasl.oauthbearer.token.endpoint.url": "/run/a token",
    }


def test_a_token_is_in_the_settings_with_its_extensions() -> None:
    jaas = f'a.b.{BEARER} token="e30.e30." extension_logicalCluster="lkc-1";'
    login = read(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_jaas_config=jaas).login

    assert login is not None
    assert login.token == "e30.e30." and login.extensions == (("logicalCluster", "lkc-1"),)
    assert "e30" not in repr(login)


def test_settings_of_an_unused_protocol_have_no_effect_and_are_reported() -> None:
    security, idle = read_client_security(
        {**SCRAM, "security.protocol": "SSL", "ssl.keymanager.algorithm": "X"}
    )

    assert security.login is None
    assert idle == ("sasl.jaas.config", "sasl.mechanism", "ssl.keymanager.algorithm")


@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol", "one of PLAINTEXT"),
        ({"security.protcol": "SSL"}, "security.protcol", "did you mean security.protocol?"),
        ({"ssl.truststore.locaton": "x"}, "ssl.truststore.locaton", "did you mean ssl.truststore.location?"),
        ({"ssl.engine.factory.class": "a.B"}, "ssl.engine.factory.class", "Java class"),
        ({"sasl.login.callback.handler.class": "a.B"}, "sasl.login.callback.handler.class", "Java class"),
        ({"ssl.ca.location": "x"}, "ssl.ca.location", "use ssl.truststore.location"),
        ({"sasl.username": "x"}, "sasl.username", "sasl.jaas.config"),
        ({**SCRAM, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "set one of SCRAM-SHA-512"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism", "not set, and Kafka's default, GSSAPI"),
        ({**SCRAM, "sasl.mechanism": "PLAIN"}, "sasl.jaas.config", "PLAIN needs a PlainLoginModule"),
        (
            {**SCRAM, "sasl.jaas.config": ""},
            "sasl.jaas.config",
            "not set, and SCRAM-SHA-512 needs it: sasl.jaas",
        ),
        ({**SCRAM, "sasl.jaas.config": "a.B required"}, "sasl.jaas.config", "semicolon"),
        (
            {**SCRAM, "sasl.jaas.config": "ScramLoginModule required username=a;"},
            "sasl.jaas.config",
            "no password",
        ),
        (
            {**SCRAM, "sasl.jaas.config": SCRAM["sasl.jaas.config"] * 2},
            "sasl.jaas.config",
            "2 login modules",
        ),
        (
            {**SCRAM, "sasl.jaas.config": "ScramLoginModule required username=a password=b tokenauth=true;"},
            "sasl.jaas.config",
            "delegation tokens",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{BEARER};",
            },
            "sasl.jaas.config",
            "no token",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{BEARER};",
                "sasl.oauthbearer.token.endpoint.url": "http://issuer/token",
            },
            "sasl.oauthbearer.token.endpoint.url",
            "or a provider, https://host/path",
        ),
        (
            {**FETCHED, "sasl.jaas.config": f"{BEARER};"},
            CLIENT_ID,
            "and sasl.jaas.config has no option clientId",
        ),
        (
            {**FETCHED, "sasl.jaas.config": f"{BEARER} clientId=hidden;"},
            CLIENT_SECRET,
            "and sasl.jaas.config has no option clientSecret",
        ),
        ({**FETCHED, TOKEN_URL: "https://hidden:x@issuer/token"}, TOKEN_URL, "is not the address"),
        ({**FETCHED, TOKEN_URL: "https://issuer:99999/token"}, TOKEN_URL, "is not the address"),
        ({**FETCHED, TOKEN_URL: "https:///token"}, TOKEN_URL, "is not the address"),
        ({**FETCHED, "sasl.oauthbearer.header.urlencode": "yes"}, URL_ENCODE, "true or false"),
        (
            {**FETCHED, "sasl.jaas.config": f"{BEARER} clientId=a clientSecret=hidden ssl.provider=b;"},
            "sasl.jaas.config",
            "ssl.provider, which is not supported",
        ),
        ({"sasl.oauthbearer.assertion.file": "x"}, None, "only be fetched by client credentials"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "ssl.truststore.type", "keytool"),
        (
            {"security.protocol": "SSL", "ssl.keystore.key": "k"},
            "ssl.keystore.certificate.chain",
            "needs this",
        ),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"},
            "ssl.enabled.protocols",
            "TLSv1.2",
        ),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "NO"}, "ssl.cipher.suites", "not supported"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
            "ssl.endpoint.identification.algorithm",
            "https, or empty",
        ),
    ],
)
def test_an_unusable_setting_is_rejected_by_name(
    given: dict[str, str], name: str | None, message: str
) -> None:
    with pytest.raises(ClientSecurityError) as refused:
        read_client_security(given)

    assert name is None or refused.value.name == name
    assert message in refused.value.problem and "hidden" not in str(refused.value)


def test_client_credentials_are_in_the_settings_or_in_the_login_module() -> None:
    by_module, _ = read_client_security(FETCHED)
    by_settings, _ = read_client_security(
        {
            **FETCHED,
            CLIENT_ID: "b",
            CLIENT_SECRET: "secret-b",
            "sasl.oauthbearer.scope": "read",
            URL_ENCODE: "true",
        }
    )

    assert by_module.login is not None and by_settings.login is not None
    first, second = by_module.login.credentials, by_settings.login.credentials
    assert first is not None and second is not None
    assert (first.client_id, first.client_secret, first.scope, first.encodes_header) == (
        "a",
        "hidden",
        "",
        False,
    )
    assert (second.client_id, second.client_secret, second.scope) == ("b", "secret-b", "read")
    assert second.encodes_header and first.tls is None and "hidden" not in repr(by_module)


def test_kafkas_own_handlers_of_tokens_are_accepted() -> None:
    name = "sasl.login.callback.handler.class"
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"

    assert read_client_security({name: handler}) == (PLAINTEXT, (name,))


def test_a_name_is_used_ignored_or_rejected() -> None:
    assert not READ & WITHOUT_EFFECT.keys() and not (READ | WITHOUT_EFFECT.keys()) & REFUSED.keys()
