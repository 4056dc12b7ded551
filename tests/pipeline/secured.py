"""Servers whose clients use TLS and log in: a node of Ottla, or Apache Kafka, with an authorizer.

SASL    SASL_SSL, where anna and bert log in by SCRAM or PLAIN
SHORT   like SASL, but a login ends after two seconds
MUTUAL  SSL, for clients with a certificate
ADMIN   PLAINTEXT, for the tests themselves: ANONYMOUS is a super user
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.compat.java.java_programs import QUICK_START
from tests.compat.servers import ROOT, Server, start, start_ottla
from tests.pem_files import write_pem
from tests.ports import free_port

TIMEOUT_S: Final = 60.0
LIFETIME_MS: Final = 2_000  # of a login at SHORT
LISTENERS: Final = ("ADMIN", "SASL", "SHORT", "MUTUAL")
PASSWORDS: Final = {"anna": "anna-canary-password", "bert": "bert-canary-password"}
MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PLAIN_USERS: Final = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())


class Secured:
    """A running server, with the options for its clients."""

    def __init__(self, home: Path, ports: dict[str, int], server: Server) -> None:
        self.home = home
        self.server = server
        self._ports = ports
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap("ADMIN")})

    def bootstrap(self, listener: str) -> str:
        """Return the address of a listener."""
        return f"127.0.0.1:{self._ports[listener]}"

    def options(
        self,
        user: str = "anna",
        *,
        listener: str = "SASL",
        mechanism: str = "SCRAM-SHA-512",
        password: str | None = None,
    ) -> dict[str, str]:
        """Return the options of a client that logs in."""
        jaas = f'{MODULES[mechanism]} required username="{user}" password="{password or PASSWORDS[user]}";'
        return {
            "kafka.bootstrap.servers": self.bootstrap(listener),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.home / "ca.pem"),
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": jaas,
        }

    def mutual_options(self, **stores: str) -> dict[str, str]:
        """Return the options of a client, with its certificate if `stores` has one."""
        given = {f"kafka.ssl.{name.replace('_', '.')}": value for name, value in stores.items()}
        return {
            "kafka.bootstrap.servers": self.bootstrap("MUTUAL"),
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.location": str(self.home / "ca.pem"),
            **given,
        }

    # ---- users and rights ---------------------------------------------------------------------------

    def add_user(self, user: str) -> None:
        """Let a user log in by SCRAM."""
        changes = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORDS[user].encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for change in changes:
            for done in self._admin.alter_user_scram_credentials([change]).values():
                done.result(TIMEOUT_S)

    def remove_user(self, user: str) -> None:
        """Remove a user's login by SCRAM-SHA-512."""
        change = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
        for done in self._admin.alter_user_scram_credentials([change]).values():
            done.result(TIMEOUT_S)

    def grant(self, user: str, *rights: str) -> None:
        """Grant rights to a user, each as `KIND NAME OPERATION`; a name that ends with `*` is a prefix."""
        bindings = [_binding(user, *right.split()) for right in rights]
        for done in self._admin.create_acls(bindings).values():
            done.result(TIMEOUT_S)

    def revoke_all(self, user: str) -> None:
        """Revoke all rights of a user."""
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{user}",
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for done in self._admin.delete_acls([everything]).values():
            done.result(TIMEOUT_S)


def _binding(user: str, kind: str, name: str, operation: str) -> AclBinding:
    pattern = ResourcePatternType.LITERAL
    if name.endswith("*") and name != "*":
        name, pattern = name[:-1], ResourcePatternType.PREFIXED
    kinds = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "cluster": ResourceType.BROKER,
        "transactional-id": ResourceType.TRANSACTIONAL_ID,
    }
    if kind == "cluster":
        name = "kafka-cluster"
    return AclBinding(
        kinds[kind],
        name,
        pattern,
        f"User:{user}",
        "*",
        AclOperation[operation.upper()],
        AclPermissionType.ALLOW,
    )


@contextmanager
def secured(home: Path, *overrides: str, is_kafka: bool = False) -> Iterator[Secured]:
    """Run a node of Ottla, or Apache Kafka, with its certificates and its users."""
    home.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    for name in ("node", "anna"):
        write_pem(home, name, authority)
    trustme.CA().cert_pem.write_to_path(str(home / "untrusted.pem"))
    ports = {name: free_port() for name in LISTENERS}
    controller = f",CONTROLLER://127.0.0.1:{(controller_port := free_port())}" if is_kafka else ""
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = "ADMIN:PLAINTEXT,SASL:SASL_SSL,SHORT:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT"
    mechanisms = "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN"
    settings = [
        f"listeners={listeners}{controller}",
        f"advertised.listeners={listeners}",
        f"listener.security.protocol.map={protocols}",
        "inter.broker.listener.name=ADMIN",
        f"sasl.enabled.mechanisms={mechanisms}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={home / 'node.pem'}",
        "listener.name.mutual.ssl.client.auth=required",
        "listener.name.mutual.ssl.truststore.type=PEM",
        f"listener.name.mutual.ssl.truststore.location={home / 'ca.pem'}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        *(
            f"listener.name.{name}.plain.sasl.jaas.config={MODULES['PLAIN']} required {_PLAIN_USERS};"
            for name in ("sasl", "short")
        ),
        *(
            f"listener.name.short.{mechanism.lower()}.connections.max.reauth.ms={LIFETIME_MS}"
            for mechanism in mechanisms.split(",")
        ),
    ]
    if is_kafka:
        settings.append(f"controller.quorum.voters=1@127.0.0.1:{controller_port}")
        # Its SCRAM users come from the metadata, without options of the login module.
        settings += [
            f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config={MODULES[mechanism]} required;"
            for name in ("sasl", "short")
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ]
    if is_kafka:
        command = [str(ROOT / "scripts" / "kafka-reference"), "--data", str(home / "kafka")]
        command += ["--port", str(ports["ADMIN"])]
        server = start(command, home, (*settings, *overrides), JDK_JAVA_OPTIONS=" ".join(QUICK_START))
    else:
        server = start_ottla(home, *settings, *overrides)
    try:
        found = Secured(home, ports, server)
        for user in PASSWORDS:
            found.add_user(user)
        yield found
    finally:
        server.stop()
