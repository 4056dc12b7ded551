"""The throughput of common clients with Ottla and with Apache Kafka, on one node or on three.

Each client is a process of its own, whose CPU is reported beside the server's: if a client takes about a
core, or two with its threads, the client limits the row, which then says little about the servers.
"""

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console

from benchmarks import clients, clusters, report, servers
from benchmarks.choice import chosen_servers, chosen_workloads, report_results
from benchmarks.client_programs import missing_reason, run_client
from benchmarks.turns import failures_recorded, measure
from benchmarks.workload import Figures, Plan, Workload

Target = servers.Server | clusters.Cluster

RECORD_BYTES: Final = 1000
B64, B1M = "65536", "1048576"
GB: Final = 1e9
# Of a whole run; each client takes a second or two for it.
RUN_BYTES: Final[Mapping[str, int]] = {
    "librdkafka": 512 << 20,
    "java": 512 << 20,
    "franz-go": 512 << 20,
    "aiokafka": 64 << 20,
    "kafka-python": 64 << 20,
}
# A server counts as warm when the rate has not risen by this factor twice in a row.
STILL_RISES: Final = 1.05
MOST_WARM_UPS: Final = 12
GOALS: Final = {"MB/s": 1.0, "server CPU s/GB": 0.5}


@dataclass(frozen=True, slots=True)
class _Throughput:
    """A workload of one client."""

    client: str
    work: str
    partitions: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, server: Target, plan: Plan) -> Figures:
        if reason := missing_reason(self.client):
            raise RuntimeError(reason)
        replicas = len(server.nodes) if isinstance(server, clusters.Cluster) else 1
        topic = clients.create_topic(server.bootstrap, self.partitions, replicas=replicas)
        records = min(RUN_BYTES[self.client], plan.limit_bytes) // RECORD_BYTES
        if self.work == "consume":
            _fill(server, topic, records, self.partitions)
        before = server.cpu_seconds()
        done = run_client(
            self.client,
            self.work,
            server.bootstrap,
            topic,
            records=records,
            record_bytes=RECORD_BYTES,
            settings=self.settings,
        )
        server_cpu = server.cpu_seconds() - before
        clients.delete_topic(server.bootstrap, topic)
        size_gb = records * RECORD_BYTES / GB
        return {
            "MB/s": records * RECORD_BYTES / 1e6 / done.seconds,
            "server CPU s/GB": server_cpu / size_gb,
            "client CPU s/GB": done.cpu_seconds / size_gb,
            "client cores": done.cpu_seconds / done.process_seconds,
        }


def _fill(server: Target, topic: str, records: int, partitions: int) -> None:
    clients.produce(
        server.bootstrap,
        topic,
        partitions=partitions,
        record_bytes=RECORD_BYTES,
        seconds=60,
        limit_bytes=records * RECORD_BYTES,
        settings={"batch.size": int(B64), "acks": "all"},
    )


def _workload(name: str, run: _Throughput) -> Workload[Target]:
    return Workload(name=name, run=run, goals=GOALS)


def _idempotent(batch_bytes: str, partitions: int, codec: str) -> Workload[Target]:
    settings = {"enable.idempotence": "true", "batch.size": batch_bytes, "compression.type": codec}
    size = {B64: "64 KB", B1M: "1 MB"}[batch_bytes]
    plural = "s" if partitions > 1 else ""
    name = f"librdkafka produce idempotent, {size}, {partitions} partition{plural}, {codec}"
    return _workload(name, _Throughput("librdkafka", "produce", partitions, settings))


WORKLOADS: Final[Sequence[Workload[Target]]] = (
    *(
        _idempotent(batch_bytes, partitions, codec)
        for codec in ("none", "lz4", "zstd")
        for batch_bytes in (B64, B1M)
        for partitions in (1, 3)
    ),
    *(
        _workload(f"{client} {work}", _Throughput(client, work))
        for client in RUN_BYTES
        for work in ("produce", "consume")
        if (client, work) != ("librdkafka", "produce")
    ),
)


def main(arguments: Namespace, console: Console) -> int:
    """Measure the workloads whose names contain the given words."""
    chosen = chosen_workloads(WORKLOADS, arguments, console)
    if arguments.list:
        return 0
    plan = Plan(limit_bytes=64 << 20) if arguments.quick else Plan()
    results = report.Report()
    running: dict[str, Target] = {}
    with TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        try:
            for name in chosen_servers(arguments, console):
                running[name] = _started(name, Path(folder), arguments.nodes)
                with failures_recorded(results, f"warm-up of {name}"):
                    _warm_up(running[name])
            measure(chosen, running, plan, arguments.runs, Path(folder), results, console)
        finally:
            for server in running.values():
                server.stop()
    report_results(results, chosen, arguments, console)
    return 0


def _started(name: str, folder: Path, nodes: int) -> Target:
    if not nodes:
        return servers.start(name, folder / name)
    cluster = clusters.make(name, folder / name, nodes)
    cluster.start()
    return cluster


def _warm_up(server: Target) -> None:
    """Write and read until the rate stops rising, because a JVM compiles code that runs often."""
    best, unchanged = 0.0, 0
    for _ in range(MOST_WARM_UPS):
        began = time.perf_counter()
        for work in ("produce", "consume"):
            _Throughput("librdkafka", work)(server, Plan(limit_bytes=256 << 20))
        rate = 1 / (time.perf_counter() - began)
        unchanged = 0 if rate > STILL_RISES * best else unchanged + 1
        best = max(best, rate)
        if unchanged == 2:
            return
