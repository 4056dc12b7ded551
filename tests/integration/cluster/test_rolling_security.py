"""Brokers change to TLS, and all nodes to another CA, without an error at a client."""

import socket
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from tests.integration.cluster.conftest import Cluster, MakeCluster, eventually
from tests.integration.cluster.rolling import (
    change,
    connected,
    is_listening,
    load,
    roll,
    setting,
    with_listener_of_clients,
    without_listener,
)
from tests.integration.cluster.test_cluster import create
from tests.ports import free_ports

pytestmark = pytest.mark.slow


class Authorities:
    """Two CAs, and the certificates that they issue for the nodes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.old, self.new = trustme.CA(), trustme.CA()

    def trust(self, *authorities: trustme.CA) -> Path:
        """Overwrite the truststore of all nodes with the certificates of these CAs."""
        path = self.directory / "trusted.pem"
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(b"".join(one.cert_pem.bytes() for one in authorities))
        temporary.replace(path)
        return path

    def issue(self, node_id: int, by: trustme.CA) -> Path:
        """Overwrite the keystore of a node with a new certificate."""
        path = self.directory / f"node-{node_id}.pem"
        temporary = path.with_suffix(".tmp")
        name = f"node-{node_id}"
        # The subject is fixed: trustme would make up another each time, and a renewal may not change it.
        issued = by.issue_cert(
            name, common_name=name, organization_name="Ottla", organization_unit_name="nodes"
        )
        issued.private_key_and_cert_chain_pem.write_to_path(str(temporary))
        temporary.replace(path)
        return path


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    return Authorities(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def with_tls(make_cluster: MakeCluster, authorities: Authorities) -> Cluster:
    """Write the homes of three nodes that use TLS alone among brokers and among controllers."""
    made, ports = make_cluster(3), free_ports(3)
    for home in made.homes:
        change(
            home,
            listeners=f"{setting(home, 'listeners')},INNER://127.0.0.1:{ports + home.node_id}",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SSL,INNER:SSL",
            inter_broker_listener_name="INNER",
            ssl_keystore_location=authorities.issue(home.node_id, authorities.old),
            ssl_truststore_location=authorities.trust(authorities.old),
        )
    made.start(0, 1, 2)
    return made


def test_brokers_change_to_tls_one_after_another(make_cluster: MakeCluster, authorities: Authorities) -> None:
    """All three steps of docs/tls.md; clients use another listener, so the old one can be removed."""
    cluster, ports, trusted = make_cluster(3), free_ports(3), authorities.trust(authorities.old)
    with_listener_of_clients(cluster)
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, min_insync_replicas="2")

    with load(cluster, topic):
        for home in cluster.homes:
            change(
                home,
                listeners=f"{setting(home, 'listeners')},INNER://127.0.0.1:{ports + home.node_id}",
                listener_security_protocol_map=f"{setting(home, 'listener.security.protocol.map')},INNER:SSL",
                ssl_keystore_location=authorities.issue(home.node_id, authorities.old),
                ssl_truststore_location=trusted,
            )
        roll(cluster)
        assert not any(connected(ports))
        for home in cluster.homes:
            change(home, inter_broker_listener_name="INNER")
        roll(cluster)
        # Other brokers connect to a node only if it leads partitions, which not every node does.
        eventually(lambda: any(connected(ports)), "brokers connect to the new listener")
        old = [without_listener(home, "PLAINTEXT") for home in cluster.homes]
        assert all(map(is_listening, old))
        roll(cluster)
        assert not any(map(is_listening, old))
        eventually(lambda: any(connected(ports)), "brokers connect to the only listener")

    for home in cluster.homes:
        output = cluster.output(home.node_id)
        assert "was rejected" not in output and "Traceback" not in output, output[-5000:]


def test_the_authority_changes_while_the_nodes_run(with_tls: Cluster, authorities: Authorities) -> None:
    """The files change while the nodes run. Each node is restarted too, so that all connections are new."""
    cluster, old, new = with_tls, authorities.old, authorities.new
    topic = create(cluster, by=0, min_insync_replicas="2")

    with load(cluster, topic):
        authorities.trust(old, new)
        until_files_are_read(cluster, since=[0, 0, 0])
        for home in cluster.homes:
            authorities.issue(home.node_id, new)
        eventually(lambda: show_certificates_of(cluster, new), "all nodes present their new certificates")
        before = [len(cluster.output(home.node_id)) for home in cluster.homes]
        roll(cluster)
        authorities.trust(new)
        until_files_are_read(cluster, since=before)
        roll(cluster)

    for home in cluster.homes:
        output = cluster.output(home.node_id)
        assert "refused:" not in output and "was rejected" not in output, output[-5000:]
        assert "TLS handshake failed" not in output and "Traceback" not in output, output[-5000:]


def until_files_are_read(cluster: Cluster, *, since: Sequence[int]) -> None:
    """Wait until the log of each node, from `since` on, says that its listeners reloaded their files."""
    for home in cluster.homes:
        for name in ("INNER", "CONTROLLER"):
            line = f"The listener {name} has reloaded its keys and certificates."
            eventually(
                partial(
                    lambda *_, node_id, line: line in cluster.output(node_id)[since[node_id] :],
                    node_id=home.node_id,
                    line=line,
                ),
                f"node {home.node_id} reloads the files of {name}",
            )


def show_certificates_of(cluster: Cluster, authority: trustme.CA) -> bool:
    """Return True if each node presents a certificate that this CA has issued."""
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # else nodes log failed handshakes
    for home in cluster.homes:
        inner = setting(home, "listeners").rpartition(":")[2]
        with (
            socket.create_connection(("127.0.0.1", int(inner))) as plain,
            context.wrap_socket(plain) as encrypted,
        ):
            shown = encrypted.getpeercert(binary_form=True)
        assert shown is not None
        if x509.load_der_x509_certificate(shown).issuer != issuer:
            return False
    return True


def test_controllers_change_to_tls_one_after_another(
    make_cluster: MakeCluster, authorities: Authorities
) -> None:
    """A second listener is used, as in Apache Kafka: the first of `controller.listener.names` counts."""
    cluster, ports = make_cluster(3), free_ports(3)
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, min_insync_replicas="2")
    trusted = authorities.trust(authorities.old)

    with load(cluster, topic):
        for home in cluster.homes:
            change(
                home,
                listeners=f"{setting(home, 'listeners')},SECURE://127.0.0.1:{ports + home.node_id}",
                listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL",
                controller_listener_names="CONTROLLER,SECURE",
                ssl_keystore_location=authorities.issue(home.node_id, authorities.old),
                ssl_truststore_location=trusted,
            )
        roll(cluster)
        for home in cluster.homes:
            voters = ",".join(f"{node_id}@127.0.0.1:{ports + node_id}" for node_id in range(3))
            change(home, controller_listener_names="SECURE,CONTROLLER", controller_quorum_voters=voters)
        roll(cluster)
        eventually(lambda: all(connected(ports)), "voters connect to the new listener of each other")
        for home in cluster.homes:
            kept = [one for one in setting(home, "listeners").split(",") if not one.startswith("CONTROLLER:")]
            change(
                home,
                listeners=",".join(kept),
                listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SECURE:SSL",
                controller_listener_names="SECURE",
            )
        roll(cluster)

    for home in cluster.homes:
        output = cluster.output(home.node_id)
        assert "was rejected" not in output and "Traceback" not in output, output[-5000:]
