"""Clusters of either server, a process for each node: start, kill, stop, and restart of single nodes.

The nodes are on loopback, or on simulated hosts of their own that can be cut off.
"""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.servers import (
    OVERRIDES,
    READY_TIMEOUT_S,
    ROOT,
    STOP_TIMEOUT_S,
    rss_mb_of,
)
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.cli.local_cluster import write_homes
from tests.chaos.hosts import Host
from tests.cpu_time import cpu_seconds_of
from tests.ports import free_ports

LOOPBACK = "127.0.0.1"
# The defaults of both, except for the settings that three replicas need and those of `servers`.
CLUSTER_OVERRIDES = [*OVERRIDES, "default.replication.factor=3", "min.insync.replicas=2"]


@dataclass(slots=True, kw_only=True)
class Node:
    """A node of a cluster; `pid` is the process that does the work."""

    node_id: int
    address: str
    port: int
    command: list[str]
    log: Path
    host: Host | None = None
    process: subprocess.Popen[bytes] | None = None
    pid: int = 0

    def spawn(self) -> None:
        """Start the process; `wait_until_ready` waits until it serves."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log)

    def wait_until_ready(self) -> None:
        """Wait until the node serves; RuntimeError with the end of its log if it does not."""
        assert self.process is not None and self.process.stdout is not None
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if not select.select([self.process.stdout], [], [], 1.0)[0]:
                continue
            line = self.process.stdout.readline().decode()
            if line.startswith("READY "):
                pid = re.search(r"\bpid=(\d+)", line)
                self.pid = int(pid[1]) if pid else self.process.pid
                return
            if not line:
                break
        self.kill()
        raise RuntimeError(f"node {self.node_id} did not start: {self.log.read_text()[-800:]}")

    def kill(self) -> None:
        """Send SIGKILL to the process that does the work, and to the one that was started."""
        for pid in {self.pid, self.process.pid if self.process else 0} - {0}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._reap()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after STOP_TIMEOUT_S."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reap()

    def _reap(self) -> None:
        if self.process is not None:
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
        self.process, self.pid = None, 0

    def cpu_seconds(self) -> float:
        return cpu_seconds_of(self.pid)

    def rss_mb(self) -> float:
        return rss_mb_of(self.pid)


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A cluster of several nodes."""

    name: str
    nodes: list[Node] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.address}:{node.port}" for node in self.nodes)

    def start(self) -> float:
        """Start all nodes at once; return the seconds until the last one serves."""
        began = time.monotonic()
        for node in self.nodes:
            node.spawn()
        for node in self.nodes:
            node.wait_until_ready()
        return time.monotonic() - began

    def stop(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.process.send_signal(signal.SIGTERM)
        for node in self.nodes:
            node.stop()

    def cpu_seconds(self) -> float:
        return sum(node.cpu_seconds() for node in self.nodes)

    def rss_mb(self) -> float:
        return sum(node.rss_mb() for node in self.nodes)


def make(name: str, folder: Path, count: int, hosts: Sequence[Host] = ()) -> Cluster:
    """Write the files of a cluster of `ottla` or `kafka`; nothing runs yet.

    `hosts` has a host for each node; without it, all nodes are on loopback.
    """
    folder.mkdir(parents=True)
    base_port = free_ports(2 * count)
    make_commands = _kafka_commands if name == "kafka" else _ottla_commands
    addresses = [host.address for host in hosts] or [LOOPBACK] * count
    commands = make_commands(folder, addresses, base_port)
    nodes = [
        Node(
            node_id=index,
            address=address,
            port=base_port + index,
            command=[*(hosts[index].prefix if hosts else ()), *command],
            log=folder / f"node-{index}.out",
            host=hosts[index] if hosts else None,
        )
        for index, (address, command) in enumerate(zip(addresses, commands, strict=True))
    ]
    return Cluster(name=name, nodes=nodes)


def _ottla_commands(folder: Path, addresses: Sequence[str], base_port: int) -> list[list[str]]:
    homes = write_homes(len(addresses), base_port=base_port, data=folder, overrides=CLUSTER_OVERRIDES)
    commands = []
    for home in homes:
        command = [sys.executable, "-P", "-m", "ottla", "start", "--config", str(home.properties)]
        # As Apache Kafka without an authorizer, since clients are remote to nodes on hosts of their own.
        administrators = "ottla.anonymous.administrators=anywhere"
        for override in (*_endpoints(addresses, base_port, home.node_id), administrators):
            command += ["--override", override]
        commands.append(command)
    return commands


def _endpoints(addresses: Sequence[str], base_port: int, node_id: int) -> list[str]:
    """Return the listeners and voters of a node; every node is a broker and a controller."""
    controllers = [
        f"{address}:{base_port + len(addresses) + index}" for index, address in enumerate(addresses)
    ]
    return [
        f"listeners=PLAINTEXT://{addresses[node_id]}:{base_port + node_id},CONTROLLER://{controllers[node_id]}",
        f"controller.quorum.voters={','.join(f'{index}@{one}' for index, one in enumerate(controllers))}",
    ]


def _kafka_commands(folder: Path, addresses: Sequence[str], base_port: int) -> list[list[str]]:
    cluster_id = uuid_to_text(os.urandom(16))
    commands = []
    for index, address in enumerate(addresses):
        overrides = [
            f"node.id={index}",
            *_endpoints(addresses, base_port, index),
            "offsets.topic.replication.factor=3",
            "share.coordinator.state.topic.replication.factor=3",
            "share.coordinator.state.topic.min.isr=2",
            "transaction.state.log.replication.factor=3",
            "transaction.state.log.min.isr=2",
            *CLUSTER_OVERRIDES,
        ]
        command = [str(ROOT / "scripts" / "kafka-reference"), "--host", address]
        command += ["--port", str(base_port + index)]
        command += ["--data", str(folder / f"node-{index}"), "--cluster-id", cluster_id]
        for override in overrides:
            command += ["--override", override]
        commands.append(command)
    return commands
