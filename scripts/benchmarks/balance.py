"""A cluster of three nodes that grows to five while it is written to and read: `scripts/bench balance`.

A topic with three replicas is filled. Then a steady producer (librdkafka, idempotent, acks=all) writes
numbered records and a consumer reads them, two nodes join, and the controller is asked to balance the
cluster. Samples of the replicas, bytes and leaders of each node are taken all the time. Lost and duplicate
records are counted.
"""

import asyncio
import struct
import tempfile
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console

from benchmarks import clients, clusters, report
from benchmarks.choice import report_results
from benchmarks.clusters import Cluster
from benchmarks.workload import Figures
from ottla.node.client import balance
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import SET, ConfigChange, change_config, config_of_all_brokers
from ottla.node.client.log_dirs import describe_log_dirs
from ottla.node.client.topic_admin import describe_topics
from ottla.node.settings.balance_settings import MAX_RATE

NODES: Final = 5
FIRST: Final = 3
PARTITIONS: Final = 24
REPLICAS: Final = 3
FILLED_BYTES: Final = 768 << 20  # of all partitions, once
RECORD_BYTES: Final = 1_000
RATE: Final = 1_000  # records a second
COPIED_BYTES_PER_SECOND: Final = 8 << 20  # that a node may copy, so that a balance takes a minute or so
SAMPLE_S: Final = 2.0
QUIET_S: Final = 20.0  # before the nodes join, before the balance, and after it
WAIT_LIMIT_S: Final = 900.0
TIMEOUT_S: Final = 60.0
BEFORE, MOVING, AFTER = "growth: three nodes", "growth: replicas move to five", "growth: five nodes"
_NUMBER: Final = struct.Struct(">Q")


class Writer:
    """Writes numbered records at a steady rate, and keeps the latency of each."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.taken: list[tuple[float, float]] = []  # time of an acknowledgement, and latency in ms
        self.failures = 0
        self.sent = 0
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", **clients.QUIET}
        )

    def run(self, ends: threading.Event) -> None:
        began = time.monotonic()
        while not ends.is_set():
            self._send()
            while (left := began + self.sent / RATE - time.monotonic()) > 0 and not ends.is_set():
                self._producer.poll(left)
        self._producer.flush(TIMEOUT_S)

    def _send(self) -> None:
        began = time.monotonic()

        def report_delivery(error: Any, _: Any) -> None:
            now = time.monotonic()
            self.failures += error is not None
            self.taken.append((now, 1_000 * (now - began)))

        value = _NUMBER.pack(self.sent).ljust(RECORD_BYTES, b".")
        self._producer.produce(
            self._topic, value, partition=self.sent % PARTITIONS, on_delivery=report_delivery
        )
        self.sent += 1


class Reader:
    """Counts how often each of the numbered records is received."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: Counter[int] = Counter()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "growth", **clients.QUIET})
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        for one in places:
            _, one.offset = self._consumer.get_watermark_offsets(one, TIMEOUT_S)
        self._consumer.assign(places)

    def run(self, ends: threading.Event) -> None:
        while not ends.is_set():
            for message in self._consumer.consume(clients.CONSUME_AT_ONCE, 0.2):
                if message.error() is None:
                    self.seen[_NUMBER.unpack_from(message.value())[0]] += 1
        self._consumer.close()


class Sample(NamedTuple):
    """The replicas, bytes and leaders of each node at one time, by node id."""

    at: float
    replicas: Counter[int]
    sizes: Counter[int]  # in bytes
    leaders: Counter[int]


class Observer:
    """Takes a sample of all nodes every SAMPLE_S."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]]) -> None:
        self.samples: list[Sample] = []
        self._bootstrap = bootstrap

    def run(self, ends: threading.Event) -> None:
        asyncio.run(self._run(ends))

    async def _run(self, ends: threading.Event) -> None:
        async with Client(self._bootstrap, timeout_s=TIMEOUT_S) as client:
            while not ends.is_set():
                self.samples.append(await _sample(client.renewed()))
                await asyncio.sleep(SAMPLE_S)


async def _sample(client: Client) -> Sample:
    sample = Sample(time.monotonic(), Counter(), Counter(), Counter())
    for topic in await describe_topics(client, None):
        for one in topic.partitions:
            sample.replicas.update(one.replica_nodes)
            sample.leaders[one.leader_id] += 1
    for broker in await describe_log_dirs(client):
        for log_dir in broker.log_dirs:
            sample.sizes[broker.broker_id] += sum(one.size_bytes for one in log_dir.replicas)
    return sample


@contextmanager
def _in_thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread while the block runs."""
    ends = threading.Event()
    thread = threading.Thread(target=work, args=(ends,))
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _wait(seconds: float, holds: Callable[[], bool], condition: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds:g} s: {condition}")
        time.sleep(0.2)


async def _balance(bootstrap: Sequence[tuple[str, int]]) -> None:
    """Ask the controller to balance the cluster, and wait until nothing is left to move."""
    async with Client(bootstrap, timeout_s=TIMEOUT_S) as client:
        await balance.begin(client)
        deadline = time.monotonic() + WAIT_LIMIT_S
        await asyncio.sleep(SAMPLE_S)
        while (now := await balance.status(client.renewed())).settings.is_requested or now.moving:
            if time.monotonic() > deadline:
                raise RuntimeError("the balance did not end")
            await asyncio.sleep(1)


async def _throttle(bootstrap: Sequence[tuple[str, int]]) -> None:
    async with Client(bootstrap, timeout_s=TIMEOUT_S) as client:
        change = ConfigChange(MAX_RATE, SET, str(COPIED_BYTES_PER_SECOND))
        await change_config(client, config_of_all_brokers(), [change])


def _latencies(writer: Writer, begin: float, end: float) -> list[float]:
    return sorted(ms for at, ms in writer.taken if begin <= at < end)


def _figures(writer: Writer, samples: Sequence[Sample], begin: float, end: float) -> Figures:
    """Return the rate and latency of writes between two times, and the shares of the nodes at the end."""
    found = _latencies(writer, begin, end)
    last = max((one for one in samples if one.at < end), key=lambda one: one.at)
    figures: Figures = {"records/s": len(found) / (end - begin)}
    figures |= {f"p{share} ms": found[int((len(found) - 1) * share / 100)] for share in (50, 99)}
    figures["max ms"] = found[-1]
    up = sorted(last.sizes)
    for name, counts, unit in (
        ("replicas", last.replicas, 1),
        ("MB", last.sizes, 1_000_000),
        ("leaders", last.leaders, 1),
    ):
        values = [counts[one] / unit for one in up]
        figures |= {f"least {name} of a node": min(values), f"most {name} of a node": max(values)}
    return figures


def _series(writer: Writer, samples: Sequence[Sample], began: float) -> dict[str, object]:
    """Return the samples as columns, with the latency of the records since the sample before."""
    latencies = [_latencies(writer, before.at, after.at) for before, after in pairwise(samples)]
    shown = samples[1:]
    return {
        "s": [round(one.at - began, 1) for one in shown],
        "p50 ms": [round(one[len(one) // 2], 2) if one else None for one in latencies],
        "p99 ms": [round(one[int((len(one) - 1) * 0.99)], 2) if one else None for one in latencies],
        "replicas": {node: [one.replicas[node] for one in shown] for node in range(NODES)},
        "MB": {node: [round(one.sizes[node] / 1e6) for one in shown] for node in range(NODES)},
        "leaders": {node: [one.leaders[node] for one in shown] for node in range(NODES)},
    }


def main(arguments: Namespace, console: Console) -> int:
    """Grow a cluster once; there is no other server to compare it with."""
    if arguments.list:
        console.print(BEFORE, MOVING, AFTER, sep="\n", markup=False)
        return 0
    share = 8 if arguments.quick else 1
    results = report.Report()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        cluster = _with_three_voters(clusters.make("ottla", Path(folder) / "ottla", NODES))
        try:
            series = _grow(cluster, share, results)
        finally:
            cluster.stop()
    report_results(results, [], arguments, console, series)
    return 0


def _with_three_voters(cluster: Cluster) -> Cluster:
    """Make the first nodes the only voters, so that the others can join later."""
    voters = ",".join(f"{one.node_id}@{one.address}:{one.port + NODES}" for one in cluster.nodes[:FIRST])
    for node in cluster.nodes:
        overrides = [f"controller.quorum.voters={voters}"]
        if node.node_id >= FIRST:
            overrides += ["process.roles=broker", f"listeners=PLAINTEXT://{node.address}:{node.port}"]
        node.command += [part for one in overrides for part in ("--override", one)]
    return cluster


def _grow(cluster: Cluster, share: int, results: report.Report) -> dict[str, object]:
    """Measure the growth of a cluster, with 1/`share` of the data and the pauses; return the series."""
    quiet_s, first = QUIET_S / share, Cluster(name=cluster.name, nodes=cluster.nodes[:FIRST])
    addresses = [(node.address, node.port) for node in first.nodes]
    first.start()
    topic = clients.create_topic(first.bootstrap, PARTITIONS, {"min.insync.replicas": "2"}, replicas=REPLICAS)
    clients.produce(
        first.bootstrap,
        topic,
        partitions=PARTITIONS,
        record_bytes=RECORD_BYTES,
        seconds=WAIT_LIMIT_S,
        limit_bytes=FILLED_BYTES // share,
        settings={"acks": "all", "enable.idempotence": True},
    )
    asyncio.run(_throttle(addresses))
    writer, reader, observer = (
        Writer(first.bootstrap, topic),
        Reader(first.bootstrap, topic),
        Observer(addresses),
    )
    with _in_thread(reader.run), _in_thread(observer.run):
        with _in_thread(writer.run):
            _wait(TIMEOUT_S, lambda: bool(reader.seen), "the first record is read")
            began = time.monotonic()
            time.sleep(quiet_s)
            joins = time.monotonic()
            for node in cluster.nodes[FIRST:]:
                node.spawn()
            for node in cluster.nodes[FIRST:]:
                node.wait_until_ready()
            time.sleep(quiet_s)
            moves = time.monotonic()
            asyncio.run(_balance(addresses))
            even = time.monotonic()
            time.sleep(quiet_s)
            ends = time.monotonic()
        lost = _wait_for_all(writer, reader)
        time.sleep(SAMPLE_S)
    samples = observer.samples
    results.add(BEFORE, "ottla", _figures(writer, samples, began, joins))
    moving = _figures(writer, samples, moves, even)
    results.add(MOVING, "ottla", {"seconds": even - moves, **moving})
    results.add(AFTER, "ottla", _figures(writer, samples, even, ends))
    twice = sum(count > 1 for count in reader.seen.values())
    results.add(
        "growth: records",
        "ottla",
        {
            "written": float(writer.sent),
            "lost": float(lost),
            "twice": float(twice),
            "failed writes": float(writer.failures),
        },
    )
    marks = {"two nodes join": joins, "the balance begins": moves, "nothing is left to move": even}
    return {
        "series": _series(writer, [one for one in samples if one.at > began - SAMPLE_S], began),
        "marks": {name: round(at - began, 1) for name, at in marks.items()},
    }


def _wait_for_all(writer: Writer, reader: Reader) -> int:
    """Wait until all written records are read; return the number that is missing after TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(reader.seen) < writer.sent and time.monotonic() < deadline:
        time.sleep(0.2)
    return writer.sent - len(reader.seen)
