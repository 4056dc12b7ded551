"""The time for which clients cannot write after a failure of their leader, beside Apache Kafka.

The clusters have three nodes and a topic of one partition with three replicas, to which a client writes 500
records a second, idempotent and with acks=all. The leader is killed (SIGKILL) and started again, replaced by
an election of the preferred leader (a planned move), paused (SIGSTOP), or cut off from the other nodes and
the client, for which each node has a host of its own (tests.chaos.hosts). The figures are the longest times
without an acknowledgement around each fault, as the client's user sees them.
"""

import os
import signal
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import clients, clusters, report
from benchmarks.choice import chosen_servers, chosen_workloads, report_results
from benchmarks.cluster_workloads import (
    elect_preferred_leaders,
    replicated_topic,
    restart,
    wait_until_in_sync,
)
from benchmarks.clusters import Cluster, Node
from benchmarks.steady_producers import COMMANDS, SteadyProducer, missing_reason, producing
from benchmarks.turns import failures_recorded
from benchmarks.workload import Figures, Plan, Workload
from tests.chaos.hosts import Host, hosts, hosts_unavailable_reason

NODES: Final = 3
RATE: Final = 500
KILLS: Final = 20
PAUSES: Final = 5
LEAST_PAUSES: Final = 3  # with --quick
PAUSE_S: Final = 15.0  # of a leader that is paused or cut off: longer than a broker's session of 9 s
WAIT_LIMIT_S: Final = 60.0


def _leader(cluster: Cluster, topic: str) -> Node:
    (port,) = clients.leader_ports(cluster.bootstrap, topic)
    return next(node for node in cluster.nodes if node.port == port)


def _gap_s(producer: SteadyProducer, fault: Callable[[], None], flow_s: float = 1.0) -> float:
    """Cause a fault; return the longest time without an acknowledgement from then until they flow again."""
    producer.wait_for(producer.quiet_s, WAIT_LIMIT_S)
    began = time.monotonic()
    fault()
    producer.wait_for(flow_s, WAIT_LIMIT_S)
    return producer.longest_gap_s(began)


def _killed(cluster: Cluster, topic: str, producer: SteadyProducer, kills: int) -> list[float]:
    gaps = []
    for _ in range(kills):
        node = _leader(cluster, topic)
        gaps.append(_gap_s(producer, node.kill))
        restart(node)
        wait_until_in_sync(cluster, topic)
    return gaps


def _moved(cluster: Cluster, topic: str, producer: SteadyProducer, kills: int) -> list[float]:
    gaps = []
    for _ in range(kills):
        node = _leader(cluster, topic)
        node.stop()
        producer.wait_for(1.0, WAIT_LIMIT_S)
        restart(node)
        wait_until_in_sync(cluster, topic)
        gaps.append(_gap_s(producer, lambda: elect_preferred_leaders(cluster)))
    return gaps


def _away(
    cluster: Cluster,
    topic: str,
    producer: SteadyProducer,
    kills: int,
    leave: Callable[[Node], None],
    come_back: Callable[[Node], None],
) -> list[float]:
    """Make the leader leave for PAUSE_S and come back, several times; return the longest gaps."""
    gaps = []
    for _ in range(max(LEAST_PAUSES, kills * PAUSES // KILLS)):
        node = _leader(cluster, topic)
        producer.wait_for(producer.quiet_s, WAIT_LIMIT_S)
        began = time.monotonic()
        leave(node)
        try:
            time.sleep(PAUSE_S)
        finally:
            come_back(node)
        producer.wait_for(1.0, WAIT_LIMIT_S)
        gaps.append(producer.longest_gap_s(began))
        wait_until_in_sync(cluster, topic)
    return gaps


def _paused(cluster: Cluster, topic: str, producer: SteadyProducer, kills: int) -> list[float]:
    return _away(
        cluster,
        topic,
        producer,
        kills,
        lambda node: os.kill(node.pid, signal.SIGSTOP),
        lambda node: os.kill(node.pid, signal.SIGCONT),
    )


def _cut(cluster: Cluster, topic: str, producer: SteadyProducer, kills: int) -> list[float]:
    if reason := hosts_unavailable_reason():
        raise RuntimeError(reason)

    def cable(node: Node) -> Host:
        assert node.host is not None
        return node.host

    return _away(
        cluster,
        topic,
        producer,
        kills,
        lambda node: cable(node).isolate(),
        lambda node: cable(node).join(),
    )


FAULTS: Final = {
    "leader killed": _killed,
    "leader moved": _moved,
    "leader paused": _paused,
    "leader cut off": _cut,
}


@dataclass(frozen=True, slots=True)
class _Failover:
    """A workload of one client and one kind of fault."""

    client: str
    fault: str

    def __call__(self, cluster: Cluster, plan: Plan) -> Figures:
        kills = max(1, round(KILLS * plan.seconds / Plan().seconds))
        topic = replicated_topic(cluster, 1)
        with producing(self.client, cluster.bootstrap, topic, RATE) as producer:
            gaps = sorted(FAULTS[self.fault](cluster, topic, producer, kills))
            failures = producer.failures
        clients.delete_topic(cluster.bootstrap, topic)
        return {
            "p50 ms": 1000 * gaps[len(gaps) // 2],
            "p99 ms": 1000 * gaps[min(len(gaps) - 1, int(len(gaps) * 0.99))],
            "max ms": 1000 * gaps[-1],
            "failed writes": float(failures),
        }


WORKLOADS: Final[Sequence[Workload[Cluster]]] = tuple(
    Workload(name=f"failover: {client}, {fault}", run=_Failover(client, fault), goals={"p99 ms": 1.0})
    for fault in FAULTS
    for client in COMMANDS
)


def main(arguments: Namespace, console: Console) -> int:
    """Measure the workloads whose names contain the given words, one cluster after the other."""
    chosen = chosen_workloads(WORKLOADS, arguments, console)
    if arguments.list:
        return 0
    plan = Plan(seconds=1.0) if arguments.quick else Plan()
    results = report.Report()
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        nullcontext([]) if hosts_unavailable_reason() else hosts(NODES) as machines,
    ):
        for name in chosen_servers(arguments, console):
            cluster = clusters.make(name, Path(folder) / name, NODES, machines)
            try:
                cluster.start()
                for one in chosen:
                    with failures_recorded(results, f"{one.name} of {name}"):
                        _measure(one, name, cluster, plan, results)
            finally:
                cluster.stop()
    report_results(results, chosen, arguments, console)
    return 0


def _measure(one: Workload[Cluster], name: str, cluster: Cluster, plan: Plan, results: report.Report) -> None:
    assert isinstance(one.run, _Failover)
    if reason := missing_reason(one.run.client):
        raise RuntimeError(reason)
    results.add(one.name, name, one.run(cluster, plan))
