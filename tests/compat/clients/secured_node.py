"""A node with TLS and logins for tests of client libraries, and Apache Kafka 4.3.1 with the same settings."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import trustme
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.node.broker import Broker
from tests.compat.java.java_programs import QUICK_START
from tests.compat.servers import ROOT, Server, start
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.pem_files import write_pem
from tests.ports import free_port
from tests.tokens import AUDIENCE, ISSUER, claims, document, public_jwk, token

TIMEOUT_S: Final = 60.0
# The lifetime of a login at SHORT. franz-go logs in again 1.1 s before the end, and no server permits that
# within a second of the last login.
LIFETIME_MS: Final = 3_000
PASSWORD: Final = "anna-secret"
TOPIC: Final = "talk"
SCRAM_256, SCRAM_512, PLAIN, OAUTHBEARER = "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"
ADMIN: Final = "PLAINTEXT"
LISTENERS: Final = {
    ADMIN: "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",  # for clients with a certificate
    "EXPIRED": "SSL",  # the server's own certificate has expired
    "OPEN": "SASL_PLAINTEXT",
    "TLS": "SASL_SSL",
    "SHORT": "SASL_SSL",  # a login ends after LIFETIME_MS
}
_SCRAM: Final = f"{SCRAM_512},{SCRAM_256}"
_MODULES: Final = "org.apache.kafka.common.security."


class SecuredNode(Protocol):
    """A server with all LISTENERS."""

    home: Path  # of certificates and tokens

    def bootstrap(self, listener: str) -> str: ...

    def logins(self, listener: str) -> dict[str, int]:
        """Return the number of logins by outcome, or nothing if the server does not count them."""
        ...

    def stop(self) -> object: ...


class OttlaNode:
    """A node in this process."""

    def __init__(self, home: Path, keys_url: str, keys_authority: Path) -> None:
        self.home = home
        self._embedded: EmbeddedBroker = start_embedded(
            home / "data",
            **{name.replace(".", "_"): value for name, value in _settings(home).items()},
            listeners=",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            sasl_oauthbearer_jwks_endpoint_url=keys_url,
            ottla_sasl_oauthbearer_truststore_location=keys_authority,
        )

    def bootstrap(self, listener: str) -> str:
        def port(broker: Broker) -> int:
            return next(one.port for one in broker.listeners if one.name == listener)

        return f"127.0.0.1:{self._embedded.call(port)}"

    def logins(self, listener: str) -> dict[str, int]:
        def read(broker: Broker) -> dict[str, int]:
            gate = next(one.login_gate for one in broker.listeners if one.name == listener)
            assert gate is not None
            return gate.counts.by_name()

        return self._embedded.call(read)

    def stop(self) -> None:
        self._embedded.stop()


class KafkaNode:
    """Apache Kafka as a process."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._ports = {name: free_port() for name in LISTENERS}
        controller, keys = free_port(), home / "keys.json"
        keys.write_bytes(document(public_jwk("rsa")))
        addresses = [f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()]
        protocols = ",".join(f"{one}:{of}" for one, of in LISTENERS.items())
        settings = {
            **_settings(home),
            "listeners": ",".join((*addresses, f"CONTROLLER://127.0.0.1:{controller}")),
            "advertised.listeners": ",".join(addresses),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            **_jaas(),
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
        command = [str(ROOT / "scripts" / "kafka-reference"), "--data", str(home / "kafka"), "--heap", "512m"]
        self._server: Server = start(
            [*command, "--port", str(self._ports[ADMIN])],
            home / "data",
            tuple(f"{name}={value}" for name, value in settings.items()),
            JDK_JAVA_OPTIONS=" ".join((*QUICK_START, allowed)),
        )

    def bootstrap(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def logins(self, listener: str) -> dict[str, int]:
        return {}

    def stop(self) -> None:
        self._server.stop()


def write_files(home: Path) -> None:
    """Write valid and invalid certificates, and tokens."""
    authority, past = trustme.CA(), datetime.now(UTC) - timedelta(days=1)
    write_pem(home, "node", authority)
    write_pem(home, "old-node", authority, not_after=past)
    write_pem(home, "client", authority)
    write_pem(home, "old-client", authority, not_after=past)
    write_pem(home, "untrusted", trustme.CA())
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(home / "other-ca.pem"))
    now_s = int(time.time())
    (home / "token").write_text(token(claims(now_s, sub="anna")))
    (home / "old-token").write_text(token(claims(now_s, sub="anna", exp=now_s - 100, iat=now_s - 900)))


def _settings(home: Path) -> dict[str, str]:
    """Return the settings of both servers."""
    write_files(home)
    return {
        "listener.security.protocol.map": ",".join(f"{one}:{of}" for one, of in LISTENERS.items()),
        "inter.broker.listener.name": ADMIN,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "node.pem"),
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": str(home / "old-node.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(home / "ca.pem"),
        "sasl.enabled.mechanisms": _SCRAM,
        "listener.name.tls.sasl.enabled.mechanisms": f"{_SCRAM},{PLAIN},{OAUTHBEARER}",
        "listener.name.short.connections.max.reauth.ms": str(LIFETIME_MS),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


def _jaas() -> dict[str, str]:
    """Return the settings of mechanisms that only Kafka needs."""
    found = {
        f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": (
            f"{_MODULES}scram.ScramLoginModule required;"
        )
        for name in ("open", "tls", "short")
        for mechanism in (SCRAM_256, SCRAM_512)
    }
    bearer = "listener.name.tls.oauthbearer.sasl"
    return found | {
        "listener.name.tls.plain.sasl.jaas.config": (
            f'{_MODULES}plain.PlainLoginModule required user_anna="{PASSWORD}";'
        ),
        f"{bearer}.jaas.config": f"{_MODULES}oauthbearer.OAuthBearerLoginModule required;",
        f"{bearer}.server.callback.handler.class": (
            f"{_MODULES}oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
    }


def prepare(node: SecuredNode) -> None:
    """Create the topic and the user of all clients."""
    admin = _admin(node)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TIMEOUT_S)
    add_user(node, "anna")


def _admin(node: SecuredNode) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap(ADMIN)})


def add_user(node: SecuredNode, user: str) -> None:
    """Add the SCRAM credentials of a user."""
    admin = _admin(node)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode())
        admin.alter_user_scram_credentials([wanted])[user].result(TIMEOUT_S)


def remove_user(node: SecuredNode, user: str) -> None:
    """Remove the SCRAM-SHA-512 credentials of a user."""
    unwanted = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
    admin = _admin(node)
    admin.alter_user_scram_credentials([unwanted])[user].result(TIMEOUT_S)


def client_settings(
    node: SecuredNode, listener: str, mechanism: str | None = None, **changes: str
) -> dict[str, str]:
    """Return the settings of a client; `changes` adds or replaces values."""
    found = {"bootstrap.servers": node.bootstrap(listener), "security.protocol": LISTENERS[listener]}
    if "SSL" in LISTENERS[listener]:
        found["ca"] = str(node.home / "ca.pem")
    if mechanism == OAUTHBEARER:
        found |= {"mechanism": mechanism, "token": str(node.home / "token")}
    elif mechanism is not None:
        found |= {"mechanism": mechanism, "user": "anna", "password": PASSWORD}
    return found | changes
