"""A listener with TLS: clients of other libraries, certificates of all kinds, and renewals under traffic."""

import os
import shutil
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trustme
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from ottla.node.broker import Broker
from tests.integration.certificates import Authority
from tests.integration.cluster.conftest import eventually
from tests.integration.embedded_broker import start_embedded

pytestmark = pytest.mark.slow
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


class Node:
    """A node with a listener for TLS, and one for other nodes."""

    def __init__(self, home: Path, authority: Authority, **settings: Any) -> None:
        self.authority = authority
        self.own = authority.home / f"own-{home.name}.pem"
        shutil.copy(authority.issue("node"), self.own)
        self.embedded = start_embedded(
            home,
            listeners="SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            ssl_keystore_location=self.own,
            ssl_truststore_location=authority.home / "ca.pem",
            **settings,
        )
        self.address = self.embedded.bootstrap
        self.port = int(self.address.rpartition(":")[2])

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.home / "ca.pem"),
            **{name.replace("_", "."): str(value) for name, value in more.items()},
        }

    def connect(
        self, certificate: Path | None = None, version: ssl.TLSVersion | None = None
    ) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.authority.home / "ca.pem")
        if certificate is not None:
            context.load_cert_chain(certificate)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        connected = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)
        return context.wrap_socket(connected, server_hostname="127.0.0.1")

    def principals(self, port: int) -> list[str]:
        """Return the principals of the connections from that port."""

        def look(broker: Broker) -> list[str]:
            infos = [one.info for one in broker.listeners[0].connections]
            return [one.access.principal for one in infos if one.client_port == port]

        return self.embedded.call(look)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Callable[..., Node]]:
    """Yield a function that returns the node with a value of `ssl.client.auth`; each is started once."""
    started: dict[str, Node] = {}

    def node(client_auth: str = "none") -> Node:
        if client_auth not in started:
            home = tmp_path_factory.mktemp(f"node-{client_auth}")
            started[client_auth] = Node(home, authority, ssl_client_auth=client_auth)
        return started[client_auth]

    yield node
    for one in started.values():
        one.embedded.stop()


def ask_versions(connection: ssl.SSLSocket) -> bytes:
    """Send an ApiVersions request and return the response."""
    request = struct.pack(">hhih", 18, 0, 7, -1)
    connection.sendall(struct.pack(">i", len(request)) + request)
    size = struct.unpack(">i", receive_exactly(connection, 4))[0]
    return receive_exactly(connection, size)


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        assert chunk, "the node has closed the connection"
        received += chunk
    return received


def create(node: Node, prefix: str, **security: Any) -> str:
    """Create a topic whose name begins with this prefix, and return the name."""
    topic = f"{prefix}-{uuid4().hex[:8]}"
    admin = AdminClient(node.settings(**security))
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(TIMEOUT_S)
    return topic


def round_trip(node: Node, prefix: str, values: list[bytes], **security: Any) -> list[bytes]:
    """Produce values to a new topic, and return those that a consumer reads from it."""
    topic = create(node, prefix, **security)
    producer = Producer(node.settings(**security, linger_ms=5, message_max_bytes=2_000_000))
    for value in values:
        producer.produce(topic, value, on_delivery=_raise)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(node.settings(**security, group_id=topic, auto_offset_reset="earliest"))
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < len(values) and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def _raise(error: KafkaError | None, message: Any) -> None:
    assert error is None, error


def test_small_and_large_records_are_produced_and_consumed(nodes: Callable[..., Node]) -> None:
    values = [b"%d" % number for number in range(2000)] + [os.urandom(900_000) for _ in range(12)]

    assert round_trip(nodes(), "there-and-back", values) == values


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("client_auth", "shows", "principal"),
    [
        ("none", True, "User:ANONYMOUS"),
        ("requested", False, "User:ANONYMOUS"),
        ("requested", True, "User:CN=client-1"),
        ("required", True, "User:CN=client-1"),
    ],
)
def test_a_client_has_the_principal_of_its_certificate(
    nodes: Callable[..., Node],
    authority: Authority,
    version: ssl.TLSVersion,
    client_auth: str,
    shows: bool,
    principal: str,
) -> None:
    node = nodes(client_auth)
    certificate = authority.issue("client-1") if shows else None

    with node.connect(certificate, version) as connection:
        answer = ask_versions(connection)
        port = connection.getsockname()[1]
        (found,) = node.principals(port)

    assert answer[:6] == b"\0\0\0\7\0\0"
    assert found.split(",")[0] == principal
    eventually(lambda: not node.principals(port), "the connection is gone")


@pytest.mark.parametrize("kind", ["none", "of another authority", "expired"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_a_valid_certificate_is_rejected_if_one_is_required(
    nodes: Callable[..., Node],
    authority: Authority,
    kind: str,
    version: ssl.TLSVersion,
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = nodes("required")
    past = datetime.now(UTC) - timedelta(days=1)
    certificate = {
        "none": lambda: None,
        "of another authority": lambda: authority.issue("untrusted", ca=trustme.CA()),
        "expired": lambda: authority.issue("old", not_after=past),
    }[kind]()

    with pytest.raises(ssl.SSLError), node.connect(certificate, version) as connection:
        ask_versions(connection)

    eventually(lambda: "the TLS handshake failed" in caplog.text, "the failed handshake is logged")
    if kind == "expired":
        assert "certificate has expired" in caplog.text


def test_librdkafka_produces_and_consumes_with_a_certificate(
    nodes: Callable[..., Node], authority: Authority
) -> None:
    shown = authority.issue("client-2")
    files = {"ssl_certificate_location": shown, "ssl_key_location": shown}

    assert round_trip(nodes("required"), "with-certificate", [b"a", b"b"], **files) == [b"a", b"b"]


def test_a_client_without_tls_is_logged(nodes: Callable[..., Node], caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", nodes().port), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff")
        assert connection.recv(1) == b""

    message = "it does not speak TLS to a listener with TLS (SSL or SASL_SSL)"
    eventually(lambda: message in caplog.text, "the reason is logged")


def serial_of(node: Node) -> str:
    with node.connect() as connection:
        shown = connection.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def test_a_renewed_certificate_is_shown_to_new_clients_and_no_record_is_lost(
    nodes: Callable[..., Node], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    node = nodes()
    topic = create(node, "renewed")
    producer = Producer(node.settings(linger_ms=1))
    failures: list[KafkaError] = []
    is_over = threading.Event()
    sent = 0

    def produce() -> None:
        nonlocal sent
        while not is_over.is_set():
            producer.produce(topic, b"x", on_delivery=lambda error, _: error and failures.append(error))
            sent += 1
            producer.poll(0.002)

    def changed() -> None:
        node.embedded.call(lambda broker: broker.base.listener_tls.settings_changed())

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        before = serial_of(node)
        with node.connect() as old:
            renewed = node.own.with_suffix(".next")
            shutil.copy(authority.issue("node"), renewed)
            renewed.rename(node.own)
            changed()
            eventually(lambda: serial_of(node) != before, "the new certificate is shown")
            assert ask_versions(old), "open connections stay open"
        after = serial_of(node)
        # A certificate of another subject, or a file without one, is rejected.
        for content, message in (
            (authority.issue("another").read_bytes(), "the distinguished name of the certificate changes"),
            (b"nonsense", "it must have one private key, but it has 0"),
        ):
            node.own.write_bytes(content)
            changed()
            eventually(lambda message=message: message in caplog.text, "the reason is logged")  # type: ignore[misc]
            assert serial_of(node) == after
    finally:
        is_over.set()
        thread.join()

    assert producer.flush(TIMEOUT_S) == 0 and not failures and sent


def test_valid_new_files_are_loaded_while_the_node_runs(
    nodes: Callable[..., Node], authority: Authority
) -> None:
    node = nodes()
    before = serial_of(node)
    moved = authority.home / "moved.pem"
    shutil.copy(authority.issue("node"), moved)

    admin = AdminClient(node.settings())

    def alter(path: Path) -> None:
        entry = ConfigEntry(
            "listener.name.ssl.ssl.keystore.location",
            str(path),
            incremental_operation=AlterConfigOpType.SET,
        )
        broker = ConfigResource("BROKER", "0", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([broker]).values():
            future.result(TIMEOUT_S)

    with pytest.raises(Exception, match=r"nowhere[.]pem of the listener SSL cannot be used: No such file"):
        alter(authority.home / "nowhere.pem")
    alter(moved)

    eventually(lambda: serial_of(node) != before, "the new certificate is shown")


def test_a_node_whose_keys_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"ssl[.]keystore[.]location"):
        start_embedded(
            tmp_path,
            listeners="SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            ssl_keystore_location=tmp_path / "nowhere.pem",
        )
