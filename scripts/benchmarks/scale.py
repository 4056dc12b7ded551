"""Measures the metadata of many nodes: memory, loading, changes, elections, heartbeats, Metadata responses.

Each size is measured in a process of its own, with only the image and the controller: no sockets, no disk, no
log. The figures are CPU time of the code; a cluster adds its network and disks.
"""

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from rich.console import Console

from benchmarks import report
from benchmarks.choice import chosen_workloads, report_results
from benchmarks.program_environment import program_environment
from benchmarks.servers import rss_mb_of
from benchmarks.workload import Figures, Plan, Workload
from ottla.logstore.words.schema_compiler import encoder
from ottla.metadata_raft.cluster_control import fence_records
from ottla.metadata_raft.commands import BrokerHeartbeat
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.delta import MetadataDelta, replay_batch
from ottla.metadata_raft.due_elections import CHECKED_AT_ONCE, DueElections
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.record_codec import MetadataBatch, encode_batch
from ottla.metadata_raft.records import (
    BrokerEndpoint,
    BrokerFeature,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.metadata_raft.snapshot import encode_snapshot, read_snapshot
from ottla.node.kafka_api.metadata import View, topic_response
from ottla.node.metadata.metadata_feed import MetadataFeed
from ottla.node.metadata.metadata_observer import FETCH_BYTES
from ottla.node.net.answers import Delayed
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest, VoterAddress
from ottla.node.wire.messages.metadata import MetadataResponse

# Nodes and partitions; the last is ten times the most that a controller allows (MAX_PARTITIONS).
SIZES: Final[Sequence[tuple[int, int]]] = (
    (3, 1_000),
    (10, 10_000),
    (30, 100_000),
    (100, 200_000),
    (100, 1_000_000),
)
REPLICAS: Final = 3
VOTERS: Final = 3
PARTITIONS_OF_A_TOPIC: Final = 100
MOST_LED: Final = 30_000  # by the node that fails
CHANGES: Final = 200
TIMEOUT_S: Final = 900
METADATA_VERSION: Final = 13
T = TypeVar("T")
EMPTY: Final = MetadataImage(cluster_id=b"cluster-id-16-by")


def _name(nodes: int, partitions: int) -> str:
    return f"{nodes} nodes, {partitions:,} partitions"


@dataclass(frozen=True, slots=True)
class _Scale:
    """A size that is measured in a process of its own."""

    nodes: int
    partitions: int

    def __call__(self, _: object, plan: Plan) -> Figures:
        del plan
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.scale", str(self.nodes), str(self.partitions)],
            env=program_environment(),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        figures: Figures = json.loads(done.stdout)
        return figures


WORKLOADS: Final[Sequence[Workload[object]]] = tuple(
    Workload(name=_name(*size), run=_Scale(*size), goals={}) for size in SIZES
)


def main(arguments: Namespace, console: Console) -> int:
    """Measure each size once; there is no other server to compare it with."""
    chosen = chosen_workloads(WORKLOADS, arguments, console)
    if arguments.list:
        return 0
    results = report.Report()
    for one in chosen:
        results.add(one.name, "ottla", one.run(None, Plan()))
    report_results(results, chosen, arguments, console)
    return 0


# ---- one size ----------------------------------------------------------------------------------------------


def _records(nodes: int, partitions: int) -> Iterator[MetadataRecord]:
    """Yield the records of a cluster whose first node leads up to MOST_LED partitions, at most half."""
    for node in range(nodes):
        yield RegisterBrokerRecord(
            broker_id=node,
            incarnation_id=bytes(15) + bytes([node]),
            broker_epoch=node,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host=f"node-{node}.example.com", port=9092)],
            features=[
                BrokerFeature(name="metadata.version", min_supported_version=1, max_supported_version=30)
            ],
            rack=f"rack-{node % 3}",
            fenced=False,
            log_dirs=[_directory(node)],
        )
    led_by_first = min(MOST_LED, partitions // 2)
    for number in range(partitions):
        topic, index = divmod(number, PARTITIONS_OF_A_TOPIC)
        topic_id = topic.to_bytes(16)
        if not index:
            yield TopicRecord(name=f"team-{topic % 50}.events-{topic}", topic_id=topic_id)
        first = 0 if number < led_by_first else 1 + number % (nodes - 1)
        step = 1 + number // nodes % max(1, nodes // REPLICAS)
        replicas = [(first + place * step) % nodes for place in range(REPLICAS)]
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=first,
            leader_epoch=0,
            partition_epoch=0,
            directories=[_directory(node) for node in replicas],
        )


def _directory(node: int) -> bytes:
    return f"directory {node}".encode().ljust(16, b".")


def _rss_mb() -> float:
    gc.collect()
    return rss_mb_of(os.getpid())


def _timed(job: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a job, and the seconds of CPU that it took."""
    began = time.process_time()
    result = job()
    return result, time.process_time() - began


def _seconds(job: Callable[[], object]) -> float:
    return _timed(job)[1]


def _measure(nodes: int, partitions: int) -> Figures:
    before_mb = _rss_mb()
    delta = MetadataDelta(EMPTY)
    for record in _records(nodes, partitions):
        delta.replay(record)
    image = delta.apply(version=partitions + nodes, epoch=1, timestamp_ms=0)
    del delta
    found: Figures = {"image MB": _rss_mb() - before_mb}
    found |= (
        _measure_snapshot(image)
        | _measure_changes(image)
        | _measure_failure(image)
        | _measure_controller(image)
    )
    return found | asyncio.run(_measure_feed(image)) | _measure_answers(image)


def _measure_snapshot(image: MetadataImage) -> Figures:
    content, written_s = _timed(lambda: b"".join(encode_snapshot(image)))
    load_s = _seconds(lambda: read_snapshot(content, empty=EMPTY, version=image.version, epoch=1))
    return {"snapshot MB": len(content) / 1e6, "snapshot written s": written_s, "snapshot loaded s": load_s}


def _measure_changes(image: MetadataImage) -> Figures:
    """Measure changes of one partition at a time, as when a replica falls behind."""
    times = []
    topics = list(image.topics.by_name.values())
    for number in range(CHANGES):
        topic = topics[number % len(topics)]
        partition = topic.partitions[0]
        record = PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, isr=partition.replicas[:2])
        batch = MetadataBatch(image.version + 1, 1, 0, [record])
        times.append(_seconds(lambda batch=batch: replay_batch(image, batch)))  # type: ignore[misc]
    return {"one change ms": 1000 * statistics.median(times)}


def _measure_failure(image: MetadataImage) -> Figures:
    """Measure the failure of the first node: the controller elects leaders, and a node applies these."""
    config = ControllerConfig()
    led = sum(one.leader == 0 for topic in image.topics.by_name.values() for one in topic.partitions)
    records, decided_s = _timed(lambda: fence_records(image, image.brokers[0], config))
    batch = MetadataBatch(image.version + 1, 1, 0, records)
    encoded, encoded_s = _timed(lambda: encode_batch(batch))
    return {
        "leaders of the node that falls": float(led),
        "elections decided s": decided_s,
        "elections encoded s": encoded_s,
        "elections MB": len(encoded) / 1e6,
        "elections applied s": _seconds(lambda: replay_batch(image, batch)),
    }


def _measure_controller(image: MetadataImage) -> Figures:
    controller = Controller(image, ControllerConfig())
    controller.activate(image, 0)
    beats = [
        BrokerHeartbeat(broker_id=node, broker_epoch=node, current_metadata_offset=image.version)
        for node in image.brokers
    ]
    for beat in beats:
        controller.decide(beat, 1_000)
    heartbeat_s = _seconds(lambda: [controller.decide(beat, 1_001) for beat in beats]) / len(beats)
    for _ in range(2 + image.topics.partition_count // CHECKED_AT_ONCE):
        controller.tick(1_002)  # until the first search for leaders that are not preferred ends
    return {
        "heartbeat us": 1e6 * heartbeat_s,
        "tick us": 1e6 * _seconds(lambda: controller.tick(1_003)),
        **_measure_due_elections(image),
    }


def _measure_due_elections(image: MetadataImage) -> Figures:
    """Measure the search of all partitions for leaders that are not preferred, a part of them each turn."""
    elections, config = DueElections(), ControllerConfig()
    now_ms = config.leader_imbalance_check_interval_seconds * 1_000
    turns_s: list[float] = []
    while not turns_s or elections.is_scanning:
        turns_s.append(_seconds(lambda: elections.due(image, config, now_ms)))
    return {"search for preferred leaders s": sum(turns_s), "longest turn of it s": max(turns_s)}


async def _measure_feed(image: MetadataImage) -> Figures:
    """Measure a voter's responses to all observers, which wait for a change."""
    voters = [VoterAddress(node_id=node, host=f"node-{node}", port=9092) for node in range(VOTERS)]
    feed = MetadataFeed(image, leader=lambda: (0, 1), voters=lambda: voters, hears_all=lambda: True)
    wanted = FetchMetadataRequest(
        fetch_offset=image.version + 1, last_epoch=image.epoch, max_bytes=FETCH_BYTES, max_wait_ms=10_000
    )
    observers = max(1, len(image.brokers) - VOTERS)
    waiting = [cast("Delayed[object]", feed.fetch(wanted, 0)) for _ in range(observers)]
    topic = next(iter(image.topics.by_name.values()))
    change = PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, isr=topic.partitions[0].isr[:2])
    batch = MetadataBatch(image.version + 1, 1, 0, [change])
    after, _ = replay_batch(image, batch)
    began = time.process_time()
    feed.add(batch, after)
    for one in waiting:
        one.answer(await one.future)
    return {"a change for all observers ms": 1000 * (time.process_time() - began)}


def _measure_answers(image: MetadataImage) -> Figures:
    """Measure the encoding of a Metadata response for all topics, extrapolated from up to 100."""
    topics = len(image.topics.by_name)
    one = next(iter(image.topics.by_name.values()))
    brokers = frozenset(image.brokers)
    view = View(image, METADATA_VERSION, up=brokers, reachable=brokers)
    encode = encoder(MetadataResponse, METADATA_VERSION)
    answer = MetadataResponse(
        cluster_id="x" * 22, controller_id=0, topics=[topic_response(view, one)] * min(topics, 100)
    )
    times = [_seconds(lambda: encode(answer, bytearray())) for _ in range(5)]
    size_bytes = sum(map(len, encode(answer, bytearray())))
    share = topics / len(answer.topics)
    return {"all topics MB": size_bytes * share / 1e6, "all topics encoded s": min(times) * share}


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]), int(sys.argv[2]))))
