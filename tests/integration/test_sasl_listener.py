"""Listeners with logins: clients of several libraries, right and wrong passwords."""

import asyncio
import re
import socket
import ssl
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trustme
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError as AioConnectionError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.broker import Broker
from tests.compat.wire_client import Closed, WireClient
from tests.integration.cluster.conftest import eventually
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded

with warnings.catch_warnings():  # kafka-python reads its schemas in a way that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
TIMEOUT_S = 60.0
OVER_TLS, OPEN, SHORT = "TLS", "OPEN", "SHORT"  # listener names
SCRAM_512, SCRAM_256, PLAIN = "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"


class Node:
    """A node with SASL listeners, which has a user from its first start."""

    def __init__(self, home: Path) -> None:
        ca = trustme.CA()
        self.ca = home / "ca.pem"
        ca.cert_pem.write_to_path(str(self.ca))
        ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(home / "node.pem"))
        self.embedded: EmbeddedBroker = start_embedded(
            home / "data",
            listeners=",".join(f"{name}://127.0.0.1:0" for name in (OVER_TLS, OPEN, SHORT, "PLAINTEXT")),
            listener_security_protocol_map=(
                "TLS:SASL_SSL,OPEN:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"
            ),
            ssl_keystore_location=home / "node.pem",
            sasl_enabled_mechanisms=f"{SCRAM_512},{SCRAM_256}",
            listener_name_tls_sasl_enabled_mechanisms=f"{SCRAM_512},{PLAIN}",
            listener_name_short_connections_max_reauth_ms=1_200,
            ottla_add_scram=(
                "SCRAM-SHA-512=[name=anna,password=secret];SCRAM-SHA-256=[name=anna,password=secret]"
            ),
        )

    def address(self, listener: str) -> str:
        def port(broker: Broker) -> int:
            return next(one.port for one in broker.listeners if one.name == listener)

        return f"127.0.0.1:{self.embedded.call(port)}"

    def counts(self, listener: str) -> dict[str, int]:
        def read(broker: Broker) -> dict[str, int]:
            gate = next(one.login_gate for one in broker.listeners if one.name == listener)
            assert gate is not None
            return gate.counts.by_name()

        return self.embedded.call(read)

    def principals(self, listener: str) -> set[tuple[str, str]]:
        def read(broker: Broker) -> set[tuple[str, str]]:
            connections = next(one.connections for one in broker.listeners if one.name == listener)
            return {(one.info.access.principal, one.info.sasl_mechanism) for one in connections}

        return self.embedded.call(read)

    def settings(self, listener: str, mechanism: str, password: str = "secret") -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SASL_SSL" if listener == OVER_TLS else "SASL_PLAINTEXT",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": mechanism,
            "sasl.username": "anna",
            "sasl.password": password,
        }


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("sasl"))
    yield node
    node.embedded.stop()


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [(OVER_TLS, SCRAM_512), (OVER_TLS, PLAIN), (OPEN, SCRAM_512), (OPEN, SCRAM_256)],
)
def test_clients_that_log_in_produce_and_consume(node: Node, listener: str, mechanism: str) -> None:
    topic = f"{listener}-{mechanism}-{uuid4().hex[:8]}"
    settings = node.settings(listener, mechanism)
    admin = AdminClient(settings)
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(TIMEOUT_S)
    producer = Producer(settings)
    producer.produce(topic, b"hello")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT_S)

    assert message is not None and message.value() == b"hello"
    assert ("User:anna", mechanism) in node.principals(listener)
    consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), [(OVER_TLS, PLAIN), (OPEN, SCRAM_512)])
def test_a_wrong_password_is_reported_at_once(node: Node, listener: str, mechanism: str) -> None:
    reported: list[KafkaError] = []
    settings = node.settings(listener, mechanism, password="wrong")
    before = node.counts(listener)["failed"]
    producer = Producer({**settings, "error_cb": reported.append})

    def is_reported() -> bool:
        producer.poll(0.05)
        return any(one.code() == KafkaError._AUTHENTICATION for one in reported)

    eventually(is_reported, "the client reports the failed login")
    assert any("Authentication failed" in str(one) for one in reported)
    assert node.counts(listener)["failed"] > before


def test_kafka_python_logs_in_and_reports_a_wrong_password(node: Node) -> None:
    settings = {
        "bootstrap_servers": node.address(OPEN),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": SCRAM_256,
        "sasl_plain_username": "anna",
    }
    producer = KafkaProducer(**settings, sasl_plain_password="secret")
    assert producer.send("of-kafka-python", b"hello").get(TIMEOUT_S).offset >= 0
    producer.close()

    before = node.counts(OPEN)["failed"]
    # Runs in a separate process, since it leaves sockets open if it cannot connect.
    program = f"""
import kafka, logging
logging.basicConfig(level=logging.WARNING)
kafka.KafkaProducer(**{settings!r}, sasl_plain_password="wrong", bootstrap_timeout_ms=1000)
"""
    failed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert failed.returncode != 0
    # kafka-python drops the response if it reads the end of the connection at the same time.
    assert re.search("SaslAuthenticationFailed|socket disconnected", failed.stderr), failed.stderr
    assert node.counts(OPEN)["failed"] > before


@pytest.mark.parametrize("listener", [OPEN, OVER_TLS])
def test_a_client_that_reads_late_gets_the_reason_of_a_failed_login_before_the_close(
    node: Node, listener: str
) -> None:
    def request(key: int, version: int, body: bytes) -> bytes:
        head = struct.pack(">hhih", key, version, 7, -1)
        return struct.pack(">i", len(head + body)) + head + body

    host, port = node.address(listener).split(":")
    before, mechanism = node.counts(listener)["failed"], SCRAM_512.encode()
    with ExitStack() as ends:
        connection = ends.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
        if listener == OVER_TLS:
            context = ssl.create_default_context(cafile=str(node.ca))
            connection = ends.enter_context(context.wrap_socket(connection, server_hostname=host))
        connection.sendall(request(17, 1, struct.pack(">h", len(mechanism)) + mechanism))
        assert connection.recv(4_096)
        connection.sendall(request(36, 0, struct.pack(">i", 1) + b"x"))
        eventually(lambda: node.counts(listener)["failed"] > before, "the login has failed")
        time.sleep(0.5)  # time to send the response and to close the connection

        answer = b"".join(iter(lambda: connection.recv(4_096), b""))

    (size, correlation, error) = struct.unpack_from(">iih", answer)
    assert (size, correlation, error) == (len(answer) - 4, 7, 58)
    assert b"invalid credentials" in answer


def test_aiokafka_logs_in_and_reports_a_wrong_password(node: Node) -> None:
    def producer(password: str) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=node.address(OPEN),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=SCRAM_512,
            sasl_plain_username="anna",
            sasl_plain_password=password,
        )

    async def offset_of_a_record() -> int:
        async with producer("secret") as one:
            return int((await one.send_and_wait("of-aiokafka", b"hello")).offset)

    async def fail() -> None:
        one = producer("wrong")
        try:
            await one.start()
        finally:
            await one.stop()

    assert asyncio.run(offset_of_a_record()) >= 0
    with pytest.raises(AioConnectionError):
        asyncio.run(fail())


def test_a_client_logs_in_again_while_it_produces(node: Node) -> None:
    producer = Producer({**node.settings(SHORT, SCRAM_512), "linger.ms": 0})
    failed: list[KafkaError] = []

    def note_failure(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failed.append(error)

    def has_logged_in_twice_more() -> bool:
        producer.produce("again", b"x", on_delivery=note_failure)
        producer.poll(0.01)
        return node.counts(SHORT)["successful_again"] >= 2

    eventually(has_logged_in_twice_more, "the client logs in again")
    assert producer.flush(TIMEOUT_S) == 0 and failed == []
    assert node.counts(SHORT)["expired"] == 0


# ---- users that do not exist -------------------------------------------------------------------------------


def shown_of(address: str, *users: str) -> dict[str, bytes]:
    """Return the salt and iterations that SCRAM sends for each user before the password is checked."""
    found = {}
    for user in users:
        with WireClient(address) as client:
            assert client.call("sasl_handshake", 1, mechanism=SCRAM_512).error_code == 0
            answer = client.call("sasl_authenticate", 2, auth_bytes=f"n,,n={user},r=abc".encode())
            assert answer.error_code == 0
            found[user] = bytes(answer.auth_bytes).partition(b",")[2]
    return found


def until_failed(embedded: EmbeddedBroker, count: int) -> None:
    eventually(
        lambda: embedded.call(lambda one: one.listeners[0].logins.failed) == count,
        f"{count} logins have failed",
    )


def test_a_client_cannot_find_out_which_users_exist_even_after_a_restart(tmp_path: Path) -> None:
    """Salt and iterations look alike for all names, and are stable; each attempt counts as a failed login."""
    users = [*(f"user-{number}" for number in range(8)), *(f"nobody-{number}" for number in range(8))]
    settings = {
        "listeners": "OPEN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener_security_protocol_map": "OPEN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter_broker_listener_name": "PLAINTEXT",
        "sasl_enabled_mechanisms": SCRAM_512,
        "ottla_add_scram": ";".join(
            f"SCRAM-SHA-512=[name={user},password=secret,iterations=8192]" for user in users[:8]
        ),
    }
    seen = []
    for _ in range(2):
        embedded = start_embedded(tmp_path, **settings)
        try:
            seen.append(shown_of(embedded.bootstrap, *users))
            until_failed(embedded, len(users))
            assert embedded.call(lambda one: len(one.base.failed_logins)) == 1
        finally:
            embedded.stop()

    assert seen[0] == seen[1]
    salts = {user: text.split(b",")[0].removeprefix(b"s=") for user, text in seen[0].items()}
    assert {text.split(b",")[1] for text in seen[0].values()} == {b"i=8192"}
    assert {len(salt) for salt in salts.values()} == {32} and len(set(salts.values())) == len(users)


def test_a_setting_exempts_an_address_of_many_clients_from_lock_outs(tmp_path: Path) -> None:
    """For example, one client with an old password locks out all clients behind its load balancer."""
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="right";'
    embedded = start_embedded(
        tmp_path,
        listeners="OPEN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        listener_security_protocol_map="OPEN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        inter_broker_listener_name="PLAINTEXT",
        sasl_enabled_mechanisms=PLAIN,
        ottla_sasl_plain_without_tls="true",
        listener_name_open_plain_sasl_jaas_config=users,
        ottla_failed_logins_burst=5,
        ottla_failed_logins_rate=1,
    )
    plaintext = embedded.call(lambda one: f"127.0.0.1:{one.listeners[1].port}")

    def is_accepted() -> bool:
        try:
            with WireClient(embedded.bootstrap) as client:
                client.call("sasl_handshake", 1, mechanism=PLAIN)
                return client.call("sasl_authenticate", 2, auth_bytes=b"\0ann\0right").error_code == 0
        except (Closed, OSError):
            return False

    def change(value: str | None) -> None:
        name = "ottla.failed.logins.exempt"
        config = {"name": name, "config_operation": value is None, "value": value}
        every = {"resource_type": 4, "resource_name": "", "configs": [config]}
        with WireClient(plaintext) as client:
            answer = client.call("incremental_alter_configs", 1, resources=[every], validate_only=False)
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message

    def fail_logins(broker: Broker) -> None:
        now_s = asyncio.get_running_loop().time()
        for _ in range(60):  # more than the burst, plus the allowance that returns while the test runs
            broker.base.failed_logins.note("127.0.0.1", now_s)

    try:
        assert is_accepted()
        embedded.call(fail_logins)
        assert not is_accepted(), "rejected even with the right password"
        change("10.0.0.0/8,127.0.0.1")
        eventually(is_accepted, "the address is exempt")
        change(None)
        eventually(lambda: not is_accepted(), "the address is not exempt any more")
    finally:
        embedded.stop()
