"""Controllers that are no brokers: three of them lead a cluster of two brokers, all separate processes."""

import json
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from ottla.logstore.words.errors import ErrorCode
from ottla.node.cli.failure import CommandError
from ottla.node.kafka_api.served_apis import CONTROLLER_APIS
from tests.compat.wire_client import Closed, WireClient
from tests.integration.certificates import write_certificates
from tests.integration.cluster.conftest import Cluster, MakeCluster, eventually, write_cluster
from tests.integration.cluster.rolling import change, setting
from tests.integration.cluster.test_cluster import consume, create, produce
from tests.integration.cluster.test_quorum_grows import ottla, voters
from tests.ports import free_ports

pytestmark = pytest.mark.slow
CONTROLLERS, BROKERS = (0, 1, 2), (3, 4)
TIMEOUT_S = 60.0


def separate(cluster: Cluster) -> Cluster:
    """Make the first three nodes controllers only, and the others brokers only."""
    addresses = [
        next(one for one in setting(home, "listeners").split(",") if one.startswith("CONTROLLER://"))
        for home in cluster.homes[: len(CONTROLLERS)]
    ]
    voters = ",".join(f"{index}@{one.removeprefix('CONTROLLER://')}" for index, one in enumerate(addresses))
    rest = free_ports(len(CONTROLLERS))
    for home in cluster.homes:
        listener = setting(home, "listeners").split(",")[0]
        settings: dict[str, object] = {"process_roles": "broker", "listeners": listener}
        if home.node_id in CONTROLLERS:
            settings = {"process_roles": "controller", "listeners": addresses[home.node_id]}
            settings["ottla_rest_listeners"] = f"http://127.0.0.1:{rest + home.node_id}"
        change(home, controller_quorum_voters=voters, offsets_topic_replication_factor=2, **settings)
    return cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = separate(write_cluster(tmp_path_factory.mktemp("cluster"), 5))
    try:
        made.start(*CONTROLLERS, *BROKERS)
        yield made
    finally:
        made.stop()
    for home in made.homes:
        assert "Traceback" not in made.output(home.node_id), made.output(home.node_id)[-5000:]


def at_controller(cluster: Cluster, node_id: int) -> WireClient:
    return WireClient(setting(cluster.homes[node_id], "listeners").removeprefix("CONTROLLER://"))


def leader_of(cluster: Cluster) -> int:
    status = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))
    assert [one["node"] for one in status["voters"]] == list(CONTROLLERS)
    leader: int = status["leader"]
    return leader


def read_in_a_group(cluster: Cluster, topic: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer, values = Consumer(settings), []
    consumer.subscribe([topic])

    def has_all() -> bool:
        values.extend(int(one.value()) for one in consumer.consume(count, 0.5) if not one.error())
        return len(values) >= count

    try:
        eventually(has_all, "all records are read", TIMEOUT_S)
    finally:
        consumer.close()
    return sorted(values)


def test_controllers_are_no_brokers_and_hold_nothing(cluster: Cluster) -> None:
    topic = create(cluster, by=3, replicas=2, partitions=6)
    produce(cluster, topic, 200)

    metadata = cluster.admin().list_topics(timeout=TIMEOUT_S)

    assert sorted(metadata.brokers) == list(BROKERS)
    assert all(
        sorted(one.replicas) == list(BROKERS)
        for found in metadata.topics.values()
        for one in found.partitions.values()
    )
    assert read_in_a_group(cluster, topic, 200) == list(range(200))
    for home in cluster.homes[: len(CONTROLLERS)]:
        assert [one.name for one in (home.directory / "data").iterdir() if one.is_dir()] == [
            "__cluster_metadata-0"
        ]
    for node_id in CONTROLLERS:
        assert cluster.nodes[node_id].ready_line.startswith("READY controller=127.0.0.1:")


def test_when_the_active_controller_is_killed_another_creates_topics(cluster: Cluster) -> None:
    before = create(cluster, by=3, replicas=2, min_insync_replicas="2")
    produce(cluster, before, 100)
    killed = leader_of(cluster)

    cluster.kill(killed)
    after = create(cluster, by=4, replicas=2, min_insync_replicas="2")
    produce(cluster, before, 100)
    produce(cluster, after, 100)
    leader = leader_of(cluster)
    cluster.start(killed)

    assert leader in CONTROLLERS and leader != killed
    assert len(consume(cluster, before, 200)) == 200 and len(consume(cluster, after, 100)) == 100


def test_a_stopping_controller_hands_over_the_quorum(cluster: Cluster) -> None:
    leader = leader_of(cluster)

    assert cluster.terminate(leader) == 0
    create(cluster, by=3, replicas=2)
    cluster.start(leader)

    assert leader_of(cluster) != leader


@pytest.mark.parametrize("node_id", CONTROLLERS)
def test_each_controller_serves_admin_clients(cluster: Cluster, node_id: int) -> None:
    """KIP-919: controllers describe each other, and accept changes of the cluster."""
    leader, name = leader_of(cluster), f"topic-{uuid4().hex[:8]}"
    with at_controller(cluster, node_id) as client:
        versions = client.call("api_versions", 3, client_software_name="test", client_software_version="1")
        described = client.call("describe_cluster", 1, endpoint_type=2)
        of_brokers = client.call("describe_cluster", 1, endpoint_type=1)
        quorum = client.call(
            "describe_quorum",
            2,
            topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
        )
        configs = client.call(
            "describe_configs", 4, resources=[{"resource_type": 4, "resource_name": str(node_id)}]
        )
        made = client.call(
            "create_topics", 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 2}]
        )

    assert {one.api_key for one in versions.api_keys} == CONTROLLER_APIS
    assert described.endpoint_type == 2 and described.controller_id == leader
    assert [one.broker_id for one in described.brokers] == list(CONTROLLERS)
    assert [f"{one.host}:{one.port}" for one in described.brokers] == [
        setting(home, "listeners").removeprefix("CONTROLLER://") for home in cluster.homes[:3]
    ]
    assert of_brokers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    [partition] = quorum.topics[0].partitions
    assert partition.leader_id == leader
    assert sorted(one.replica_id for one in partition.current_voters) == list(CONTROLLERS)
    assert sorted(one.replica_id for one in partition.observers) == list(BROKERS)
    roles = {one.name: one.value for one in configs.results[0].configs}["process.roles"]
    assert roles == "controller"
    assert made.topics[0].error_code == 0, made.topics[0].error_message
    eventually(
        lambda: name in cluster.admin().list_topics(timeout=TIMEOUT_S).topics,
        "brokers know the topic",
        TIMEOUT_S,
    )


def test_a_broker_does_not_answer_for_controllers(cluster: Cluster) -> None:
    with WireClient(cluster.nodes[3].bootstrap) as client:
        response = client.call("describe_cluster", 1, endpoint_type=2)

    assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


@pytest.mark.parametrize("api", ["metadata", "find_coordinator", "list_groups"])
def test_an_api_of_brokers_ends_the_connection_to_a_controller(cluster: Cluster, api: str) -> None:
    with at_controller(cluster, 0) as client, pytest.raises(Closed):
        client.call(api, 0, **{"key": "group"} if api == "find_coordinator" else {})


def test_strange_bytes_end_a_connection_to_a_controller_and_nothing_else(cluster: Cluster) -> None:
    for strange in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10\x01" + b"\xff" * 15, b"\0\0\0\x04\0\x12\0\0"):
        with at_controller(cluster, 0) as client, pytest.raises(Closed):
            client.send_bytes(strange)
            while True:  # a voter first sends the reason why it rejects a peer
                client.receive_frame()
    with at_controller(cluster, 0) as slow:
        frame = slow.frame("api_versions", 0)
        for index in range(len(frame)):
            slow.send_bytes(frame[index : index + 1])
        assert slow.receive("api_versions", 0, slow.correlation_id).error_code == 0


def test_an_address_that_connects_too_often_is_throttled_at_a_controller(cluster: Cluster) -> None:
    """KIP-612; links of voters and connections of brokers from other addresses go on."""
    ip = ("quota", "set", "--ip", "127.0.0.9", "connection_creation_rate=1")
    host, _, port = setting(cluster.homes[0], "listeners").removeprefix("CONTROLLER://").rpartition(":")
    request = bytes.fromhex("0000000e0012000000000001000474657374")  # ApiVersions 0

    def is_served() -> bool:
        with socket.create_connection((host, int(port)), 10, source_address=("127.0.0.9", 0)) as sock:
            sock.settimeout(0.5)
            sock.sendall(request)
            try:
                return bool(sock.recv(4))
            except TimeoutError:
                return False

    before = [is_served() for _ in range(30)]
    ottla(cluster, *ip)
    try:
        eventually(lambda: not is_served(), "connections are throttled", TIMEOUT_S)
    finally:
        ottla(cluster, "quota", "delete", "--ip", "127.0.0.9")

    assert all(before)
    eventually(is_served, "the quota is gone", TIMEOUT_S)


def test_a_controller_has_probes_metrics_and_the_rest_api_of_its_cluster(cluster: Cluster) -> None:
    topic = create(cluster, by=3, replicas=2)

    def ask(path: str) -> bytes:
        with urllib.request.urlopen(f"{cluster.nodes[1].rest}{path}", timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read()
        return content

    assert json.loads(ask("/healthz")) and json.loads(ask("/readyz"))
    assert b"current_leader" in ask("/metrics")
    eventually(lambda: topic in ask("/v1/topics").decode(), "the broker that is asked knows the topic")
    assert json.loads(ask("/v1/node"))


def test_the_doctor_finds_nothing_wrong_with_separate_controllers(cluster: Cluster) -> None:
    assert "nothing is wrong" in ottla(cluster, "doctor")


def test_a_broker_with_partitions_does_not_start_as_a_mere_controller(cluster: Cluster) -> None:
    create(cluster, by=3, replicas=2)
    home = cluster.homes[4]
    own = home.properties.read_text()
    assert cluster.terminate(4) == 0

    first = setting(cluster.homes[0], "listeners").removeprefix("CONTROLLER://")
    change(
        home,
        process_roles="controller",
        listeners=f"CONTROLLER://127.0.0.1:{free_ports(1)}",
        controller_quorum_voters=None,
        controller_quorum_bootstrap_servers=first,
    )
    try:
        with pytest.raises(CommandError, match=r"there are partitions in log\.dirs"):
            cluster.start(4)
        assert cluster.nodes[4].process.wait(TIMEOUT_S) == 1
    finally:
        home.properties.write_text(own)
        cluster.start(4)


def test_controllers_join_a_running_cluster_by_themselves(make_cluster: MakeCluster) -> None:
    """KIP-1186: one controller founds the quorum alone, and the others become voters by themselves."""
    cluster = separate(make_cluster(5))
    first = setting(cluster.homes[0], "listeners").removeprefix("CONTROLLER://")
    for home in cluster.homes:
        change(home, controller_quorum_voters=None, controller_quorum_bootstrap_servers=first)
        if home.node_id in CONTROLLERS[1:]:
            change(home, controller_quorum_auto_join_enable="true")

    cluster.start(0)
    with pytest.raises(HTTPError, match="503"):
        urllib.request.urlopen(f"{cluster.nodes[0].rest}/v1/topics", timeout=TIMEOUT_S)
    cluster.start(*CONTROLLERS[1:], *BROKERS)
    eventually(lambda: voters(cluster) == list(CONTROLLERS), "all controllers vote", TIMEOUT_S)
    cluster.kill(0)
    topic = create(cluster, by=3, replicas=2)
    produce(cluster, topic, 10)
    cluster.start(0)
    assert "is not a voter any more" in ottla(cluster, "quorum", "remove", "2")
    assert cluster.terminate(2) == 0
    cluster.start(2)

    assert voters(cluster) == [0, 1], "one that was removed does not come back by itself"
    endpoint = setting(cluster.homes[2], "listeners").removeprefix("CONTROLLER://")
    assert "--endpoint HOST:PORT" in ottla(cluster, "quorum", "add", "2", code=1)
    rejected = ottla(cluster, "quorum", "add", "2", "--endpoint", endpoint, code=1)
    assert "controller.quorum.auto.join.enable=true and an empty metadata.log.dir" in rejected
    assert cluster.terminate(2) == 0
    shutil.rmtree(cluster.homes[2].directory / "data")
    cluster.start(2)
    eventually(lambda: voters(cluster) == list(CONTROLLERS), "it votes again", TIMEOUT_S)


def test_controllers_and_a_node_that_is_a_broker_too_form_one_quorum(make_cluster: MakeCluster) -> None:
    """A cluster migrates this way, node by node. DescribeCluster names the separate controllers only."""
    cluster = separate(make_cluster(5))
    listeners = f"PLAINTEXT://127.0.0.1:{free_ports(1)},{setting(cluster.homes[0], 'listeners')}"
    change(cluster.homes[0], process_roles="broker,controller", listeners=listeners)

    cluster.start(*CONTROLLERS, *BROKERS)
    topic = create(cluster, by=3, replicas=3)
    produce(cluster, topic, 100)
    with at_controller(cluster, 1) as client:
        described = client.call("describe_cluster", 1, endpoint_type=2)
    for node_id in (leader_of(cluster), 3):
        cluster.kill(node_id)
        create(cluster, by=4, replicas=1)
        cluster.start(node_id)

    assert sorted(cluster.admin(4).list_topics(timeout=TIMEOUT_S).brokers) == [0, *BROKERS]
    assert [one.broker_id for one in described.brokers] == [1, 2] and described.controller_id in (1, 2)
    assert len(consume(cluster, topic, 100)) == 100


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_links_and_brokers_reach_controllers_by_tls_and_logins(tmp_path: Path, protocol: str) -> None:
    """The links of voters and the requests of brokers share the secured port; clients use plaintext."""
    certificates = write_certificates(tmp_path / "keys", *(f"node-{one}" for one in (*CONTROLLERS, *BROKERS)))
    made = separate(write_cluster(tmp_path / "cluster", 5))
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="node" password="node-secret" user_node="node-secret";'
    )
    for home in made.homes:
        change(
            home,
            listener_security_protocol_map=f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}",
            ssl_keystore_location=certificates / f"node-{home.node_id}.pem",
            ssl_keystore_type="PEM",
            ssl_truststore_location=certificates / "ca.pem",
            ssl_truststore_type="PEM",
        )
        if protocol == "SASL_SSL":
            change(
                home,
                sasl_mechanism_controller_protocol="PLAIN",
                **{
                    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                    "listener.name.controller.plain.sasl.jaas.config": login,
                },
            )
    try:
        made.start(*CONTROLLERS, *BROKERS)
        before = create(made, by=3, replicas=2)
        produce(made, before, 100)
        killed = leader_of(made)
        made.kill(killed)
        after = create(made, by=4, replicas=2)
        made.start(killed)
        produce(made, after, 100)
        with urllib.request.urlopen(f"{made.nodes[1].rest}/v1/topics", timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()

        assert before in text and after in text
        assert len(consume(made, before, 100)) == len(consume(made, after, 100)) == 100
        with at_controller(made, 0) as client, pytest.raises(Closed):
            client.call("api_versions", 0)
    finally:
        made.stop()
    for home in made.homes:
        assert "Traceback" not in made.output(home.node_id), made.output(home.node_id)[-5000:]
