"""From plaintext to TLS, and from one authority to another, one node after another, without a client's error."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.integration.cluster.conftest import Cluster, running, written
from tests.integration.cluster.rolling import change, load, roll, setting
from tests.integration.cluster.test_cluster import create
from tests.ports import free_ports

pytestmark = pytest.mark.slow


class Authorities:
    """Two authorities, and what they sign for the nodes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.old, self.new = trustme.CA(), trustme.CA()

    def trust(self, *authorities: trustme.CA) -> Path:
        """Write the certificates of these authorities over the truststore of all nodes."""
        path = self.directory / "trusted.pem"
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(b"".join(one.cert_pem.bytes() for one in authorities))
        temporary.replace(path)
        return path

    def issue(self, node_id: int, by: trustme.CA) -> Path:
        """Write the keystore of a node, over the one that it has."""
        path = self.directory / f"node-{node_id}.pem"
        temporary = path.with_suffix(".tmp")
        name = f"node-{node_id}"
        by.issue_cert(name, common_name=name).private_key_and_cert_chain_pem.write_to_path(str(temporary))
        temporary.replace(path)
        return path


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    return Authorities(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes in plaintext."""
    with running(written(tmp_path_factory.mktemp("cluster"), 3)) as three:
        yield three


def test_brokers_go_over_to_tls_one_after_another(cluster: Cluster, authorities: Authorities) -> None:
    topic = create(cluster, by=0, min_insync_replicas="2")
    ports, trusted = free_ports(3), authorities.trust(authorities.old)

    with load(cluster, topic):
        for home in cluster.homes:
            change(
                home,
                listeners=f"{setting(home, 'listeners')},INNER://127.0.0.1:{ports + home.node_id}",
                listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INNER:SSL",
                ssl_keystore_location=authorities.issue(home.node_id, authorities.old),
                ssl_truststore_location=trusted,
            )
        roll(cluster)
        for home in cluster.homes:
            change(home, inter_broker_listener_name="INNER")
        roll(cluster)
