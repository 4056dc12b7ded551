"""Clusters of real processes: `cluster` is shared by a module, `make_cluster` makes more.

A test that kills nodes of `cluster` uses `all_up`, which restarts the nodes that an earlier test left dead.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ottla.node.cli.local_cluster import NodeHome, NodeProcess, stop_all, wait_until_ready, write_homes
from tests.node_fork import popen
from tests.ports import free_ports

QUICK = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3")
READY_TIMEOUT_S = 60.0


@dataclass(slots=True, kw_only=True)
class Cluster:
    """The nodes of a cluster by id, each a process that can be killed and restarted."""

    homes: Sequence[NodeHome]
    nodes: dict[int, NodeProcess] = field(default_factory=dict)
    _admins: dict[str, AdminClient] = field(default_factory=dict)  # kept, or their requests fail

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values() if node.is_broker)

    def start(self, *node_ids: int) -> None:
        """Start nodes together, and return when all of them serve."""
        for node_id in node_ids:
            if node_id in self.nodes:
                self._forget(self.nodes.pop(node_id))
        started = {node_id: NodeProcess(self.homes[node_id], start=popen) for node_id in node_ids}
        self.nodes |= started
        wait_until_ready(list(started.values()), [])

    def kill(self, node_id: int) -> None:
        """Send SIGKILL. Admin clients are recreated: librdkafka waits for a controller that it has seen."""
        self._admins.clear()
        node = self.nodes[node_id]
        node.process.kill()
        node.process.wait(READY_TIMEOUT_S)

    def signal(self, node_id: int, number: signal.Signals) -> None:
        os.kill(self.nodes[node_id].process.pid, number)

    def terminate(self, node_id: int) -> int:
        """Stop a node with SIGTERM and return its exit code. Admin clients are recreated, as after a kill."""
        self._admins.clear()
        node = self.nodes[node_id]
        node.process.terminate()
        return node.process.wait(READY_TIMEOUT_S)

    def running(self) -> list[int]:
        return sorted(node_id for node_id, node in self.nodes.items() if node.process.poll() is None)

    def output(self, node_id: int) -> str:
        return self.homes[node_id].log.read_text(errors="replace")

    def admin(self, node_id: int | None = None) -> AdminClient:
        """Return an admin client that bootstraps from one node, or from all running brokers."""
        brokers = [one for one in self.running() if self.nodes[one].is_broker]
        running = [node_id] if node_id is not None else brokers
        servers = ",".join(self.nodes[one].bootstrap for one in running)
        client = self._admins.get(servers)
        if client is None:
            client = self._admins[servers] = AdminClient(
                {"bootstrap.servers": servers, "socket.timeout.ms": 30_000}
            )
        return client

    def stop(self) -> None:
        stop_all(list(self.nodes.values()))
        for node in self.nodes.values():
            self._forget(node)

    @staticmethod
    def _forget(node: NodeProcess) -> None:
        assert node.process.stdout is not None
        node.process.stdout.close()


MakeCluster = Callable[..., Cluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """Yield `make_cluster(nodes, *overrides)`: it writes the homes of a cluster, `start` starts nodes."""
    made: list[Cluster] = []

    def make(nodes: int, *overrides: str) -> Cluster:
        made.append(write_cluster(tmp_path / f"cluster-{len(made)}", nodes, *overrides))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@contextmanager
def running(three: Cluster) -> Iterator[Cluster]:
    """Start three nodes, and stop them; fail if one of them has logged a traceback."""
    try:
        three.start(0, 1, 2)
        yield three
    finally:
        three.stop()
    for node_id in (0, 1, 2):
        assert "Traceback" not in three.output(node_id), three.output(node_id)[-5000:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start three nodes, all of them voters, for the tests of one module."""
    with running(write_cluster(tmp_path_factory.mktemp("cluster"), 3)) as three:
        yield three


@pytest.fixture
def all_up(cluster: Cluster) -> Cluster:
    """Return `cluster` with all of its nodes running, for tests that kill some."""
    cluster.start(*sorted(cluster.nodes.keys() - cluster.running()))
    return cluster


def write_cluster(directory: Path, nodes: int, *overrides: str) -> Cluster:
    """Write the homes of a cluster in a directory; its nodes are not started."""
    base_port = free_ports(2 * nodes)
    homes = write_homes(nodes, base_port=base_port, data=directory, overrides=[*QUICK, *overrides])
    return Cluster(homes=homes)


def eventually(holds: Callable[[], bool], condition: str, timeout_s: float = 60.0) -> float:
    """Wait until a condition holds, and return how long that took, in seconds."""
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < timeout_s, f"not within {timeout_s:g} s: {condition}"
        time.sleep(0.05)
    return time.monotonic() - begin
