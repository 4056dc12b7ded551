"""Delayed records whose leader is killed while they wait: the new leader delivers each when due, and once."""

import time
from threading import Lock

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.compat.test_share_consumers import Workers
from tests.integration.cluster.conftest import Cluster, eventually
from tests.integration.cluster.test_failures import leader_of

pytestmark = pytest.mark.slow
TOPIC, GROUP = "mails", "mailers"
COUNT = 60
DUE_S, SPREAD_S = 25.0, 5.0  # the kill and the failover take about 15 s


class Given:
    """The time at which each record was delivered to a member."""

    def __init__(self) -> None:
        self.at_s: dict[str, float] = {}
        self._lock = Lock()

    def accept(self, message: Message) -> AcknowledgeType:
        with self._lock:
            self.at_s.setdefault((message.value() or b"").decode(), time.time())
        return AcknowledgeType.ACCEPT


def prepare(cluster: Cluster) -> None:
    topic = NewTopic(
        TOPIC,
        1,
        len(cluster.nodes),
        config={"ottla.delivery.delay.enable": "true", "min.insync.replicas": "2"},
    )
    cluster.admin().create_topics([topic])[TOPIC].result(60)
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[earliest])
    for changed in cluster.admin().incremental_alter_configs([group]).values():
        changed.result(60)


def produce_mails(cluster: Cluster, due_s: float) -> dict[str, float]:
    """Produce immediate and delayed records in turn, and return when each delayed one is due, in seconds."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    due = {}
    for number in range(COUNT):
        producer.produce(TOPIC, f"now-{number}".encode())
        value = f"later-{number}"
        due[value] = due_s + SPREAD_S * (number * 7 % COUNT) / COUNT
        at_ms = str(round(due[value] * 1000)).encode()
        producer.produce(TOPIC, value.encode(), headers={"ottla.deliver.at": at_ms})
    assert producer.flush(60) == 0
    return due


def test_a_leader_is_killed_while_records_wait(all_up: Cluster) -> None:
    cluster = all_up
    prepare(cluster)
    given = Given()
    due = produce_mails(cluster, time.time() + DUE_S)
    at_once = {f"now-{number}" for number in range(COUNT)}
    workers = Workers(cluster.bootstrap, TOPIC, GROUP)
    workers.start(3, given.accept)
    try:
        eventually(lambda: workers.accepted.keys() >= at_once, "all records without a delay are accepted")
        assert workers.given.keys() == at_once
        leader = leader_of(cluster, TOPIC)

        cluster.kill(leader)

        eventually(lambda: leader_of(cluster, TOPIC) not in (leader, -1), "another replica leads")
        assert time.time() < min(due.values()), "the kill came while records waited"
        eventually(lambda: workers.accepted.keys() >= due.keys(), "all delayed records are accepted")
        time.sleep(1.0)  # time for a second delivery, which must not come
    finally:
        workers.stop()
    assert set(workers.given.values()) == {1}, workers.given.most_common(3)
    early = {value: due_s - given.at_s[value] for value, due_s in due.items() if given.at_s[value] < due_s}
    assert not early, early
    late_s = max(given.at_s[value] - due_s for value, due_s in due.items())
    assert late_s < DUE_S, late_s
