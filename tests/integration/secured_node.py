"""A node with an authorizer and a listener with TLS and logins, and `ottla` commands against it."""

import datetime
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from ottla.node.broker import Broker
from ottla.node.cli.app import main
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORD = "admin-secret"
LISTENERS = {"TLS": "SASL_SSL", "OPEN": "SASL_PLAINTEXT", "PLAINTEXT": "PLAINTEXT", "SSL": "SSL"}


class SecuredNode:
    """A node, its files, and the settings of its clients."""

    def __init__(self, home: Path, **settings: object) -> None:
        self.home = home
        authority, other_authority = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(str(home / "ca.pem"))
        other_authority.cert_pem.write_to_path(str(home / "untrusted.pem"))
        expired = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(home / "node.pem"))
        authority.issue_cert("127.0.0.1", not_after=expired).private_key_and_cert_chain_pem.write_to_path(
            str(home / "expired.pem")
        )
        self.embedded: EmbeddedBroker = start_embedded(
            home / "data",
            listeners=",".join(f"{name}://127.0.0.1:0" for name in (*LISTENERS, "EXPIRED")),
            listener_security_protocol_map=",".join(
                f"{name}:{protocol}" for name, protocol in (*LISTENERS.items(), ("EXPIRED", "SSL"))
            ),
            inter_broker_listener_name="PLAINTEXT",
            ottla_rest_listeners="https://127.0.0.1:0",
            ottla_rest_authentication="basic",
            ssl_keystore_location=home / "node.pem",
            listener_name_expired_ssl_keystore_location=home / "expired.pem",
            sasl_enabled_mechanisms="SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            listener_name_open_sasl_enabled_mechanisms="SCRAM-SHA-512,SCRAM-SHA-256",
            authorizer_class_name=STANDARD,
            super_users="User:admin",
            ottla_add_scram=f"SCRAM-SHA-512=[name=admin,password={PASSWORD}]",
            **settings,
        )

    def address(self, listener: str) -> str:
        def port(broker: Broker) -> int:
            return next(one.port for one in broker.listeners if one.name == listener)

        return f"127.0.0.1:{self.embedded.call(port)}"

    @property
    def rest(self) -> str:
        """The URL of its REST API."""
        return self.embedded.broker.rest.addresses[0].url

    def properties(
        self,
        user: str = "admin",
        password: str = PASSWORD,
        *,
        listener: str = "TLS",
        protocol: str = "SASL_SSL",
        mechanism: str = "SCRAM-SHA-512",
        authority: str = "ca.pem",
        any_name: bool = False,
    ) -> Path:
        """Write the properties file of a client, for `--command-config`, and return its path."""
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        lines = [f"bootstrap.servers={self.address(listener)}", f"security.protocol={protocol}"]
        if "SSL" in protocol:
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.home / authority}"]
        if any_name:
            lines.append("ssl.endpoint.identification.algorithm=")
        if "SASL" in protocol:
            lines += [
                f"sasl.mechanism={mechanism}",
                f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
                f'username="{user}" password="{password}";',
            ]
        path = self.home / f"client-{len(list(self.home.glob('client-*')))}.properties"
        path.write_text("\n".join(lines) + "\n")
        return path


class CommandResult(NamedTuple):
    """The result of a command: its exit code and what it printed."""

    code: int
    out: str
    err: str


class Commands:
    """A runner of commands in this process, as the user of a properties file."""

    def __init__(
        self, config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.config, self._monkeypatch, self._capfd = config, monkeypatch, capfd

    def of(self, config: Path) -> "Commands":
        """Return a runner of commands for another user."""
        return Commands(config, self._monkeypatch, self._capfd)

    def run(self, *words: str, given: str = "", timeout_s: float = 20) -> CommandResult:
        """Run a command and return its result."""
        self._capfd.readouterr()
        command = ["ottla", *words, "--command-config", str(self.config), "--timeout", str(timeout_s)]
        with tempfile.TemporaryFile("w+") as lines, self._monkeypatch.context() as patch:
            lines.write(given)
            lines.seek(0)
            patch.setattr(sys, "argv", command)
            patch.setattr(sys, "stdin", lines)
            code = main()
        out, err = self._capfd.readouterr()
        return CommandResult(code, out, err)

    def __call__(self, *words: str, given: str = "", code: int = 0) -> str:
        """Run a command that must end with this code; return its output, or its stderr if it failed."""
        ran = self.run(*words, given=given)
        assert ran.code == code, ran
        return ran.err if code else ran.out


def secured_node(home: Path) -> Iterator[SecuredNode]:
    """Start a node, and stop it at the end."""
    node = SecuredNode(home)
    yield node
    node.embedded.stop()
