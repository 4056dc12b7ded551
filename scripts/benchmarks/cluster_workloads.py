"""Workloads of a cluster of several nodes: replicated writes, and failures as clients see them.

Every topic has a replica on each node and min.insync.replicas=2; every write has acks=all. Both clusters
share all cores of the machine with the load generator.
"""

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from confluent_kafka import ElectionType, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from benchmarks import clients, frames, load, transactions
from benchmarks.clusters import Cluster, Node
from benchmarks.workload import Figures, Plan, Workload
from benchmarks.workloads import (
    KILOBYTE_BATCH,
    LATENCY_RATE,
    LATENCY_SECONDS,
    MB,
    SLICES,
    SMALL_CONNECTIONS,
)

PARTITIONS = 6
MEMORY_AFTER_BYTES = 512 << 20
KILLS = 5
# Retries at this rate find the new leader soon; equal for both servers.
FAST_RETRIES: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.timeout.ms": 10_000,
    "delivery.timeout.ms": 60_000,
}
RECOVERY_TIMEOUT_S = 60.0
SETTLE_TIMEOUT_S = 90.0


def wait_until_in_sync(cluster: Cluster, topic: str) -> None:
    """Wait until every replica is in sync again."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **clients.QUIET})
        partitions = admin.list_topics(topic, clients.CALL_TIMEOUT_S).topics[topic].partitions.values()
        if all(len(one.isrs) == len(cluster.nodes) and one.leader >= 0 for one in partitions):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the replicas are not in sync after {SETTLE_TIMEOUT_S:g} s")


def replicated_topic(cluster: Cluster, partitions: int = PARTITIONS) -> str:
    topic = clients.create_topic(
        cluster.bootstrap, partitions, {"min.insync.replicas": "2"}, replicas=len(cluster.nodes)
    )
    wait_until_in_sync(cluster, topic)
    return topic


def replicated_produce(cluster: Cluster, plan: Plan) -> Figures:
    """Produce 1 KB records in 64 KB batches."""
    topic = replicated_topic(cluster)
    batch = frames.build_batch(1000, KILOBYTE_BATCH, timestamp_ms=int(time.time() * 1000))
    before = cluster.cpu_seconds()
    done = load.produce(
        clients.leader_ports(cluster.bootstrap, topic),
        topic,
        batch,
        acks=-1,
        connections=PARTITIONS,
        seconds=plan.seconds,
        limit_bytes=plan.limit_bytes,
    )
    cpu = cluster.cpu_seconds() - before
    clients.delete_topic(cluster.bootstrap, topic)
    return {"MB/s": done.payload_bytes / MB / done.seconds, "CPU s/GB": cpu / (done.payload_bytes / 1e9)}


def replicated_small_requests(cluster: Cluster, plan: Plan) -> Figures:
    topic = replicated_topic(cluster)
    ports = clients.leader_ports(cluster.bootstrap, topic)
    before = cluster.cpu_seconds()
    done = load.small_requests(
        ports, topic, PARTITIONS, connections=SMALL_CONNECTIONS, seconds=plan.seconds, acks=-1
    )
    cpu = cluster.cpu_seconds() - before
    clients.delete_topic(cluster.bootstrap, topic)
    return {"requests/s": done.requests / done.seconds, "CPU us/request": cpu * 1e6 / done.requests}


def warm_up(cluster: Cluster) -> None:
    """Send small requests until their rate stops rising."""
    load.warm_up(lambda: replicated_small_requests(cluster, Plan(seconds=1.0))["requests/s"])


def replicated_latency(rate: int) -> Callable[[Cluster, Plan], Figures]:
    """Return a workload that times single records from produce() to poll(), at `rate` a second."""

    def run(cluster: Cluster, plan: Plan) -> Figures:
        topic = replicated_topic(cluster, 1)
        before = cluster.cpu_seconds()
        taken = clients.end_to_end_ms(
            cluster.bootstrap, topic, rate=rate, seconds=LATENCY_SECONDS, acks="all"
        )
        cpu = cluster.cpu_seconds() - before
        clients.delete_topic(cluster.bootstrap, topic)
        percentiles = {f"p{share} ms": taken[int((len(taken) - 1) * share / 100)] for share in (50, 99, 99.9)}
        return {**percentiles, "CPU us/record": cpu * 1e6 / len(taken)}

    return run


def replicated_alone(in_flight: int) -> Callable[[Cluster, Plan], Figures]:
    """Return a workload of one-record requests on one connection to one partition, without any batching."""

    def run(cluster: Cluster, plan: Plan) -> Figures:
        topic = replicated_topic(cluster, 1)
        ports, before = clients.leader_ports(cluster.bootstrap, topic), cluster.cpu_seconds()
        done = load.small_requests(
            ports, topic, 1, connections=1, seconds=plan.seconds, in_flight=in_flight, acks=-1
        )
        cpu = cluster.cpu_seconds() - before
        clients.delete_topic(cluster.bootstrap, topic)
        return {"requests/s": done.requests / done.seconds, "CPU us/request": cpu * 1e6 / done.requests}

    return run


class Stream:
    """A producer that writes to every partition at a steady rate, and the times of its acknowledgements."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, rate: int = 200) -> None:
        self.acknowledged_s: list[list[float]] = [[] for _ in range(partitions)]
        self.failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **FAST_RETRIES, **clients.QUIET})
        self._topic, self._rate = topic, rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._stop.is_set():
            for partition, times in enumerate(self.acknowledged_s):

                def delivered(error: Any, _: Any, times: list[float] = times) -> None:
                    if error is None:
                        times.append(time.monotonic())
                    else:
                        self.failures.append(str(error))

                self._producer.produce(self._topic, b"x" * 100, partition=partition, on_delivery=delivered)
            number += 1
            while (wait := began + number / self._rate - time.monotonic()) > 0:
                self._producer.poll(min(wait, 0.005))
            self._producer.poll(0)

    def first_after(self, since: float, partitions: list[int]) -> float:
        """Return the seconds from `since` until each of `partitions` has acknowledged a record again."""
        deadline = time.monotonic() + RECOVERY_TIMEOUT_S
        while time.monotonic() < deadline:
            firsts = [
                next((at for at in reversed(self.acknowledged_s[one]) if at > since), None)
                for one in partitions
            ]
            if all(at is not None for at in firsts):
                return max(
                    next(at for at in self.acknowledged_s[one] if at > since) - since for one in partitions
                )
            time.sleep(0.005)
        raise RuntimeError(f"nothing was acknowledged for {RECOVERY_TIMEOUT_S:.0f} s")

    def longest_gap_s(self) -> float:
        """Return the longest time for which a partition acknowledged nothing."""
        return max(after - before for times in self.acknowledged_s for before, after in pairwise(times))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._producer.flush(clients.CALL_TIMEOUT_S):
            self.failures.append("some records were never acknowledged")


def leader_killed(cluster: Cluster, plan: Plan) -> Figures:
    """Kill a leader several times; measure the time until its partitions accept writes again."""
    topic = replicated_topic(cluster)
    stream = Stream(cluster, topic, PARTITIONS)
    taken: list[float] = []
    try:
        for turn in range(KILLS):
            time.sleep(1.0)
            node = cluster.nodes[turn % len(cluster.nodes)]
            ports = clients.leader_ports(cluster.bootstrap, topic)
            affected = [index for index, port in enumerate(ports) if port == node.port]
            # Records in flight may still be acknowledged at the moment of the kill.
            node.kill()
            taken.append(stream.first_after(time.monotonic(), affected))
            restart(node)
            wait_until_in_sync(cluster, topic)
            elect_preferred_leaders(cluster)
    finally:
        stream.stop()
    clients.delete_topic(cluster.bootstrap, topic)
    return {"until writable s": max(taken), "median until writable s": sorted(taken)[len(taken) // 2]}


def rolling_restart(cluster: Cluster, plan: Plan) -> Figures:
    """Restart each node in turn with SIGTERM, the next once all replicas are in sync again."""
    topic = replicated_topic(cluster)
    stream = Stream(cluster, topic, PARTITIONS)
    try:
        time.sleep(1.0)
        for node in cluster.nodes:
            node.stop()
            restart(node)
            wait_until_in_sync(cluster, topic)
        time.sleep(0.5)
    finally:
        stream.stop()
    clients.delete_topic(cluster.bootstrap, topic)
    return {"longest gap ms": 1000 * stream.longest_gap_s(), "failed writes": float(len(stream.failures))}


def restart(node: Node) -> None:
    node.spawn()
    node.wait_until_ready()


def elect_preferred_leaders(cluster: Cluster) -> None:
    """Elect the preferred leaders."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **clients.QUIET})
    try:
        admin.elect_leaders(ElectionType.PREFERRED).result(clients.CALL_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].name() != "ELECTION_NOT_NEEDED":
            raise


def memory(cluster: Cluster, plan: Plan) -> Figures:
    """Measure the resident memory of all nodes after half a gigabyte was written to each."""
    topic = replicated_topic(cluster)
    batch = frames.build_batch(1000, KILOBYTE_BATCH, timestamp_ms=int(time.time() * 1000))
    load.produce(
        clients.leader_ports(cluster.bootstrap, topic),
        topic,
        batch,
        acks=-1,
        connections=PARTITIONS,
        seconds=120,
        limit_bytes=MEMORY_AFTER_BYTES,
    )
    figures = {"MB RSS": cluster.rss_mb()}
    clients.delete_topic(cluster.bootstrap, topic)
    return figures


CLUSTER_WORKLOADS: list[Workload[Cluster]] = [
    Workload(
        name="replicated produce 1 KB, acks=all",
        run=replicated_produce,
        goals={"MB/s": 3.0, "CPU s/GB": 0.5},
        slices=SLICES,
    ),
    Workload(
        name="replicated small requests",
        run=replicated_small_requests,
        goals={"requests/s": 4.0},
        slices=SLICES,
        prepare=warm_up,
    ),
    *(
        Workload(
            name=f"replicated requests, one connection, {in_flight} in flight",
            run=replicated_alone(in_flight),
            slices=SLICES,
            prepare=warm_up,
        )
        for in_flight in (1, 5)
    ),
    *(
        Workload(
            name=f"replicated end to end, {rate} records/s",
            run=replicated_latency(rate),
            goals={"p99 ms": 1 / 4},
            slices=SLICES,
            prepare=warm_up,
        )
        for rate in (200, LATENCY_RATE)
    ),
    *(Workload(name=name, run=run, goals=goals) for name, run, goals in transactions.ROWS),
    Workload(name="memory of all nodes", run=memory),
    Workload(name="leader killed", run=leader_killed),
    Workload(name="rolling restart", run=rolling_restart),
]
