"""Share groups beside Apache Kafka's, on one node or a cluster, with librdkafka's members for both.

A topic is filled, then members take all its records; the rate counts from the first record that is received.
CPU is the servers' from the start of the members, joining included. The CPU of the members is reported too:
if both together take all cores of the machine, the members limit the rate.
"""

import struct
import tempfile
import threading
import time
import uuid
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from rich.console import Console

from benchmarks import clients, clusters, report, servers
from benchmarks.choice import chosen_servers, chosen_workloads, report_results
from benchmarks.share_workers import BATCHES, SINGLY, Workers, consumer_of, poll_records
from benchmarks.turns import alone, failures_recorded
from benchmarks.workload import Figures, Plan, Workload

Target: TypeAlias = servers.Server | clusters.Cluster
RECORD_BYTES: Final = 100
RECORDS_PER_SECOND: Final = 400_000  # in the topic, for each second of a run's plan
RECORDS_PER_SECOND_SINGLY: Final = 50_000
RECORDS_BEHIND_DELAYED: Final = 20_000
PARTITIONS: Final = 4
MANY_WORKERS: Final = 10
PROCESSES: Final = 2  # for the members of a group
RATE: Final = 1_000
LATENCY_SECONDS: Final = 5.0
WARM_UP_SECONDS: Final = 2.0
JOIN_SECONDS: Final = 60.0
WAIT_LIMIT_S: Final = 240.0
DELAYED: Final = 1_000_000
DELAY_MS: Final = 24 * 3_600_000
GOALS: Final = {"records/s": 2.0, "CPU us/record": 0.5}
WITHOUT_KAFKA: Final = "delayed"  # marks rows of features that Apache Kafka does not have


def _group(bootstrap: str) -> str:
    """Return a new share group that starts at the earliest offset."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, **clients.QUIET})
    admin.incremental_alter_configs([resource])[resource].result(clients.CALL_TIMEOUT_S)
    return name


def _replicas(target: Target) -> int:
    return 1 if isinstance(target, servers.Server) else len(target.nodes)


def _filled(target: Target, partitions: int, records: int, settings: dict[str, str] | None = None) -> str:
    """Create a topic with this many records; return its name."""
    topic = clients.create_topic(target.bootstrap, partitions, settings, replicas=_replicas(target))
    _fill(target.bootstrap, topic, partitions, records)
    return topic


def _fill(bootstrap: str, topic: str, partitions: int, records: int, headers: Any = None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", **clients.QUIET})
    payload = b"x" * RECORD_BYTES
    for number in range(records):
        while True:
            try:
                producer.produce(topic, payload, partition=number % partitions, headers=headers)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(clients.CALL_TIMEOUT_S):
        raise RuntimeError("records were not delivered")


def _consume_all(target: Target, topic: str, records: int, mode: str, workers: int) -> Figures:
    """Let `workers` members take all records of a topic; return the figures."""
    group, members = _group(target.bootstrap), Workers()
    before = target.cpu_seconds()
    try:
        for number in range(min(PROCESSES, workers)):
            share = workers // PROCESSES + (number < workers % PROCESSES)
            members.start(target.bootstrap, topic, group, mode, share)
        members.wait(records, WAIT_LIMIT_S)
        cpu_s, members_cpu_s = target.cpu_seconds() - before, members.cpu_seconds()
    finally:
        members.stop()
    return {
        "records/s": members.rate(),
        "CPU us/record": cpu_s * 1e6 / records,
        "members' CPU us/record": members_cpu_s * 1e6 / records,
    }


def _consume(mode: str, per_second: int, partitions: int, workers: int) -> Any:
    def run(target: Target, plan: Plan) -> Figures:
        records = int(per_second * plan.seconds)
        topic = _filled(target, partitions, records)
        figures = _consume_all(target, topic, records, mode, workers)
        clients.delete_topic(target.bootstrap, topic)
        return figures

    return run


def _latency(target: Target, plan: Plan) -> Figures:
    """Measure the milliseconds from produce() to the poll() of a member that returns the record."""
    topic = clients.create_topic(target.bootstrap, 1, replicas=_replicas(target))
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 0, **clients.QUIET})
    member = consumer_of(target.bootstrap, topic, _group(target.bootstrap), BATCHES)
    taken: list[float] = []
    is_over, has_joined = threading.Event(), threading.Event()

    def read() -> None:
        while not is_over.is_set():
            for message in poll_records(member):
                has_joined.set()
                sent_s = struct.unpack_from(">d", message.value())[0]
                taken.append((time.perf_counter() - sent_s) * 1000)
        member.close()

    def send() -> None:
        producer.produce(topic, struct.pack(">d", time.perf_counter()) + b"x" * 92, partition=0)
        producer.poll(0)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        send()
        if not has_joined.wait(JOIN_SECONDS):
            raise RuntimeError(f"the member received no record within {JOIN_SECONDS:g} s")
        total = int(RATE * (WARM_UP_SECONDS + LATENCY_SECONDS))
        before, began = target.cpu_seconds(), time.perf_counter()
        for number in range(total):
            wait = began + number / RATE - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            send()
        producer.flush(clients.CALL_TIMEOUT_S)
        deadline = time.monotonic() + JOIN_SECONDS
        while len(taken) <= total and time.monotonic() < deadline:
            time.sleep(0.01)
        busy = (target.cpu_seconds() - before) / (time.perf_counter() - began)
    finally:
        is_over.set()
        reader.join()
    if len(taken) <= total:
        raise RuntimeError(f"only {len(taken)} of {total} records came back")
    clients.delete_topic(target.bootstrap, topic)
    measured = sorted(taken[int(RATE * WARM_UP_SECONDS) :])
    return {
        "p50 ms": measured[len(measured) // 2],
        "p99 ms": measured[int(len(measured) * 0.99)],
        "CPU s/s": busy,
    }


def _behind_delayed(target: Target, plan: Plan) -> Figures:
    """Measure the delivery of records that are due behind a million that are not, in one partition."""
    settings = {
        "ottla.delivery.delay.enable": "true",
        "ottla.delivery.delay.max.records": str(DELAYED),
    }
    topic = clients.create_topic(target.bootstrap, 1, settings, replicas=_replicas(target))
    _fill(target.bootstrap, topic, 1, DELAYED, [("ottla.deliver.after.ms", str(DELAY_MS).encode())])
    records = int(RECORDS_BEHIND_DELAYED * plan.seconds)
    _fill(target.bootstrap, topic, 1, records)
    memory = target.rss_mb()
    figures = _consume_all(target, topic, records, BATCHES, PROCESSES)
    figures["MB RSS more"] = max(0.0, target.rss_mb() - memory)
    clients.delete_topic(target.bootstrap, topic)
    return figures


WORKLOADS: Final[Sequence[Workload[Any]]] = (
    Workload(
        name="shares: accepted in batches",
        run=_consume(BATCHES, RECORDS_PER_SECOND, PARTITIONS, PROCESSES),
        goals=GOALS,
    ),
    Workload(
        name="shares: acknowledged singly",
        run=_consume(SINGLY, RECORDS_PER_SECOND_SINGLY, PARTITIONS, PROCESSES),
        goals=GOALS,
    ),
    Workload(
        name="shares: ten workers on one partition",
        run=_consume(BATCHES, RECORDS_PER_SECOND, 1, MANY_WORKERS),
        goals=GOALS,
    ),
    Workload(name=f"shares: from send to receipt, {RATE:,} records/s", run=_latency, goals={"p99 ms": 1.0}),
    Workload(name=f"shares: behind a million {WITHOUT_KAFKA} records", run=_behind_delayed),
)


def _start(names: Sequence[str], folder: Path, nodes: int) -> dict[str, Target]:
    running: dict[str, Target] = {}
    for name in names:
        if not nodes:
            running[name] = servers.start(name, folder / name)
            continue
        cluster = clusters.make(name, folder / name, nodes)
        running[name] = cluster
        cluster.start()
    return running


def _measure(
    chosen: Sequence[Workload[Any]],
    running: Mapping[str, Target],
    plan: Plan,
    runs: int,
    results: report.Report,
) -> None:
    for one in chosen:
        for _ in range(runs):
            for name, target in running.items():
                if WITHOUT_KAFKA in one.name and name != "ottla":
                    continue
                with alone(name, running), failures_recorded(results, f"{one.name} of {name}"):
                    results.add(one.name, name, one.run(target, plan))


def main(arguments: Namespace, console: Console) -> int:
    """Measure the workloads whose names contain the given words, each `--runs` times in turns."""
    chosen = chosen_workloads(WORKLOADS, arguments, console)
    if arguments.list:
        return 0
    names = chosen_servers(arguments, console)
    plan = Plan(seconds=1.0, limit_bytes=256 << 20) if arguments.quick else Plan()
    results = report.Report()
    running: dict[str, Target] = {}
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        try:
            running = _start(names, Path(folder), arguments.nodes)
            warm_up = WORKLOADS[0]
            for name, target in running.items():  # the JVM compiles what runs often
                with alone(name, running), failures_recorded(results, f"warm-up of {name}"):
                    warm_up.run(target, Plan(seconds=1.0))
            _measure(chosen, running, plan, arguments.runs, results)
        finally:
            for target in running.values():
                target.stop()
    report_results(results, chosen, arguments, console)
    return 0
