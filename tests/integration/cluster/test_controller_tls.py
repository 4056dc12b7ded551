"""CONTROLLER:SSL between processes: voters present certificates to each other, and none may use another's."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.certificates import write_certificates, write_forged
from tests.integration.cluster.conftest import Cluster, eventually, write_cluster
from tests.integration.cluster.test_cluster import consume, create, produce
from tests.integration.cluster.test_failures import start_rejected_node
from tests.integration.cluster.test_quorum_grows import ottla

pytestmark = pytest.mark.slow
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write `node-ID.pem` by the cluster's CA, and `forged.pem` for the name of node 2 by another CA."""
    directory = write_certificates(
        tmp_path_factory.mktemp("certificates"), *(f"node-{one}" for one in range(4))
    )
    return write_forged(directory, forged="node-2")


def keystore(certificates: Path, name: str) -> str:
    return f"ssl.keystore.location={certificates / name}.pem"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[Cluster]:
    """Start three nodes that use TLS between controllers, by Kafka's names of settings."""
    made = write_cluster(
        tmp_path_factory.mktemp("cluster"),
        3,
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "ssl.keystore.type=PEM",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={certificates / 'ca.pem'}",
    )
    for home in made.homes:
        with home.properties.open("a") as properties:
            properties.write(keystore(certificates, f"node-{home.node_id}") + "\n")
    try:
        made.start(0, 1, 2)
        yield made
    finally:
        made.stop()


def test_voters_with_certificates_elect_one_and_then_another(all_up: Cluster) -> None:
    cluster = all_up
    status = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))
    topic = create(cluster, by=0, min_insync_replicas="2")
    produce(cluster, topic, 100)

    cluster.kill(status["leader"])
    first, second = cluster.running()
    made_later = create(cluster, by=first, replicas=2)
    leader = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))["leader"]
    cluster.start(status["leader"])

    assert [one["node"] for one in status["voters"]] == [0, 1, 2]
    assert sorted(map(int, consume(cluster, topic, 100))) == list(range(100))
    eventually(
        lambda: made_later in cluster.admin(status["leader"]).list_topics(timeout=60).topics,
        "the restarted voter follows again",
        TIMEOUT_S,
    )
    assert leader in (first, second)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("node-3", "The certificate of node 2 was issued for node-3."),
        ("forged", "the certificate of the other end was rejected: unable to get local issuer certificate"),
    ],
)
def test_a_voter_with_the_certificate_of_another_is_rejected(
    cluster: Cluster, certificates: Path, name: str, message: str
) -> None:
    assert message in start_rejected_node(cluster, keystore(certificates, name))


def test_a_voter_without_tls_is_rejected(cluster: Cluster) -> None:
    start_rejected_node(cluster, "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("ssl.keystore.location=", "ssl.keystore.location: the listener CONTROLLER (SSL) needs this setting"),
        ("ssl.truststore.location=nowhere.pem", "nowhere.pem"),
    ],
)
def test_missing_settings_of_tls_are_reported_in_one_sentence(
    cluster: Cluster, setting: str, message: str
) -> None:
    assert message in start_rejected_node(cluster, setting)
