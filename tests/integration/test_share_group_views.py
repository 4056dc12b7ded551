"""A share group on an embedded cluster, as a user writes it, and what an operator sees of it."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ottla.node.doctor import share_findings
from ottla.node.doctor.diagnosis import diagnose_cluster
from ottla.testing import Cluster
from tests.compat.command_line import ottla
from tests.compat.wire_client import WireClient, eventually, only
from tests.share_polls import poll

pytestmark = pytest.mark.slow
PARTITIONS = 3
RECORDS = 6  # in one partition, as one batch: librdkafka returns records of one partition per poll


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start three nodes, so that most partitions have another leader than the coordinator of a group."""
    with Cluster(nodes=3, rest=True) as cluster:
        yield cluster


class Worker:
    """A share consumer that acknowledges each record explicitly."""

    def __init__(self, cluster: Cluster) -> None:
        self.topic, self.group = f"orders-{uuid4().hex[:6]}", f"workers-{uuid4().hex[:6]}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 3)])[self.topic].result(60)
        earliest = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        group = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=[earliest])
        admin.incremental_alter_configs([group])[group].result(60)
        self.partition = self._led_elsewhere(cluster)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 500})
        for number in range(RECORDS):
            producer.produce(self.topic, f"order {number}", partition=self.partition)
        assert producer.flush(60) == 0
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": self.group,
                "share.acknowledgement.mode": "explicit",
            }
        )
        self.consumer.subscribe([self.topic])

    def _led_elsewhere(self, cluster: Cluster) -> int:
        """Return a partition whose leader is not the coordinator of the group."""
        with WireClient(cluster.bootstrap.split(",")[0]) as wire:
            answer = eventually(
                lambda: wire.call("find_coordinator", 6, key_type=0, coordinator_keys=[self.group]),
                lambda answer: only(answer.coordinators).error_code == 0,
            )
        coordinator = only(answer.coordinators).node_id
        leaders = eventually(
            lambda: [cluster.leader_of(self.topic, number) for number in range(PARTITIONS)],
            lambda leaders: min(leaders) >= 0,
        )
        return next(number for number, leader in enumerate(leaders) if leader != coordinator)

    def poll(self) -> list[Message]:
        return [one for one in poll(self.consumer, 0.5) if one.error() is None]

    def acquire(self) -> list[Message]:
        """Acquire all records and return them."""
        found = eventually(self.poll, bool)
        assert len(found) == RECORDS
        return found

    def release(self, messages: list[Message]) -> None:
        for one in messages:
            self.consumer.acknowledge(one, AcknowledgeType.RELEASE)
        self.consumer.commit_sync(30)


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    one = Worker(cluster)
    yield one
    one.consumer.close()


def described(cluster: Cluster, group: str) -> dict[str, Any]:
    [found] = json.loads(ottla(cluster.bootstrap, "group", "describe", group, "--output", "json"))
    assert isinstance(found, dict)
    return found


def scraped(cluster: Cluster, start: str) -> dict[str, float]:
    """Return the sums over all nodes of the samples whose lines start with a text."""
    sums: dict[str, float] = {}
    for url in cluster.rest_urls:
        with urllib.request.urlopen(f"{url.rstrip('/')}/metrics", timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(start):
                    name, _, value = line.rpartition(" ")
                    sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def place_of(cluster: Cluster, worker: Worker) -> dict[str, Any]:
    """Return the description of the partition that has records."""
    places = described(cluster, worker.group)["partitions"]
    return next(one for one in places if one["partition"] == worker.partition)


def test_an_operator_sees_which_records_a_worker_holds_and_how_often_they_came(
    cluster: Cluster, worker: Worker
) -> None:
    worker.release(worker.acquire())
    worker.acquire()

    group = described(cluster, worker.group)
    text = ottla(cluster.bootstrap, "group", "describe", worker.group)

    place = next(one for one in group["partitions"] if one["partition"] == worker.partition)
    assert (place["start"], place["end"], place["lag"]) == (0, RECORDS, RECORDS)
    flight = place["in_flight"]
    assert (flight["acquired"], flight["available"], flight["delivery_count_limit"]) == (RECORDS, 0, 5)
    assert flight["oldest"]["first_offset"] == 0
    [most] = flight["most_delivered"]
    assert (most["first_offset"], most["last_offset"], most["delivery_count"]) == (0, RECORDS - 1, 2)
    [lock], [member] = flight["next_locks"], group["members"]
    assert (lock["member"], lock["state"]) == (member["member"], "acquired")
    assert 0 < lock["lock_left_ms"] <= 30_000
    assert "records of each partition with the most deliveries (more than one):" in text
    assert "2 of 5, offset 0" in text


def test_the_lag_of_a_share_group_is_in_the_metrics_of_the_cluster(cluster: Cluster, worker: Worker) -> None:
    first, *rest = worker.acquire()
    worker.consumer.acknowledge(first, AcknowledgeType.ACCEPT)
    worker.release(rest)
    name = f'kafka_consumergroup_lag{{consumergroup="{worker.group}"'

    lags = eventually(lambda: scraped(cluster, name), lambda found: sum(found.values()) == RECORDS - 1)

    assert len(lags) == 1, "no record of the other partitions was acknowledged"
    prefix = "kafka_server_group_coordinator_metrics"
    for start in (
        f'{prefix}_group_count{{protocol="share"',
        f'{prefix}_share_group_count{{state="stable"',
        f"{prefix}_share_group_rebalance_total",
        f'{prefix}_num_partitions{{state="active"',
        "kafka_server_share_coordinator_metrics_write_total",
        "kafka_server_share_coordinator_metrics_write_latency_count",
        'kafka_server_share_coordinator_metrics_num_partitions{state="active"',
        f'kafka_server_sharepartitionmetrics_inflightmessagecount{{group="{worker.group}"',
    ):
        assert sum(scraped(cluster, start).values()) >= 1, start


def test_the_doctor_names_a_group_that_tries_one_record_again_and_again(
    cluster: Cluster, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_findings, "RETRIED_MS", 1)
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")

    def sentences() -> str:
        found = asyncio.run(diagnose_cluster([(host, int(port))], timeout_s=30))
        return "\n".join(one.sentence for one in found if one.subject == "share group")

    held = worker.acquire()
    before = sentences()
    worker.release(held)
    worker.acquire()
    after = sentences()

    assert worker.group not in before, "a record that is worked on for the first time is no trouble"
    assert f"Share group {worker.group} retries the same record" in after
    place = f"{worker.topic}-{worker.partition}"
    assert f"offset 0 of {place}, delivered 2 times of at most 5, now by" in after


def test_a_share_consumer_works_against_an_embedded_cluster(cluster: Cluster, worker: Worker) -> None:
    for one in worker.acquire():
        worker.consumer.acknowledge(one, AcknowledgeType.ACCEPT)
    worker.consumer.commit_sync(30)

    # The leader's start offset has moved; the one at the coordinator moves with the next write only.
    done = eventually(lambda: place_of(cluster, worker), lambda place: place["lag"] == 0)

    assert (done["lag"], done["in_flight"]["start"]) == (0, RECORDS)
