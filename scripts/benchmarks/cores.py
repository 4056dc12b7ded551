"""Hosts of one node and of several: the throughput that more cores give, and its cost.

A host is `ottla start --nodes-per-host N` on this machine, for 1, 2, 4 ... nodes up to the number of cores.
Partitions have one replica and producers wait for the leader only, so no node works for another. The
generator uses the same cores: if all are busy (`cores of the nodes` and `generator cores` together), a larger
machine would reach more.
"""

import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import clients, frames, load, report
from benchmarks.choice import chosen_workloads, report_results
from benchmarks.program_environment import program_environment
from benchmarks.servers import READY_TIMEOUT_S, STOP_TIMEOUT_S, rss_mb_of
from benchmarks.turns import failures_recorded
from benchmarks.workload import Figures, Plan, Workload
from benchmarks.workloads import KILOBYTE_BATCH, MB
from tests.cpu_time import cpu_seconds_of
from tests.ports import free_ports

PARTITIONS_OF_A_NODE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The supervisor of a host, and its nodes."""

    process: "subprocess.Popen[str]"
    nodes: Sequence[int]  # by their process ids
    bootstrap: str

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds_of, self.nodes))

    def rss_mb(self) -> float:
        return sum(map(rss_mb_of, self.nodes))

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=STOP_TIMEOUT_S)


def start(folder: Path, nodes: int) -> Host:
    """Start a host of `nodes` nodes in a folder; RuntimeError with the end of its log if that fails."""
    folder.mkdir()
    port = free_ports(nodes + 1)
    settings = {
        "node.id": 0,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + nodes}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"0@127.0.0.1:{port + nodes}",
        "cluster.secret": "of a benchmark alone",
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "ottla.rest.listeners": "http://127.0.0.1:0",
        "log.dirs": folder / "data",
    }
    file, log = folder / "host.properties", folder / "log"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    file.chmod(0o600)  # it contains a secret
    command = [sys.executable, "-P", "-m", "ottla", "start", "--config", str(file)]
    with log.open("wb") as words:
        process = subprocess.Popen(
            [*command, "--nodes-per-host", str(nodes)],
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            env=program_environment(),
        )
    assert process.stdout is not None
    deadline = time.monotonic() + READY_TIMEOUT_S
    line = process.stdout.readline()
    if not line.startswith("READY ") or time.monotonic() > deadline:
        process.kill()
        raise RuntimeError(f"a host of {nodes} nodes did not start: {log.read_text()[-800:]}")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    pids = [int(one) for one in children.split()] or [process.pid]  # a host of one node is that node
    return Host(process=process, nodes=pids, bootstrap=f"127.0.0.1:{port}")


# ---- workloads ---------------------------------------------------------------------------------------------

# The first argument is the ports of the partitions' leaders.
Drive = Callable[[Sequence[int], str, Plan], load.Done]


def _small_requests(ports: Sequence[int], topic: str, plan: Plan) -> load.Done:
    return load.small_requests(ports, topic, len(ports), connections=len(ports), seconds=plan.seconds)


def _produce(ports: Sequence[int], topic: str, plan: Plan) -> load.Done:
    batch = frames.build_batch(1000, KILOBYTE_BATCH, timestamp_ms=int(time.time() * 1000))
    return load.produce(
        ports,
        topic,
        batch,
        acks=1,
        connections=len(ports),
        seconds=plan.seconds,
        limit_bytes=plan.limit_bytes,
    )


def _measured(drive: Drive) -> Callable[[Host, Plan], Figures]:
    def run(host: Host, plan: Plan) -> Figures:
        topic = clients.create_topic(host.bootstrap, PARTITIONS_OF_A_NODE * len(host.nodes))
        ports = clients.leader_ports(host.bootstrap, topic)
        drive(ports, topic, plan.slice(4))  # warm-up
        cpu_s, generator_s = host.cpu_seconds(), time.process_time()
        done = drive(ports, topic, plan)
        cpu_s, generator_s = host.cpu_seconds() - cpu_s, time.process_time() - generator_s
        clients.delete_topic(host.bootstrap, topic)
        return {
            "MB/s": done.payload_bytes / MB / done.seconds,
            "requests/s": done.requests / done.seconds,
            "CPU us/request": cpu_s * 1e6 / done.requests,
            "cores of the nodes": cpu_s / done.seconds,
            "generator cores": generator_s / done.seconds,
            "MB RSS": host.rss_mb(),
        }

    return run


def _counts() -> list[int]:
    """Return the numbers of nodes to measure: 1, 2, 4 ... and the number of cores."""
    cores = len(os.sched_getaffinity(0))
    return sorted({cores, *(1 << power for power in range(cores.bit_length()))})


def _workloads_of(nodes: int) -> list[Workload[Host]]:
    return [
        Workload(name=f"host of {nodes}: small requests", run=_measured(_small_requests)),
        Workload(name=f"host of {nodes}: produce 1 KB, 64 KB, acks=1", run=_measured(_produce)),
    ]


def main(arguments: Namespace, console: Console) -> int:
    """Measure the workloads whose names contain the given words, each `--runs` times."""
    by_count = {nodes: _workloads_of(nodes) for nodes in _counts()}
    chosen = chosen_workloads([one for those in by_count.values() for one in those], arguments, console)
    if arguments.list:
        return 0
    plan = Plan(seconds=1.5, limit_bytes=256 << 20) if arguments.quick else Plan(seconds=5.0)
    results = report.Report()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for nodes, workloads in by_count.items():
            wanted = [one for one in workloads if one in chosen]
            if not wanted:
                continue
            host = start(Path(folder) / str(nodes), nodes)
            try:
                for one in wanted:
                    for _ in range(arguments.runs):
                        with failures_recorded(results, one.name):
                            results.add(one.name, "ottla", one.run(host, plan))
            finally:
                host.stop()
    report_results(results, chosen, arguments, console)
    return 0
