"""The CPU that observers of the metadata cost the voter that they fetch from, with a hundred of them.

The voter is a real node in its own process. The observers share another process: each is registered, sends
heartbeats, and fetches the metadata over connections of its own, but does not apply it.
"""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.cluster_features import SUPPORTED_FEATURES
from ottla.metadata_raft.commands import (
    AlterConfigs,
    BrokerEndpoint,
    BrokerFeature,
    BrokerHeartbeat,
    ConfigChange,
    RegisterBroker,
    RegisterBrokerReply,
    ResourceChanges,
)
from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.cli.local_cluster import HOST, NodeHome, NodeProcess, wait_until_ready, write_homes
from ottla.node.metadata.command_sender import CommandSender
from ottla.node.metadata.metadata_observer import FETCH_BYTES, FETCH_WAIT_MS
from ottla.node.net.peer_handshake import PeerGate, PeerIdentity
from ottla.node.net.peer_network import PeerNetwork
from ottla.node.security.cluster_key import cluster_key
from ottla.node.settings.properties_file import parse_properties
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse

HEARTBEAT_S = 2.0
SETTLE_S = 4.0
MEASURED_S = 15.0
FIRST_ID = 100


class Follower:
    """One observer."""

    def __init__(self, node_id: int, endpoint: Endpoint, secret: bytes) -> None:
        identity = PeerIdentity(node_id, bytes(16), os.urandom(16))
        self.node_id = node_id
        self.peers = PeerNetwork(
            gate=PeerGate(secret, lambda: identity, os.urandom),
            node_id=node_id,
            endpoint_of=lambda _: endpoint,
            chance=random.Random(node_id),
        )
        self.sender = CommandSender(self.peers.client)
        self.next_offset = 0
        self.last_epoch = 0
        self.fetches = 0
        self.batches_bytes = 0

    async def register(self) -> None:
        command = RegisterBroker(
            broker_id=self.node_id,
            incarnation_id=os.urandom(16),
            listeners=[BrokerEndpoint(name="PLAINTEXT", host=HOST, port=1)],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[os.urandom(16)],
        )
        reply = (await self.sender.send(0, command, None, 30)).reply
        assert isinstance(reply, RegisterBrokerReply)
        self.epoch = reply.broker_epoch

    async def send_heartbeats(self) -> None:
        await asyncio.sleep(random.random() * HEARTBEAT_S)
        while True:
            heartbeat = BrokerHeartbeat(
                broker_id=self.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=self.next_offset - 1,
            )
            await self.sender.send(0, heartbeat, None, 30)
            await asyncio.sleep(HEARTBEAT_S)

    async def follow(self) -> None:
        client = await self.peers.client(0, "metadata")
        while True:
            request = FetchMetadataRequest(
                fetch_offset=self.next_offset,
                last_epoch=self.last_epoch,
                max_bytes=FETCH_BYTES,
                max_wait_ms=FETCH_WAIT_MS,
            )
            response = await client.request(request, FetchMetadataResponse, timeout_s=30)
            # All records and snapshots count as applied; the cost of applying them is not measured here.
            self.next_offset, self.last_epoch = response.end_offset, response.epoch
            self.fetches += 1
            self.batches_bytes += len(response.batches)


async def _run_observers(port: int, secret: bytes, count: int, rate_per_s: float) -> None:
    """Run all observers, change a setting `rate_per_s` times a second, and print the responses a second."""
    endpoint = Endpoint(HOST, port)
    followers = [Follower(FIRST_ID + number, endpoint, secret) for number in range(count)]
    changer = Follower(99, endpoint, secret)
    async with asyncio.TaskGroup() as tasks:
        for one in followers:
            await one.register()
            tasks.create_task(one.send_heartbeats())
            tasks.create_task(one.follow())
        print("READY", flush=True)
        if rate_per_s:
            tasks.create_task(_change(changer, rate_per_s))
        while True:
            before = sum(one.fetches for one in followers)
            await asyncio.sleep(1)
            print(sum(one.fetches for one in followers) - before, flush=True)


async def _change(changer: Follower, rate_per_s: float) -> None:
    loop, number = asyncio.get_running_loop(), 0
    began = loop.time()
    while True:
        number += 1
        change = ConfigChange(name="consumer.session.timeout.ms", value=str(45_000 + number % 1_000))
        resource = ResourceChanges(
            resource_type=ConfigResourceType.GROUP, resource_name="bench", changes=[change]
        )
        try:
            await changer.sender.send(0, AlterConfigs(resources=[resource]), None, 30)
        except KafkaError as error:
            print(f"a change failed: {error}", file=sys.stderr, flush=True)
        await asyncio.sleep(max(0.0, began + number / rate_per_s - loop.time()))


def measure(brokers: int, rates: Sequence[float]) -> None:
    """Print the CPU of the node, in percent of a core, with `brokers` observers and without."""
    print(f"{brokers} observers of one voter, {MEASURED_S:.0f} s each, percent of a core:")
    for rate_per_s in rates:
        figures = []
        for count in (0, brokers):
            cpu, rate = _measure_once(count, rate_per_s)
            figures.append(cpu)
            print(f"  {rate_per_s:g} changes/s, {count} observers: {cpu:.1f} % ({rate:.0f} responses/s)")
        print(
            f"  {rate_per_s:g} changes/s: the {brokers} observers cost {figures[1] - figures[0]:.1f} %",
            flush=True,
        )


def _measure_once(count: int, rate_per_s: float) -> tuple[float, float]:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        base_port = probe.getsockname()[1] // 2  # below the ephemeral ports
    with tempfile.TemporaryDirectory(prefix="observers-bench-") as home:
        homes: Sequence[NodeHome] = write_homes(1, base_port=base_port, data=Path(home), overrides=[])
        node = NodeProcess(homes[0])
        observers = None
        try:
            wait_until_ready([node], [])
            secret = parse_properties(homes[0].properties.read_bytes())["cluster.secret"]
            words = [sys.executable, "-m", "scripts.benchmarks.observers", str(base_port), str(count)]
            observers = subprocess.Popen(
                [*words, str(rate_per_s)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OTTLA_BENCH_SECRET": secret},
            )
            assert observers.stdout is not None
            assert observers.stdout.readline().strip() == "READY"
            time.sleep(SETTLE_S)
            pid = node.process.pid
            before, began = _cpu_s(pid), time.monotonic()
            time.sleep(MEASURED_S)
            used, passed = _cpu_s(pid) - before, time.monotonic() - began
            observers.terminate()
            counts = [int(line) for line in observers.stdout.read().split()]
            return 100 * used / passed, sum(counts) / max(1, len(counts))
        finally:
            for process in [one for one in (observers, node.process) if one is not None]:
                process.send_signal(signal.SIGTERM)
                process.wait()
            node.close()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    asyncio.run(
        _run_observers(
            int(sys.argv[1]),
            cluster_key(os.environ["OTTLA_BENCH_SECRET"]),
            int(sys.argv[2]),
            float(sys.argv[3]),
        )
    )
