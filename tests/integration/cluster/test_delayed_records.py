"""Delayed records whose leader is killed while they wait: the new leader delivers each when due, and once."""

import time
from threading import Lock
from uuid import uuid4

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.compat.test_share_consumers import Workers
from tests.integration.cluster.conftest import Cluster, eventually
from tests.integration.cluster.test_failures import leader_of

pytestmark = pytest.mark.slow
COUNT = 60
DUE_MS, SPREAD_MS = 25_000, 5_000  # the kill and the failover take about 15 s


def time_ms() -> int:
    return int(time.time() * 1000)


class DeliveryTimes:
    """The time at which each record was delivered to a member, in ms."""

    def __init__(self) -> None:
        self.at_ms: dict[str, int] = {}
        self._lock = Lock()

    def accept(self, message: Message) -> AcknowledgeType:
        with self._lock:
            self.at_ms.setdefault((message.value() or b"").decode(), time_ms())
        return AcknowledgeType.ACCEPT


def prepare(cluster: Cluster) -> str:
    """Create a topic that delays records, and return its name, which is that of its share group, too."""
    name = f"mails-{uuid4().hex}"
    topic = NewTopic(
        name,
        1,
        len(cluster.nodes),
        config={"ottla.delivery.delay.enable": "true", "min.insync.replicas": "2"},
    )
    cluster.admin().create_topics([topic])[name].result(60)
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, name, incremental_configs=[earliest])
    for changed in cluster.admin().incremental_alter_configs([group]).values():
        changed.result(60)
    return name


def produce_mails(cluster: Cluster, topic: str, due_ms: int) -> dict[str, int]:
    """Produce immediate and delayed records in turn, and return when each delayed one is due, in ms."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    due = {}
    for number in range(COUNT):
        producer.produce(topic, f"now-{number}".encode())
        value = f"later-{number}"
        due[value] = due_ms + SPREAD_MS * (number * 7 % COUNT) // COUNT
        producer.produce(topic, value.encode(), headers={"ottla.deliver.at": str(due[value]).encode()})
    assert producer.flush(60) == 0
    return due


def test_delayed_records_are_delivered_once_and_when_due_although_their_leader_is_killed(
    all_up: Cluster,
) -> None:
    cluster = all_up
    topic = prepare(cluster)
    times = DeliveryTimes()
    due = produce_mails(cluster, topic, time_ms() + DUE_MS)
    at_once = {f"now-{number}" for number in range(COUNT)}
    workers = Workers(cluster.bootstrap, topic, topic)
    workers.start(3, times.accept)
    try:
        eventually(lambda: workers.accepted.keys() >= at_once, "all records without a delay are accepted")
        assert workers.given.keys() == at_once
        leader = leader_of(cluster, topic)

        cluster.kill(leader)

        eventually(lambda: leader_of(cluster, topic) not in (leader, -1), "another replica leads")
        assert time_ms() < min(due.values()), "the kill came while records waited"
        eventually(lambda: workers.accepted.keys() >= due.keys(), "all delayed records are accepted")
        time.sleep(1.0)  # time for a second delivery, which must not come
    finally:
        workers.stop()
    assert set(workers.given.values()) == {1}, workers.given.most_common(3)
    late_ms = {value: times.at_ms[value] - due_ms for value, due_ms in due.items()}
    assert min(late_ms.values()) >= 0, late_ms
    assert max(late_ms.values()) < DUE_MS, late_ms
