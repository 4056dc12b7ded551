"""CONTROLLER:SSL between processes: voters present certificates to each other, and none may use another's."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.certificates import write_certificates, write_forged
from tests.integration.cluster.conftest import Cluster, eventually, written
from tests.integration.cluster.test_cluster import consume, create, produce
from tests.integration.cluster.test_failures import refused
from tests.integration.cluster.test_quorum_grows import ottla

pytestmark = pytest.mark.slow
PATIENT_S = 60.0


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
    made = written(
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
    told = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))
    topic = create(cluster, by=0, min_insync_replicas="2")
    produce(cluster, topic, 100)

    cluster.kill(told["leader"])
    first, second = cluster.running()
    made_later = create(cluster, by=first, replicas=2)
    cluster.start(told["leader"])

    assert [one["node"] for one in told["voters"]] == [0, 1, 2]
    assert sorted(map(int, consume(cluster, topic, 100))) == list(range(100))
    eventually(
        lambda: made_later in cluster.admin(told["leader"]).list_topics(timeout=60).topics,
        "the restarted voter follows again",
        PATIENT_S,
    )
    leader = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))["leader"]
    assert leader in (first, second, told["leader"])


@pytest.mark.parametrize(
    ("name", "what_is_said"),
    [
        ("node-3", "The certificate of node 2 was issued for node-3."),
        ("forged", "the certificate of the other end was rejected: unable to get local issuer certificate"),
    ],
)
def test_a_voter_with_the_certificate_of_another_is_rejected(
    cluster: Cluster, certificates: Path, name: str, what_is_said: str
) -> None:
    assert what_is_said in refused(cluster, keystore(certificates, name))


def test_a_voter_without_tls_is_rejected(cluster: Cluster) -> None:
    refused(cluster, "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")


@pytest.mark.parametrize(
    ("setting", "what_is_said"),
    [
        ("ssl.keystore.location=", "ssl.keystore.location: the listener CONTROLLER (SSL) needs this setting"),
        ("ssl.truststore.location=nowhere.pem", "nowhere.pem"),
    ],
)
def test_missing_settings_of_tls_are_reported_in_one_sentence(
    cluster: Cluster, setting: str, what_is_said: str
) -> None:
    assert what_is_said in refused(cluster, setting)
