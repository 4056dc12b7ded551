"""Nodes that log in to each other by SCRAM over TLS: replicas, forwarded requests, and rejected clients."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.integration.certificates import write_certificates
from tests.integration.cluster.conftest import Cluster, MakeCluster, running, write_cluster
from tests.integration.cluster.rolling import (
    TIMEOUT_S,
    change,
    is_listening,
    load,
    roll,
    setting,
    with_listener_of_clients,
    without_listener,
)
from tests.integration.cluster.test_cluster import consume, create, produce
from tests.integration.cluster.test_failures import start_rejected_node
from tests.ports import free_ports

pytestmark = pytest.mark.slow
JAAS = "listener.name.inner.scram-sha-512.sasl.jaas.config"
USERS = "SCRAM-SHA-512=[name=node,password=node-secret];SCRAM-SHA-512=[name=anna,password=anna-secret]"


def jaas_config(user: str, password: str, more: str = "") -> str:
    """Return the JAAS configuration of a node."""
    return (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{password}"{more};'
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write `node-ID.pem` for each node by the cluster's CA."""
    return write_certificates(tmp_path_factory.mktemp("certificates"), "node-0", "node-1", "node-2")


def with_listener(cluster: Cluster, certificates: Path) -> None:
    """Add a listener SASL_SSL to each node, at which other nodes log in."""
    ports = free_ports(len(cluster.homes))
    for home in cluster.homes:
        change(
            home,
            listeners=f"{setting(home, 'listeners')},INNER://127.0.0.1:{ports + home.node_id}",
            listener_security_protocol_map=(
                "CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INNER:SASL_SSL"
            ),
            ssl_keystore_location=certificates / f"node-{home.node_id}.pem",
            ssl_truststore_location=certificates / "ca.pem",
            sasl_enabled_mechanisms="SCRAM-SHA-512",
            sasl_mechanism_inter_broker_protocol="SCRAM-SHA-512",
            **{JAAS: jaas_config("node", "node-secret")},
            ottla_add_scram=USERS,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[Cluster]:
    """Start three nodes that log in to each other from their first start, with ACLs for clients."""
    made = write_cluster(
        tmp_path_factory.mktemp("cluster"),
        3,
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:node;User:ANONYMOUS",
    )
    with_listener(made, certificates)
    for home in made.homes:
        # Logins expire during the tests: they have to be renewed, or their connections replaced.
        renewed = {"listener.name.inner.connections.max.reauth.ms": "2000"}
        change(home, inter_broker_listener_name="INNER", **renewed)
    change(made.homes[0], ottla_rest_listeners=f"http://127.0.0.1:{free_ports(1)}")
    with running(made) as three:
        yield three


def test_replication_and_forwarded_requests_use_logins(cluster: Cluster) -> None:
    for by in (0, 1, 2):
        topic = create(cluster, by=by, min_insync_replicas="3")
        produce(cluster, topic, 100)
        assert sorted(map(int, consume(cluster, topic, 100))) == list(range(100))


def test_the_rest_api_acts_as_its_caller_beyond_the_lifetime_of_logins_of_nodes(cluster: Cluster) -> None:
    topic = create(cluster, by=1)
    url = f"{cluster.nodes[0].rest}/v3/clusters/{setting(cluster.homes[0], 'cluster.id')}/topics/{topic}"
    ends = time.monotonic() + 4  # twice the lifetime of a login

    while time.monotonic() < ends:
        with urlopen(url, timeout=10) as answer:
            assert json.load(answer)["topic_name"] == topic
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("user", "password", "message"),
    [
        ("node", "mistyped", "refused the login of the user node with SCRAM-SHA-512: Authentication failed"),
        ("nobody", "node-secret", "refused the login of the user nobody with SCRAM-SHA-512"),
        (
            "anna",
            "anna-secret",
            "User:anna needs CLUSTER_ACTION permission on the cluster to log in as a node",
        ),
    ],
)
def test_a_node_with_a_wrong_login_is_rejected_and_says_so(
    cluster: Cluster, user: str, password: str, message: str
) -> None:
    output = start_rejected_node(cluster, f"{JAAS}={jaas_config(user, password)}")

    assert message in output
    assert password not in output


def test_nodes_change_to_logins_one_after_another(make_cluster: MakeCluster, certificates: Path) -> None:
    """All three steps of docs/tls.md, in a cluster that has no users at first."""
    three = make_cluster(3)
    with_listener_of_clients(three)
    three.start(0, 1, 2)
    topic = create(three, by=0, min_insync_replicas="2")
    with load(three, topic):
        node = UserScramCredentialUpsertion(
            "node", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"node-secret"
        )
        three.admin().alter_user_scram_credentials([node])["node"].result(TIMEOUT_S)
        with_listener(three, certificates)
        roll(three)
        for home in three.homes:
            # Logins expire and are renewed while records are produced and consumed.
            renewed = {"listener.name.inner.connections.max.reauth.ms": "2000"}
            change(home, inter_broker_listener_name="INNER", **renewed)
        roll(three)
        old = [without_listener(home, "PLAINTEXT") for home in three.homes]
        roll(three)
        assert not any(map(is_listening, old))
    for home in three.homes:
        output = three.output(home.node_id)
        assert "authentication" not in output.lower() and "Traceback" not in output, output[-3000:]


def test_brokers_and_controllers_log_in_by_plain(tmp_path: Path, certificates: Path) -> None:
    """PLAIN has its users in the listener, as in Apache Kafka: controllers know no users of the cluster."""
    made, ports = write_cluster(tmp_path / "plain", 3), free_ports(3)
    own = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="node" password="{0}" user_node="{0}";'
    )
    for home in made.homes:
        change(
            home,
            listeners=f"{setting(home, 'listeners')},INNER://127.0.0.1:{ports + home.node_id}",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL,INNER:SASL_SSL",
            inter_broker_listener_name="INNER",
            ssl_keystore_location=certificates / f"node-{home.node_id}.pem",
            ssl_truststore_location=certificates / "ca.pem",
            sasl_enabled_mechanisms="PLAIN",
            sasl_mechanism_inter_broker_protocol="PLAIN",
            sasl_mechanism_controller_protocol="PLAIN",
            **{
                f"listener.name.{name}.plain.sasl.jaas.config": own.format("node-secret")
                for name in ("inner", "controller")
            },
        )
    with running(made) as three:
        topic = create(three, by=1, min_insync_replicas="3")
        produce(three, topic, 100)
        assert sorted(map(int, consume(three, topic, 100))) == list(range(100))

        output = start_rejected_node(
            three, f"listener.name.controller.plain.sasl.jaas.config={own.format('mistyped')}"
        )

    assert "Node 2 did not log in, or used a wrong user or password" in output and "mistyped" not in output
