"""The settings by which clients of several libraries connect to a secured cluster. Pure."""

from dataclasses import dataclass, field
from typing import Final

from ottla.node.wire.sasl_mechanisms import SCRAM_SHA_512

SASL_SSL: Final = "SASL_SSL"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLogin:
    """The login of a user to a cluster."""

    bootstrap: str  # "" if not known yet
    authority: str  # the file with the certificate of the CA, or "" for those that the system trusts
    user: str
    password: str = field(repr=False)

    def of_java(self) -> dict[str, str]:
        """Return the settings for Java's clients, Kafka's tools and `ottla --command-config`."""
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority}
        user, password = _quoted(self.user), _quoted(self.password)
        return {
            **({"bootstrap.servers": self.bootstrap} if self.bootstrap else {}),
            "security.protocol": SASL_SSL,
            **(trust if self.authority else {}),
            "sasl.mechanism": SCRAM_SHA_512,
            "sasl.jaas.config": f"{_MODULE} required username={user} password={password};",
        }

    def of_librdkafka(self) -> dict[str, str]:
        """Return the settings for librdkafka, such as confluent-kafka and kcat."""
        return {
            **({"bootstrap.servers": self.bootstrap} if self.bootstrap else {}),
            "security.protocol": SASL_SSL,
            **({"ssl.ca.location": self.authority} if self.authority else {}),
            "sasl.mechanism": SCRAM_SHA_512,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }

    def of_kafka_python(self) -> dict[str, str]:
        """Return the arguments for kafka-python."""
        return {
            **({"bootstrap_servers": self.bootstrap} if self.bootstrap else {}),
            "security_protocol": SASL_SSL,
            **({"ssl_cafile": self.authority} if self.authority else {}),
            "sasl_mechanism": SCRAM_SHA_512,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }


def properties_text(settings: dict[str, str]) -> str:
    """Return settings as a properties file, escaped so that every reader of Java's format agrees on it."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escaped(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = plain.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
