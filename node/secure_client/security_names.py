"""The security settings of Java's clients: each is used, ignored, or rejected with a reason.

A misspelt name would leave a connection less secure than its owner believes. So every name that begins like
a security setting is used, known to have no effect, or rejected.
"""

import difflib
from collections.abc import Mapping
from typing import Final

READ: Final = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

_JAVA_TLS = "this client uses OpenSSL, which chooses this itself"
_NO_KERBEROS = "it belongs to Kerberos, which is not supported"
_LOGIN_EACH_TIME = "a token is read again at each login"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "sasl.kerberos.kinit.cmd": _NO_KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _NO_KERBEROS,
    "sasl.kerberos.service.name": _NO_KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _NO_KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _NO_KERBEROS,
    "sasl.login.connect.timeout.ms": _LOGIN_EACH_TIME,
    "sasl.login.read.timeout.ms": _LOGIN_EACH_TIME,
    "sasl.login.refresh.buffer.seconds": _LOGIN_EACH_TIME,
    "sasl.login.refresh.min.period.seconds": _LOGIN_EACH_TIME,
    "sasl.login.refresh.window.factor": _LOGIN_EACH_TIME,
    "sasl.login.refresh.window.jitter": _LOGIN_EACH_TIME,
    "sasl.login.retry.backoff.max.ms": _LOGIN_EACH_TIME,
    "sasl.login.retry.backoff.ms": _LOGIN_EACH_TIME,
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
}

_A_JAVA_CLASS = "names a Java class, and this client is written in Python"
_TOKEN = (
    "is not supported: tokens can only be fetched by client credentials "
    "(sasl.oauthbearer.token.endpoint.url=https://host/path, with clientId and clientSecret in "
    "sasl.jaas.config), read from a file (file:///path), or given in sasl.jaas.config (token)"
)
_OF_SERVERS = "is a setting of servers, not of clients"

REFUSED: Final[Mapping[str, str]] = {
    "sasl.client.callback.handler.class": _A_JAVA_CLASS,
    "sasl.login.callback.handler.class": _A_JAVA_CLASS,
    "sasl.login.class": _A_JAVA_CLASS,
    "sasl.oauthbearer.jwt.retriever.class": _A_JAVA_CLASS,
    "sasl.oauthbearer.jwt.validator.class": _A_JAVA_CLASS,
    "security.providers": _A_JAVA_CLASS,
    "ssl.engine.factory.class": _A_JAVA_CLASS,
    "ssl.provider": _A_JAVA_CLASS,
    "sasl.enabled.mechanisms": _OF_SERVERS,
    "security.inter.broker.protocol": _OF_SERVERS,
    "ssl.client.auth": _OF_SERVERS,
    # librdkafka's names for settings that have other names in Java's clients.
    "sasl.mechanisms": "is librdkafka's name; use sasl.mechanism",
    "sasl.password": "is librdkafka's name; give user and password in sasl.jaas.config",
    "sasl.username": "is librdkafka's name; give user and password in sasl.jaas.config",
    "ssl.ca.location": "is librdkafka's name; use ssl.truststore.location",
    "ssl.ca.pem": "is librdkafka's name; use ssl.truststore.certificates",
    "ssl.certificate.location": "is librdkafka's name; put key and certificates into one file, and use "
    "ssl.keystore.location",
    "ssl.certificate.pem": "is librdkafka's name; use ssl.keystore.certificate.chain",
    "ssl.key.location": "is librdkafka's name; put key and certificates into one file, and use "
    "ssl.keystore.location",
    "ssl.key.pem": "is librdkafka's name; use ssl.keystore.key",
}

_BEGINNINGS: Final = ("sasl.", "ssl.", "security.", "enable.ssl.")


def is_of_security(name: str) -> bool:
    """Return True if the name is that of a security setting, by its prefix."""
    return name.startswith(_BEGINNINGS)


def problem_of_name(name: str) -> str | None:
    """Return the reason to reject a setting, as a sentence that continues its name, or None."""
    if name in READ or name in WITHOUT_EFFECT or not is_of_security(name):
        return None
    if name in REFUSED:
        return REFUSED[name]
    if name.startswith("sasl.oauthbearer."):
        return _TOKEN
    near = difflib.get_close_matches(name, READ, n=1)
    return "is not a security setting of a Kafka client" + (f"; did you mean {near[0]}?" if near else "")
