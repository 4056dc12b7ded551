"""Nodes as processes, which a test may kill, pause, stop and start again."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient

from ottla.logstore.words.errors import KafkaError
from ottla.node.cli.local_cluster import NodeHome, NodeProcess, wait_until_ready, write_homes
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    TopicDataRequest,
)
from tests.chaos.hosts import Host
from tests.chaos.power import PoweredDisk
from tests.chaos.traffic import CALL_TIMEOUT_S, TOPIC
from tests.node_fork import popen
from tests.ports import free_ports

STOP_TIMEOUT_S = 60
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093  # if each node has its own host


class QuorumLeader(NamedTuple):
    """The leader of the metadata quorum, and its epoch."""

    node_id: int
    epoch: int


class Nodes:
    """A cluster of node processes; `running` has None for a node that does not run."""

    def __init__(
        self,
        data: Path,
        *overrides: str,
        count: int = 3,
        hosts: "Sequence[Host] | None" = None,
        disks: "Mapping[int, PoweredDisk] | None" = None,
    ) -> None:
        """Start `count` nodes on loopback, or each on its own host; `disks` can lose their power."""
        self.homes = write_homes(count, base_port=free_ports(2 * count), data=data, overrides=overrides)
        self._prefixes: list[Sequence[str]] = [()] * count
        if hosts is not None:
            self._prefixes = [host.prefix for host in hosts]
            for home, host in zip(self.homes, hosts, strict=True):
                _set_addresses(home, host, hosts)
        for node_id, disk in (disks or {}).items():
            self._prefixes[node_id] = disk.prefix
            with self.homes[node_id].properties.open("a") as file:
                file.write(f"log.dirs={disk.directory}/data-{node_id}\n")
        self.running: list[NodeProcess | None] = [None] * count
        self.paused: set[int] = set()
        self.start(*range(count))
        self.addresses = [node.bootstrap for node in self.running if node is not None]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    def kill(self, node_id: int) -> None:
        """Kill a node with SIGKILL."""
        self._end(node_id, signal.SIGKILL)

    def terminate(self, node_id: int) -> None:
        """Stop a node with SIGTERM, like Kubernetes; its exit code must be 0."""
        code = self._end(node_id, signal.SIGTERM)
        assert code == 0, f"node {node_id} ended with {code}: {self.homes[node_id].log.read_text()[-2000:]}"

    def pause(self, node_id: int) -> None:
        """Stop the process with SIGSTOP, so that it looks like a machine that hangs."""
        self._signal(node_id, signal.SIGSTOP)
        self.paused.add(node_id)

    def resume(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGCONT)
        self.paused.discard(node_id)

    def lose_power(self, disk: PoweredDisk, *node_ids: int) -> None:
        """Cut the power of a disk, and kill its nodes.

        The nodes are paused first: a sync during the shutdown of ext4 returns success without being done. On
        a machine without power, no process would see that result.
        """
        for node_id in node_ids:
            self.pause(node_id)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while not all(self._is_stopped(node_id) for node_id in node_ids):
            assert time.monotonic() < deadline, f"not all threads of the nodes {node_ids} are stopped"
            time.sleep(0.001)
        disk.lose_power()
        for node_id in node_ids:
            self.paused.discard(node_id)
            self.kill(node_id)

    def _is_stopped(self, node_id: int) -> bool:
        """Return True if every thread is stopped, so that none is in a write or a sync."""
        node = self.running[node_id]
        assert node is not None
        stats = [one.read_text() for one in Path(f"/proc/{node.process.pid}/task").glob("*/stat")]
        return bool(stats) and all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    def start(self, *node_ids: int) -> None:
        """Start stopped nodes, all at once: a quorum may need more than one of them."""
        started = [NodeProcess(self.homes[one], self._prefixes[one], start=popen) for one in node_ids]
        wait_until_ready(started, [])
        for node in started:
            self.running[node.home.node_id] = node

    def stop_all(self) -> None:
        """Stop all nodes at the end of a test, in whatever state they are."""
        for node_id in tuple(self.paused):
            self.resume(node_id)
        left = [node for node in self.running if node is not None]
        for node in left:
            node.process.terminate()
        for node in left:
            try:
                node.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
            node.close()

    def tracebacks(self) -> list[str]:
        """Return the tracebacks in the nodes' logs, which are bugs."""
        return [
            f"node {home.node_id}: {text[text.index('Traceback') :][:3000]}"
            for home in self.homes
            if "Traceback" in (text := home.log.read_text(errors="replace"))
        ]

    # ---- roles -----------------------------------------------------------------------------------

    def leader_of(self, partition: int) -> int:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        return int(admin.list_topics(TOPIC, CALL_TIMEOUT_S).topics[TOPIC].partitions[partition].leader)

    def controller(self) -> int:
        """Return the controller, as reported by the first running node that knows one."""
        return self.quorum_leader().node_id

    def quorum_leader(self) -> QuorumLeader:
        """Return the leader of the metadata quorum, as reported by the first running node that knows one."""
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while time.monotonic() < deadline:
            for node_id, node in enumerate(self.running):
                if node is not None and node_id not in self.paused:
                    leader = asyncio.run(_quorum_leader(self.addresses[node_id]))
                    if leader is not None:
                        return leader
            time.sleep(0.05)
        raise AssertionError("no node knows a controller")

    def wait_until_in_sync(self, timeout_s: float = 60) -> float:
        """Wait until every replica of the topic is in sync; return the seconds that it took."""
        began = time.monotonic()
        while True:
            admin = AdminClient({"bootstrap.servers": self.bootstrap})
            partitions = admin.list_topics(TOPIC, CALL_TIMEOUT_S).topics[TOPIC].partitions.values()
            if all(len(one.isrs) == len(one.replicas) and one.leader >= 0 for one in partitions):
                return time.monotonic() - began
            states = [(one.id, one.leader, one.isrs) for one in partitions]
            assert time.monotonic() - began < timeout_s, f"replicas stay out of sync: {states}"
            time.sleep(0.1)

    def spread_leaders(self) -> None:
        """Elect the preferred leaders, so that clients have connections to all nodes."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            admin.elect_leaders(ElectionType.PREFERRED).result(CALL_TIMEOUT_S)
        except KafkaException as error:
            assert error.args[0].name() == "ELECTION_NOT_NEEDED", error

    # ---- signals ---------------------------------------------------------------------------------

    def _signal(self, node_id: int, number: signal.Signals) -> None:
        node = self.running[node_id]
        assert node is not None, f"node {node_id} is dead"
        os.kill(node.process.pid, number)

    def _end(self, node_id: int, number: signal.Signals) -> int:
        self._signal(node_id, number)
        node = self.running[node_id]
        assert node is not None
        self.running[node_id] = None
        code = node.process.wait(STOP_TIMEOUT_S)
        node.close()
        return code


def _set_addresses(home: NodeHome, host: Host, hosts: Sequence[Host]) -> None:
    """Set a node's listeners to the address of its host; the last of equal settings in a file wins."""
    voters = ",".join(f"{index}@{one.address}:{CONTROLLER_PORT}" for index, one in enumerate(hosts))
    with home.properties.open("a") as file:
        file.write(
            f"listeners=PLAINTEXT://{host.address}:{CLIENT_PORT},CONTROLLER://{host.address}:{CONTROLLER_PORT}\n"
            f"controller.quorum.voters={voters}\n"
            # The tests elect leaders from a machine that has no node.
            "ottla.anonymous.administrators=anywhere\n"
        )


async def _quorum_leader(address: str) -> QuorumLeader | None:
    """Return the leader of the metadata quorum that a node reports; None if it reports none."""
    host, _, port = address.rpartition(":")
    request = DescribeQuorumRequest(
        topics=[
            TopicDataRequest(
                topic_name="__cluster_metadata", partitions=[PartitionDataRequest(partition_index=0)]
            )
        ]
    )
    try:
        client = await PeerClient.connect(host, int(port), client_id="chaos", timeout_s=2)
        answer = await client.request(request, DescribeQuorumResponse, timeout_s=5)
        await client.close()
    except KafkaError:
        return None
    if answer.error_code:
        return None
    quorum = answer.topics[0].partitions[0]
    if quorum.error_code or quorum.leader_id < 0:
        return None
    return QuorumLeader(quorum.leader_id, quorum.leader_epoch)
