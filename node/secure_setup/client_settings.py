"""The settings by which clients of several libraries reach a secured cluster. Pure."""

from dataclasses import dataclass, field
from typing import Final

from ottla.node.wire.sasl_mechanisms import SCRAM_SHA_512

SASL_SSL: Final = "SASL_SSL"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLogin:
    """The login of a user at a cluster."""

    bootstrap: str  # empty: not known yet
    authority: str  # the file with the certificate of the CA; empty: those that the system trusts
    user: str
    password: str = field(repr=False)

    def of_java(self) -> dict[str, str]:
        """Return the settings of Java's clients, of Kafka's tools and of `ottla --command-config`."""
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
        """Return the settings of librdkafka: confluent-kafka and kcat."""
        return {
            **({"bootstrap.servers": self.bootstrap} if self.bootstrap else {}),
            "security.protocol": SASL_SSL,
            **({"ssl.ca.location": self.authority} if self.authority else {}),
            "sasl.mechanism": SCRAM_SHA_512,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }

    def of_kafka_python(self) -> dict[str, str]:
        """Return the arguments of kafka-python."""
        return {
            **({"bootstrap_servers": self.bootstrap} if self.bootstrap else {}),
            "security_protocol": SASL_SSL,
            **({"ssl_cafile": self.authority} if self.authority else {}),
            "sasl_mechanism": SCRAM_SHA_512,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }


def properties_text(settings: dict[str, str]) -> str:
    """Return settings as a properties file, which means the same to every reader of Java's format."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escaped(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = plain.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
