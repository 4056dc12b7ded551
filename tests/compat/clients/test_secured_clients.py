"""Six client libraries at listeners with TLS and logins: every protocol and mechanism, and what may be wrong.

One node serves all. Each library is one process (`secured_client.py`, `SecuredClient.java`, `go/secured`).
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.node.broker import Broker
from tests.compat.go.programs import go_program
from tests.compat.java.jars import why_not
from tests.compat.java.java_programs import java_program
from tests.compat.java.test_ssl_clients import pkcs8
from tests.compat.servers import ROOT
from tests.integration.embedded_broker import start_embedded
from tests.integration.oauth_provider import serve_keys
from tests.tokens import AUDIENCE, ISSUER, claims, token

pytestmark = pytest.mark.slow
PATIENT_S: Final = 60.0
SOON_S: Final = 15.0  # until a client has told of what is wrong; the most patient one takes four seconds
PASSWORD: Final = "anna-secret"
TOPIC: Final = "talk"
SCRAM_256, SCRAM_512, PLAIN, OAUTHBEARER = "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"
LISTENERS: Final = {
    "ADMIN": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",  # for clients with a certificate
    "EXPIRED": "SSL",  # its own certificate has expired
    "OPEN": "SASL_PLAINTEXT",
    "TLS": "SASL_SSL",
}
# What each library says of a login that was refused, and of a certificate that it does not trust.
CLIENTS: Final = {
    "confluent": ("_AUTHENTICATION.*Authentication failed", "certificate verify failed"),
    "java": ("SaslAuthenticationException: Authentication failed", "SslAuthenticationException"),
    "franz": ("SASL_AUTHENTICATION_FAILED", "x509: certificate"),
    "sarama": ("SASL Authentication failed", "x509: certificate"),
    "kafka-python": ("SaslAuthenticationFailed", "CERTIFICATE_VERIFY_FAILED"),
    "aiokafka": ("SaslAuthenticationFailed", "CERTIFICATE_VERIFY_FAILED"),
}
AGAIN: Final = {
    "confluent",
    "java",
    "franz",
    "sarama",
    "kafka-python",
}  # log in again without a new connection


class Node:
    """The node, its files and its users."""

    def __init__(self, home: Path, keys_url: str, keys_authority: Path) -> None:
        self.home = home
        authority, past = trustme.CA(), datetime.now(UTC) - timedelta(days=1)
        self._issue("node", authority)
        self._issue("old-node", authority, not_after=past)
        self._issue("client", authority)
        authority.cert_pem.write_to_path(str(home / "ca.pem"))
        trustme.CA().cert_pem.write_to_path(str(home / "other-ca.pem"))
        now_s = int(time.time())
        (home / "token").write_text(token(claims(now_s, sub="anna")))
        self.embedded = start_embedded(
            home / "data",
            listeners=",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            listener_security_protocol_map=",".join(f"{one}:{of}" for one, of in LISTENERS.items()),
            inter_broker_listener_name="ADMIN",
            ssl_keystore_location=home / "node.pem",
            listener_name_expired_ssl_keystore_location=home / "old-node.pem",
            listener_name_mutual_ssl_client_auth="required",
            listener_name_mutual_ssl_truststore_location=home / "ca.pem",
            sasl_enabled_mechanisms=f"{SCRAM_512},{SCRAM_256}",
            listener_name_tls_sasl_enabled_mechanisms=",".join((SCRAM_512, SCRAM_256, PLAIN, OAUTHBEARER)),
            sasl_oauthbearer_jwks_endpoint_url=keys_url,
            sasl_oauthbearer_expected_audience=AUDIENCE,
            sasl_oauthbearer_expected_issuer=ISSUER,
            ottla_sasl_oauthbearer_truststore_location=keys_authority,
        )
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap("ADMIN")})
        self._admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENT_S)
        self.add_user("anna")

    def _issue(self, name: str, authority: trustme.CA, **how: Any) -> None:
        issued = authority.issue_cert("127.0.0.1", common_name=name, **how)
        chain = b"".join(one.bytes() for one in issued.cert_chain_pems)
        (self.home / f"{name}.pem").write_bytes(pkcs8(issued.private_key_pem.bytes()) + chain)

    def bootstrap(self, listener: str) -> str:
        def port(broker: Broker) -> int:
            return next(one.port for one in broker.listeners if one.name == listener)

        return f"127.0.0.1:{self.embedded.call(port)}"

    def logins(self, listener: str) -> dict[str, int]:
        """Return how many logins ended how."""

        def read(broker: Broker) -> dict[str, int]:
            gate = next(one.login_gate for one in broker.listeners if one.name == listener)
            assert gate is not None
            return gate.counts.by_name()

        return self.embedded.call(read)

    def add_user(self, user: str) -> None:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(
                user, ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode()
            )
            self._admin.alter_user_scram_credentials([wanted])[user].result(PATIENT_S)

    def settings(self, listener: str, mechanism: str | None = None, **changes: str) -> dict[str, str]:
        """Return what a client is told; values of `changes` are put in, or replace others."""
        found = {"bootstrap.servers": self.bootstrap(listener), "security.protocol": LISTENERS[listener]}
        if "SSL" in LISTENERS[listener]:
            found["ca"] = str(self.home / "ca.pem")
        if mechanism == OAUTHBEARER:
            found |= {"mechanism": mechanism, "token": str(self.home / "token")}
        elif mechanism is not None:
            found |= {"mechanism": mechanism, "user": "anna", "password": PASSWORD}
        return found | changes


class Program:
    """A process with a client library; `tell` gives it a line, `hear` waits for one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command_of(name),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put("the process has ended")

    def tell(self, what: str, argument: str, settings: dict[str, str]) -> None:
        assert self._process.stdin is not None
        told = (f"{name}={value}" for name, value in settings.items())
        self._process.stdin.write(" ".join((what, TOPIC, argument, *told)) + "\n")

    def hear(self, patient_s: float = PATIENT_S) -> str:
        try:
            return self._lines.get(timeout=patient_s)
        except Empty:
            raise AssertionError(f"{self.name} says nothing for {patient_s} s") from None

    def talk(self, value: str, settings: dict[str, str], patient_s: float = PATIENT_S) -> str:
        self.tell("talk", value, settings)
        return self.hear(patient_s)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()


def command_of(name: str) -> list[str]:
    """Return how the process of a library is started; a skip says what is missing."""
    if name == "java":
        if (reason := why_not()) is not None:
            pytest.skip(reason)
        return java_program("SecuredClient")
    if name in ("franz", "sarama"):
        program = go_program("secured")
        if isinstance(program, str):
            pytest.skip(program)
        return [str(program), name]
    return [sys.executable, "-W", "ignore", "-m", "tests.compat.clients.secured_client", name]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with serve_keys(tmp_path_factory.mktemp("provider")) as (url, authority):
        node = Node(tmp_path_factory.mktemp("node"), url, authority)
        yield node
        node.embedded.stop()


@pytest.fixture(scope="module")
def programs() -> Iterator[Callable[[str], Program]]:
    """Give the process of a library, started when it is first asked for."""
    started: dict[str, Program] = {}
    with ExitStack() as ends:

        def program(name: str) -> Program:
            if name not in started:
                started[name] = Program(name)
                ends.callback(started[name].close)
            return started[name]

        yield program


@pytest.fixture(
    params=[pytest.param(one, marks=pytest.mark.java if one == "java" else ()) for one in CLIENTS]
)
def client(request: pytest.FixtureRequest, programs: Callable[[str], Program]) -> Program:
    return programs(request.param)


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SSL", None),
        ("MUTUAL", None),
        ("OPEN", SCRAM_256),
        ("OPEN", SCRAM_512),
        ("TLS", PLAIN),
        ("TLS", SCRAM_256),
        ("TLS", SCRAM_512),
        ("TLS", OAUTHBEARER),
    ],
)
def test_a_record_goes_there_and_back(
    node: Node, client: Program, listener: str, mechanism: str | None
) -> None:
    own = {"certificate": str(node.home / "client.pem")} if listener == "MUTUAL" else {}

    answer = client.talk(f"{client.name}-{listener}-{mechanism}", node.settings(listener, mechanism, **own))

    assert answer == "ok"


@pytest.mark.parametrize(
    ("listener", "mechanism"), [("OPEN", SCRAM_256), ("OPEN", SCRAM_512), ("TLS", PLAIN)]
)
def test_a_wrong_password_is_told_as_what_it_is_and_soon(
    node: Node, client: Program, listener: str, mechanism: str
) -> None:
    before = node.logins(listener)["failed"]

    answer = client.talk("x", node.settings(listener, mechanism, password="guessed"), SOON_S)

    assert answer.startswith("failed")
    assert_says(answer, CLIENTS[client.name][0])
    assert node.logins(listener)["failed"] > before


def assert_says(answer: str, pattern: str) -> None:
    assert re.search(pattern, answer), answer


@pytest.mark.parametrize(("listener", "authority"), [("SSL", "other-ca"), ("EXPIRED", "ca")])
def test_a_node_whose_certificate_is_not_to_be_trusted_is_not_talked_to(
    node: Node, client: Program, listener: str, authority: str
) -> None:
    answer = client.talk("x", node.settings(listener, ca=str(node.home / f"{authority}.pem")), SOON_S)

    assert answer.startswith("failed")
    assert_says(answer, CLIENTS[client.name][1])
