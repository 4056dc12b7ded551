"""A node that the manifests start has the ports, paths, user, files and names that they say."""

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest

from tests.k8s.container import why_no_containers
from tests.k8s.rendered import find, overlay, render
from tests.k8s.stateful_set import StatefulSet, played

pytestmark = pytest.mark.slow
LISTENING = "0A"  # the state of a listening socket in /proc/net/tcp


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StatefulSet]:
    reason = why_no_containers()
    if reason is not None:
        pytest.skip(reason)
    with played(overlay("one-node"), tmp_path_factory.mktemp("served")) as cluster:
        cluster.create(0)
        yield cluster
        assert cluster.warnings == []


def get(cluster: StatefulSet, path: str, host: str | None = None) -> tuple[int, str]:
    """Send a GET to the pod's REST API, with this Host or its address; return the status and the body."""
    return get_at(cluster, cluster.pods[0].pod.ports["rest"], path, host)


def get_at(cluster: StatefulSet, port: int, path: str, host: str | None = None) -> tuple[int, str]:
    """Send a GET to a port of the pod; return the status and the body."""
    address = f"{cluster.pods[0].host.address}:{port}"
    request = urllib.request.Request(f"http://{address}{path}", headers={"Host": host or address})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.status, answer.read().decode()


def test_a_pod_listens_at_the_ports_of_the_manifest_and_at_no_others(one_node: StatefulSet) -> None:
    tables = one_node.run(0, "cat", "/proc/net/tcp", "/proc/net/tcp6")

    rows = [line.split() for line in tables.splitlines() if re.match(r"\s*\d+:", line)]
    listening = {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENING}
    assert listening == set(one_node.pods[0].pod.ports.values())


def test_the_paths_of_probes_and_scrapes_are_served(one_node: StatefulSet) -> None:
    pod = one_node.pods[0].pod
    [endpoint] = find(render("components/service-monitor"), "ServiceMonitor", "ottla")["spec"]["endpoints"]

    for probe in (pod.startup, pod.liveness, pod.readiness):
        assert get_at(one_node, probe.port, probe.path, "any.host")[0] == 200
    for path in (pod.startup.path, pod.liveness.path, pod.readiness.path, endpoint["path"]):
        assert get(one_node, path)[0] == 200


@pytest.mark.parametrize(
    "name", ["ottla-0.ottla", "ottla-0.ottla.default.svc", "ottla-bootstrap.default.svc"]
)
def test_a_pod_accepts_the_host_names_that_kubernetes_gives_it(one_node: StatefulSet, name: str) -> None:
    assert get(one_node, "/v3/clusters", f"{name}:8082")[0] == 200


def test_a_pod_runs_without_privileges(one_node: StatefulSet) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in one_node.run(0, "cat", "/proc/1/status").splitlines()
        if ":\t" in line
    )
    writable = one_node.pods[0].container.run(
        ["sh", "-c", "touch /x /etc/x /opt/ottla/x /dev/shm/x /tmp/x /root/x"], 30
    )

    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {str(one_node.pods[0].pod.user)}
    assert {status[key].strip("0") for key in ("CapInh", "CapPrm", "CapEff", "CapBnd")} == {""}
    assert status["NoNewPrivs"] == "1"
    assert writable.returncode and len(writable.stderr.splitlines()) == 6


def test_one_node_becomes_three_that_all_vote(one_node: StatefulSet) -> None:
    one_node.create(1, 2)
    for ordinal in (1, 2):
        one_node.run(0, "ottla", "quorum", "add", str(ordinal))

    status = json.loads(one_node.run(2, "ottla", "quorum", "status", "--output", "json"))
    assert [one["node"] for one in status["voters"]] == [0, 1, 2]
