"""`Cluster(secure=True)` as a user has it: clients of several libraries, users and rights, failed nodes."""

import asyncio
import os
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ottla.logstore.words.errors import KafkaError as OttlaError
from ottla.metadata_raft.image import Endpoint
from ottla.node.embedded import Cluster
from ottla.node.net.peer_handshake import PeerGate, PeerIdentity
from ottla.node.net.peer_network import PeerNetwork
from ottla.node.net.server_tls import DialTls
from ottla.node.secure_setup.issued_certificates import of_client
from ottla.node.secure_setup.secure_directory import issue_more
from ottla.node.security.cluster_key import cluster_key
from tests.integration.cluster.conftest import eventually

with warnings.catch_warnings():  # kafka-python reads its schemas in a way that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
TIMEOUT_S = 60
QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Start three nodes for all tests that leave them unchanged."""
    with Cluster(nodes=3, secure=True, rest=True) as cluster:
        yield cluster


def create(cluster: Cluster, prefix: str) -> str:
    """Create a topic whose name begins with this prefix, and return the name."""
    topic = f"{prefix}-{uuid4().hex[:8]}"
    admin = AdminClient({**cluster.client_config(), **QUIET})
    admin.create_topics([NewTopic(topic, 1, min(3, len(cluster.node_ids)))])[topic].result(TIMEOUT_S)
    eventually(lambda: cluster.leader_of(topic, 0) >= 0, "the topic has a leader")
    return topic


def produce(config: dict[str, Any], topic: str, value: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """Produce a value and return the name of the error, None if it was acknowledged."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({**config, **QUIET, "message.timeout.ms": int(timeout_s * 1000)})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(timeout_s + 5)
    [outcome] = outcomes
    return None if outcome is None else outcome.name()


def test_confluent_kafka_writes_and_reads_as_the_administrator(three: Cluster) -> None:
    topic = create(three, "of-confluent")

    assert produce(three.client_config(), topic, "hello") is None
    consumer = Consumer(
        {**three.client_config(), **QUIET, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()

    assert message is not None and message.value() == b"hello"


def test_kafka_python_writes_and_reads(three: Cluster) -> None:
    topic = create(three, "of-kafka-python")

    producer = KafkaProducer(**three.client_config("kafka-python"))
    producer.send(topic, b"hello").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        **three.client_config("kafka-python"),
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    message = next(consumer)
    consumer.close()

    assert message.value == b"hello"


def test_aiokafka_writes_and_reads(three: Cluster) -> None:
    topic = create(three, "of-aiokafka")

    async def there_and_back() -> bytes:
        config = three.client_config("aiokafka")
        producer = AIOKafkaProducer(**config)
        await producer.start()
        await producer.send_and_wait(topic, b"hello")
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest")
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
        await consumer.stop()
        return bytes(message.value)

    assert asyncio.run(there_and_back()) == b"hello"


def poll_as_member(
    config: dict[str, Any], topic: str, group: str, seconds: float
) -> tuple[list[str], set[str]]:
    """Poll as a member of a share group until there is a record; return the values and names of errors."""
    errors: set[str] = set()
    values: list[str] = []
    consumer = ShareConsumer({**config, **QUIET, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + seconds
    while not values and time.monotonic() < deadline:
        try:
            for message in consumer.poll(0.5):
                error = message.error()
                if error is None:
                    values.append((message.value() or b"").decode())
                else:
                    errors.add(error.name())
        except KafkaException as failure:
            errors.add(failure.args[0].name())
    consumer.close()
    return values, errors


def test_a_share_consumer_needs_exactly_the_documented_rights(three: Cluster) -> None:
    """docs/acls.md names them: READ on the topic and on the group."""
    topic, group = create(three, "shared-orders"), f"shared-workers-{uuid4().hex[:8]}"
    sam = f"sam-{uuid4().hex[:8]}"
    three.add_user(sam)
    config = three.client_config(user=sam)
    admin = AdminClient({**three.client_config(), **QUIET})
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[earliest])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    assert produce(three.client_config(), topic, "hello") is None
    assert config["security.protocol"] == "SASL_SSL"

    assert poll_as_member(config, topic, group, 4)[0] == []
    three.allow(sam, "read", topic=topic)
    values, errors = poll_as_member(config, topic, group, 4)
    assert values == [] and "GROUP_AUTHORIZATION_FAILED" in errors
    three.allow(sam, "read", group=group)
    values, errors = poll_as_member(config, topic, group, TIMEOUT_S)

    assert values == ["hello"] and "TOPIC_AUTHORIZATION_FAILED" not in errors
    other = create(three, "others-orders")
    assert produce(three.client_config(), other, "secret") is None
    assert poll_as_member(config, other, group, 4)[0] == []


def test_a_user_can_do_what_is_allowed_and_nothing_else(three: Cluster) -> None:
    anna = f"anna-{uuid4().hex[:8]}"
    mine, other = create(three, f"{anna}-orders"), create(three, "bert-orders")
    password = three.add_user(anna)
    config = three.client_config(user=anna)

    before = produce(config, mine, "1", 3)
    three.allow(anna, "write", "describe", topic=f"{anna}-", prefixed=True)
    eventually(lambda: produce(config, mine, "2", 3) is None, "the user may write")

    assert before == "TOPIC_AUTHORIZATION_FAILED"
    assert produce(config, other, "3", 3) == "TOPIC_AUTHORIZATION_FAILED"
    assert config["sasl.password"] == password != three.client_config()["sasl.password"]


def test_only_operations_that_exist_for_groups_are_allowed_on_a_group(three: Cluster) -> None:
    topic = create(three, "shared")
    produce(three.client_config(), topic, "hello")
    carl = f"carl-{uuid4().hex[:8]}"
    three.add_user(carl, "a password of his own")
    three.allow(carl, "READ", "WRITE", topic=topic, group=carl)
    consumer = Consumer(
        {**three.client_config(user=carl), **QUIET, "group.id": carl, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])

    message = consumer.poll(TIMEOUT_S)
    consumer.close()

    assert message is not None and message.error() is None and message.value() == b"hello"


def test_wrong_passwords_and_untrusted_certificates_are_rejected(three: Cluster) -> None:
    wrong = {**three.client_config(), **QUIET, "sasl.password": "guessed"}
    errors: list[KafkaError] = []
    admin = AdminClient({**wrong, "error_cb": errors.append})

    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(2)
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": three.bootstrap, **QUIET}).list_topics(timeout=2)

    assert any(error.code() == KafkaError._AUTHENTICATION for error in errors)


def test_the_rest_api_has_tls_and_asks_for_a_login(three: Cluster) -> None:
    url = three.rest_urls[0]
    context = ssl.create_default_context(cafile=three.client_config()["ssl.ca.location"])

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/v3/clusters", timeout=TIMEOUT_S, context=context)

    assert url.startswith("https://") and refused.value.code == 401
    refused.value.close()


def test_wrong_arguments_are_reported(three: Cluster) -> None:
    for ask in (
        lambda: three.client_config(user="nobody"),
        lambda: three.allow("anna", "FLY", topic="t"),
        lambda: three.allow("anna", "READ"),
        lambda: three.allow("anna", "WRITE", group="g"),
    ):
        with pytest.raises(ValueError):
            ask()
    with pytest.raises(OttlaError):
        three.allow("anna", "READ", topic="")


def test_helpers_work_on_a_loop(three: Cluster) -> None:
    async def on_loop() -> str:
        return three.add_user("dora")

    assert asyncio.run(on_loop()) == three.client_config(user="dora")["sasl.password"]


def test_a_secured_cluster_starts_within_seconds_and_leaves_no_thread_and_no_file() -> None:
    before = set(threading.enumerate())
    began = time.monotonic()
    cluster = Cluster(nodes=3, secure=True)
    authority = Path(cluster.client_config()["ssl.ca.location"])
    with cluster:
        took_s = time.monotonic() - began

    assert took_s < 20, "it takes two seconds, and more on a busy machine"
    assert not authority.exists() and not authority.parent.parent.exists()
    # The cluster of the other tests still runs, and may have started another thread for its files meanwhile.
    left = {thread.name for thread in threading.enumerate() if thread not in before}
    assert all(name.startswith("uvloop_") for name in left), left


@pytest.mark.parametrize("fault", ["kill", "isolate", "pause", "restart"])
def test_clients_survive_faults_of_a_node(fault: str) -> None:
    with Cluster(nodes=3, secure=True) as cluster:
        topic = create(cluster, "hurt")
        node_id = cluster.leader_of(topic, 0)
        inject: Callable[[int], None] = getattr(cluster, fault)

        inject(node_id)
        # An isolated node still tells clients that it is the leader.
        others = [one for index, one in enumerate(cluster.bootstrap.split(",")) if index != node_id]
        config = {**cluster.client_config(), "bootstrap.servers": ",".join(others)}
        eventually(lambda: fault == "restart" or cluster.leader_of(topic, 0) != node_id, "another node leads")
        outcome = produce(config, topic, "after")

        assert outcome is None
        cluster.heal()
        cluster.resume(node_id)


def test_a_restarted_cluster_has_the_same_logins_and_topics(tmp_path: Path) -> None:
    with Cluster(nodes=1, secure=True, data=tmp_path) as cluster:
        topic = create(cluster, "kept")
        config = cluster.client_config()
    with Cluster(nodes=1, secure=True, data=tmp_path) as cluster:
        assert cluster.client_config() == config
        assert topic in AdminClient({**config, **QUIET}).list_topics(timeout=TIMEOUT_S).topics
    with pytest.raises(ValueError, match="secure=True"):
        Cluster(nodes=1, data=tmp_path)


def test_an_open_cluster_has_no_users() -> None:
    cluster = Cluster(nodes=1)

    assert cluster.client_config() == {"bootstrap.servers": cluster.bootstrap}
    assert cluster.client_config("aiokafka") == {"bootstrap_servers": cluster.bootstrap}
    with pytest.raises(ValueError, match="secure=True"):
        cluster.add_user("anna")
    cluster.stop()


@pytest.mark.parametrize(
    ("name", "claims", "refusal"),
    [
        ("localhost", 0, "issued for CN=localhost. It does not name node-0"),
        ("node-1", 0, "issued for .*node-1"),
        ("node-1", 1, None),
    ],
    ids=["client named like the host", "another node", "that node"],
)
def test_a_peer_that_knows_the_secret_is_only_the_node_in_its_certificate(
    three: Cluster, tmp_path: Path, name: str, claims: int, refusal: str | None
) -> None:
    broker = three._nodes[0].broker
    assert broker is not None and broker.config.secure_files is not None
    files, config = broker.config.secure_files, broker.config
    own = tmp_path / "own.pem"
    if name == "localhost":
        issue_more(files, {own: of_client(name)})
    else:
        own.write_bytes(files.node(1).read_bytes())
    context = ssl.create_default_context(cafile=str(files.authority))
    context.check_hostname = False
    context.load_cert_chain(own)
    inner = next(one for one in config.listeners if one.name == "INTERNAL")
    assert config.cluster_secret is not None
    gate = PeerGate(
        cluster_key(config.cluster_secret),
        lambda: PeerIdentity(claims, broker.base.state.cluster_id, bytes(16)),
        os.urandom,
        lambda node_id: (),
    )

    async def dial() -> None:
        peers = PeerNetwork(
            gate=gate,
            node_id=claims,
            endpoint_of=lambda node_id: None,
            chance=random.Random(1),
            tls=lambda: DialTls(context, True, True),
        )
        endpoint = Endpoint(inner.host, inner.port, inner.security_protocol_id)
        if refusal is None:
            client, peer = await peers.dial(endpoint, expected_node_id=0)
            assert peer.node_id == 0
            client.abort()
            with pytest.raises(OttlaError, match="certificate of node 2 was issued for"):
                await peers.dial(endpoint, expected_node_id=2)
        else:
            with pytest.raises(OttlaError, match=refusal):
                await peers.dial(endpoint, expected_node_id=0)

    asyncio.run(dial())
