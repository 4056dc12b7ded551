"""The overlay `secure` played on one machine: Secrets as files, certificates renewed without a restart."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.node.secure_setup.issued_certificates import of_node
from ottla.node.secure_setup.secure_directory import complete, issue_more
from ottla.node.settings.secure_settings import SecureFiles
from tests.integration.cluster.conftest import eventually
from tests.k8s.container import why_no_containers
from tests.k8s.rendered import overlay
from tests.k8s.stateful_set import StatefulSet, played
from tests.k8s.test_rendered import SECURE, certificate_of_nodes

pytestmark = pytest.mark.slow
CLIENTS, REST = 9092, 8082
RELOADED = "has reloaded its keys and certificates"


class MountedSecret:
    """A Secret as the kubelet mounts it: names are links through `..data`, which is replaced atomically."""

    def __init__(self, folder: Path, group: int) -> None:
        self._folder, self._group = folder, group
        self._versions = 0
        folder.mkdir(parents=True)

    def write(self, files: dict[str, bytes]) -> None:
        """Replace the files atomically."""
        self._versions += 1
        version = self._folder / f"..{self._versions}"
        version.mkdir()
        for name, content in files.items():
            path = version / name
            path.write_bytes(content)
            os.chown(path, 0, self._group)
            path.chmod(0o440)
            if not (self._folder / name).is_symlink():
                (self._folder / name).symlink_to(f"..data/{name}")
        fresh = self._folder / "..fresh"
        fresh.symlink_to(version.name)
        fresh.replace(self._folder / "..data")


class SecureCluster:
    """Three pods with the Secrets of the overlay, and the keys that the Secrets are made from."""

    def __init__(self, cluster: StatefulSet, folder: Path) -> None:
        self.cluster = cluster
        self.keys = SecureFiles(folder / "keys")
        self._names = [str(one) for one in certificate_of_nodes()["spec"]["dnsNames"]]
        complete(self.keys, hosts_of={0: [*self._names, "127.0.0.1"]}, bootstrap="")
        group = 10_001
        self._tls = MountedSecret(cluster.etc / "ottla" / "tls", group)
        self._show(self.keys.node(0))
        MountedSecret(cluster.etc / "ottla" / "secure", group).write(
            {
                "client.properties": (SECURE / "client.properties.example").read_bytes(),
                "cluster.secret": self.keys.cluster_secret.read_bytes(),
            }
        )

    def _show(self, pem: Path) -> None:
        self._tls.write({"tls-combined.pem": pem.read_bytes(), "ca.crt": self.keys.authority.read_bytes()})

    def renew(self) -> None:
        """Give all pods another key and certificate for the same names."""
        fresh = self.keys.directory / "fresh.pem"
        issue_more(self.keys, {fresh: of_node(0, [*self._names, "127.0.0.1"])})
        self._show(fresh)

    def shown(self, ordinal: int, port: int) -> str:
        """Return the certificate that a pod presents at a port."""
        address = self.cluster.pods[ordinal].host.address, port
        return ssl.get_server_certificate(address, ca_certs=None, timeout=20)

    def reloads(self, ordinal: int) -> int:
        return self.cluster.pods[ordinal].container.output().count(RELOADED)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SecureCluster]:
    if (reason := why_no_containers()) is not None:
        pytest.skip(reason)
    with played(overlay("secure"), tmp_path) as cluster:
        made = SecureCluster(cluster, tmp_path)
        cluster.create(0, 1, 2)
        yield made


def test_a_secure_cluster_runs_on_secrets_and_renews_its_certificate_without_a_restart(
    secure: SecureCluster,
) -> None:
    cluster = secure.cluster
    cluster.run(0, "ottla", "topic", "create", "orders", "--partitions", "3", "--replicas", "3")
    cluster.run(1, "sh", "-c", "echo before | ottla produce orders")
    before = {
        (ordinal, port): secure.shown(ordinal, port) for ordinal in (0, 1, 2) for port in (CLIENTS, REST)
    }
    pids = {ordinal: one.container.pid for ordinal, one in cluster.pods.items()}

    secure.renew()
    for ordinal, port in before:
        eventually(
            lambda ordinal=ordinal, port=port: secure.shown(ordinal, port) != before[ordinal, port],  # type: ignore[misc]
            f"pod {ordinal} shows its new certificate at {port}",
        )
    cluster.run(2, "sh", "-c", "echo after | ottla produce orders")
    read = cluster.run(0, "ottla", "consume", "orders", "--until-end")
    status = cluster.run(1, "ottla", "quorum", "status")

    assert sorted(read.split()) == ["after", "before"]
    assert "leader" in status
    assert {ordinal: one.container.pid for ordinal, one in cluster.pods.items()} == pids
    assert all(secure.reloads(ordinal) >= 3 for ordinal in pids), "clients, nodes and controllers"
    assert not cluster.warnings
    # A pod that is created again connects to the others with the new certificate.
    cluster.delete(1)
    cluster.create(1)
    assert "after" in cluster.run(1, "ottla", "consume", "orders", "--until-end")
    assert not cluster.warnings
