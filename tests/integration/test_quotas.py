"""Quotas of a running node: the rate of new connections, over TLS too, and the rate of a consumer."""

import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from ottla.node.broker import Broker
from tests.compat.batches import batch
from tests.compat.wire_client import WireClient, only
from tests.integration.certificates import Authority
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded

pytestmark = pytest.mark.slow

RATE = 5  # connections a second; a burst of fifty, since the rate is measured over ten seconds


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def node(tmp_path: Path, authority: Authority) -> Iterator[EmbeddedBroker]:
    """Start a node with a listener for TLS, and one for other nodes."""
    made = start_embedded(
        tmp_path,
        listeners="SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        ssl_keystore_location=authority.issue("node"),
        ssl_truststore_location=authority.home / "ca.pem",
        max_connection_creation_rate=RATE,
    )
    yield made
    made.stop()


def connect(port: int, context: ssl.SSLContext | None) -> WireClient:
    client = WireClient(f"127.0.0.1:{port}", client_id="many", timeout_s=30)
    if context is not None:
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client


def served_after(port: int, context: ssl.SSLContext | None = None) -> float:
    """Return the seconds until a new connection has its first response."""
    began_s = time.monotonic()
    with connect(port, context) as client:
        client.call("api_versions", 2)
        return time.monotonic() - began_s


def test_connections_beyond_the_rate_wait_and_connections_of_nodes_do_not(
    node: EmbeddedBroker, authority: Authority
) -> None:
    tls, inner = (one.port for one in node.broker.listeners)
    context = authority.context()
    began_s = time.monotonic()

    with ThreadPoolExecutor(60) as clients:
        waits = [clients.submit(served_after, tls, context) for _ in range(60)]
        time.sleep(1.0)
        of_node_s = served_after(inner)
        waited = sorted(one.result() for one in waits)

    took_s = time.monotonic() - began_s
    # Fifty are accepted at once and ten more one after the other. None is lost.
    assert len(waited) == 60 and 1.0 < waited[-1] < 20
    assert took_s > 1.0 and of_node_s < 1.0
    readings = node.call(lambda broker: broker.base.connection_quota.rates.readings(10))
    throttle_ms = {one.name: one.throttle_ms for one in readings.listeners}
    assert 0 < throttle_ms["SSL"] <= 1_000 and throttle_ms["PLAINTEXT"] == 0


def test_a_raised_rate_applies_to_waiting_connections(node: EmbeddedBroker) -> None:
    _, inner = (one.port for one in node.broker.listeners)
    with ExitStack() as stack:
        admin = stack.enter_context(connect(inner, None))
        clients = [stack.enter_context(connect(inner, None)) for _ in range(100)]
        sent = [client.send("api_versions", 2) for client in clients]
        assert clients[-1].is_silent(1.0)

        name = "listener.name.plaintext.max.connection.creation.rate"
        change = {"name": name, "config_operation": 0, "value": "100000"}
        resource = {"resource_type": 4, "resource_name": "0", "configs": [change]}
        answer = admin.call("incremental_alter_configs", 1, resources=[resource])
        assert only(answer.responses).error_code == 0, only(answer.responses).error_message
        began_s = time.monotonic()
        for client, number in zip(clients, sent, strict=True):
            client.receive("api_versions", 2, number)

    # Fifty connections that still wait would take ten seconds.
    assert time.monotonic() - began_s < 5.0


def test_clients_that_leave_while_they_wait_are_forgotten(node: EmbeddedBroker) -> None:
    _, inner = (one.port for one in node.broker.listeners)

    for _ in range(55):
        connect(inner, None).close()
    time.sleep(3)

    def waiting(broker: Broker) -> int:
        return sum(len(one.arrivals) for one in broker.listeners)

    assert node.call(waiting) == 0


def test_a_consumer_reads_everything_at_the_rate_of_its_quota(tmp_path: Path) -> None:
    node = start_embedded(tmp_path)
    try:
        producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
        values = [b"%06d" % number + bytes(10_000) for number in range(150)]
        for value in values:
            producer.produce("slow", value)
        producer.flush()
        with WireClient(node.bootstrap) as admin:
            entity = [{"entity_type": "client-id", "entity_name": "slow"}]
            ops = [{"key": "consumer_byte_rate", "value": 100_000.0}]
            answer = admin.call("alter_client_quotas", 1, entries=[{"entity": entity, "ops": ops}])
            assert only(answer.entries).error_code == 0
        consumer = Consumer(
            {
                "bootstrap.servers": node.bootstrap,
                "client.id": "slow",
                "group.id": "slow",
                "auto.offset.reset": "earliest",
                "max.partition.fetch.bytes": 200_000,
            }
        )
        consumer.subscribe(["slow"])
        began_s, read = time.monotonic(), []
        while len(read) < len(values) and time.monotonic() < began_s + 60:
            read += [one.value() for one in consumer.consume(50, 0.5) if one.error() is None]
        took_s = time.monotonic() - began_s
        consumer.close()
    finally:
        node.stop()

    assert read == values
    # A burst of a megabyte is allowed, and half a megabyte in five seconds.
    assert 3.0 < took_s < 30


def test_a_quota_survives_a_restart_and_applies_to_the_named_user(tmp_path: Path) -> None:
    def produce(client: WireClient) -> int:
        partition = {"index": 0, "records": batch([bytes(10_000)])}
        topics = [{"name": "t", "partition_data": [partition]}]
        found: int = client.call("produce", 9, acks=-1, timeout_ms=10_000, topic_data=topics).throttle_time_ms
        return found

    node = start_embedded(tmp_path)
    try:
        with WireClient(node.bootstrap) as admin:
            topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
            assert not only(
                admin.call("create_topics", 7, timeout_ms=10_000, topics=[topic]).topics
            ).error_code
            entity = [{"entity_type": "user", "entity_name": "ANONYMOUS"}]
            ops = [{"key": "producer_byte_rate", "value": 100.0}]
            answer = admin.call("alter_client_quotas", 1, entries=[{"entity": entity, "ops": ops}])
            assert only(answer.entries).error_code == 0
    finally:
        node.stop()
    node = start_embedded(tmp_path)
    try:
        with WireClient(node.bootstrap) as client:
            assert produce(client) == pytest.approx(91_000, abs=2_000)
    finally:
        node.stop()
