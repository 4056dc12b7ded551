"""Nodes that use TLS alone among each other: replicas, forwarded requests, and who is accepted as a node."""

import asyncio
import json
import os
import random
import ssl
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import uuid_from_text
from ottla.metadata_raft.image import Endpoint
from ottla.node.cli.local_cluster import NodeHome
from ottla.node.net.peer_handshake import PeerGate, PeerIdentity
from ottla.node.net.peer_network import PeerNetwork
from ottla.node.net.server_tls import DialTls
from ottla.node.security.cluster_key import cluster_key
from ottla.node.settings.config import parse_config
from ottla.node.settings.properties_file import parse_properties
from tests.integration.cluster.conftest import Cluster, running, write_cluster
from tests.integration.cluster.rolling import change, setting
from tests.integration.cluster.test_cluster import consume, create, produce
from tests.integration.cluster.test_failures import start_rejected_node
from tests.ports import free_ports

pytestmark = pytest.mark.slow
TIMEOUT_S = 60.0


class Authority:
    """The CA of a cluster, and the certificates it issues, in files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.trusted = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.trusted))

    def issue(self, name: str, *, not_after: datetime | None = None, file: str = "") -> Path:
        """Write NAME.pem, with a key and a certificate for a name that is no host's."""
        path = self.directory / f"{file or name}.pem"
        issued = self.ca.issue_cert(name, common_name=name, not_after=not_after)
        temporary = path.with_suffix(".tmp")
        issued.private_key_and_cert_chain_pem.write_to_path(str(temporary))
        temporary.replace(path)
        return path


def with_tls(cluster: Cluster, authority: Authority) -> None:
    """Add a listener with TLS to each node for the connections among nodes."""
    ports = free_ports(len(cluster.homes))
    for home in cluster.homes:
        change(
            home,
            listeners=f"{setting(home, 'listeners')},INNER://127.0.0.1:{ports + home.node_id}",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SSL,INNER:SSL",
            inter_broker_listener_name="INNER",
            ssl_keystore_location=authority.issue(f"node-{home.node_id}"),
            ssl_truststore_location=authority.trusted,
        )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Cluster]:
    """Start three nodes that offer PLAINTEXT to clients only."""
    made = write_cluster(tmp_path_factory.mktemp("cluster"), 3)
    with_tls(made, authority)
    change(made.homes[0], ottla_rest_listeners=f"http://127.0.0.1:{free_ports(1)}")
    with running(made) as three:
        yield three


def test_replication_and_forwarded_requests_use_tls(cluster: Cluster) -> None:
    for by in (0, 1, 2):
        topic = create(cluster, by=by, min_insync_replicas="3")
        produce(cluster, topic, 100)
        assert sorted(map(int, consume(cluster, topic, 100))) == list(range(100))


def test_a_node_whose_certificate_has_expired_is_rejected_and_says_so(
    cluster: Cluster, authority: Authority
) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    expired = authority.issue("node-2", not_after=past, file="expired")

    output = start_rejected_node(cluster, f"ssl.keystore.location={expired}")

    assert f"ERROR The certificate of the listener INNER expired on {past:%Y-%m-%d}" in output
    assert "ERROR The certificate of the listener CONTROLLER expired on" in output
    assert "the certificate of the other end was rejected: certificate has expired" in output


@pytest.mark.parametrize(
    ("certificate", "claims", "message"),
    [
        (
            "anna",
            1,
            "The certificate of node 1 was issued for CN=anna, anna. It names neither node-1 nor 127.0.0.1.",
        ),
        ("anna", 7, "The certificate of node 7 was issued for CN=anna, anna. It does not name node-7."),
        ("node-2", 1, "The certificate of node 1 was issued for node-2."),
        (None, 1, "Node 1 presented no certificate"),
    ],
)
def test_a_client_that_knows_the_secret_is_no_node_without_the_certificate_of_one(
    cluster: Cluster, authority: Authority, certificate: str | None, claims: int, message: str
) -> None:
    context = ssl.create_default_context(cafile=str(authority.trusted))
    context.check_hostname = False
    if certificate is not None:
        context.load_cert_chain(authority.issue(certificate, file=f"shown-{certificate}"))
    inner = next(one for one in parse_config(settings_of(cluster.homes[0])).listeners if one.name == "INNER")
    gate = gate_of(cluster.homes[0], claims)

    async def scene() -> None:
        peers = PeerNetwork(
            gate=gate,
            node_id=claims,
            endpoint_of=lambda node_id: None,
            chance=random.Random(1),
            tls=lambda: DialTls(context, True),
        )
        with pytest.raises(KafkaError) as refusal:
            await peers.dial(Endpoint(inner.host, inner.port, inner.security_protocol_id))
        assert refusal.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert message in refusal.value.detail

    asyncio.run(scene())


def test_the_certificate_of_a_node_gives_access_to_apis_of_nodes_on_their_listener_only(
    cluster: Cluster, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.trusted))
    context.check_hostname = False
    context.load_cert_chain(authority.issue("node-9"))
    listeners = parse_config(settings_of(cluster.homes[0])).listeners

    async def scene() -> None:
        peers = PeerNetwork(
            gate=gate_of(cluster.homes[0], 9),
            node_id=9,
            endpoint_of=lambda node_id: None,
            chance=random.Random(1),
            tls=lambda: DialTls(context, True),
        )
        for one in listeners:
            dial = peers.dial(Endpoint(one.host, one.port, one.security_protocol_id))
            if one.name == "INNER":
                client, peer = await dial
                assert peer.node_id == 0
                client.abort()
            else:
                with pytest.raises(KafkaError) as refusal:
                    await dial
                assert refusal.value.code is ErrorCode.NETWORK_EXCEPTION

    asyncio.run(scene())


def settings_of(home: NodeHome) -> dict[str, str]:
    return parse_properties(home.properties.read_bytes(), str(home.properties))


def gate_of(home: NodeHome, node_id: int) -> PeerGate:
    """Return the gate of a client that knows the cluster's secret, and claims to be a node by it."""
    settings = settings_of(home)
    identity = PeerIdentity(node_id, uuid_from_text(settings["cluster.id"]), os.urandom(16))
    return PeerGate(cluster_key(settings["cluster.secret"]), lambda: identity, os.urandom)


def test_the_rest_api_uses_tls_to_its_cluster(cluster: Cluster) -> None:
    topic = create(cluster, by=0)
    url = f"{cluster.nodes[0].rest}/v3/clusters/{settings_of(cluster.homes[0])['cluster.id']}/topics/{topic}"

    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        reply = json.load(answer)

    assert reply["topic_name"] == topic and reply["replication_factor"] == 3
