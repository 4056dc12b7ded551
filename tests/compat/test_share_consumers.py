"""librdkafka's ShareConsumer on three nodes: many workers on one partition, and a leader that is killed."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from uuid import uuid4

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.compat.wire_client import eventually
from tests.integration.cluster.conftest import Cluster
from tests.share_polls import poll

pytestmark = pytest.mark.slow


class Workers:
    """Members of one share group, each in a thread; the records that they were given, by value."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
        }
        self._topic = topic
        self.group = group
        self._stop = Event()
        self._threads = ThreadPoolExecutor(16)
        self._running = [self._threads.submit(lambda: None)]
        self.given: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()

    def start(self, count: int, acknowledge_type: Callable[[Message], AcknowledgeType]) -> None:
        self._running += [self._threads.submit(self._work, acknowledge_type) for _ in range(count)]

    def stop(self) -> None:
        self._stop.set()
        for one in self._running:
            one.result(60)
        self._threads.shutdown()

    def _work(self, acknowledge_type: Callable[[Message], AcknowledgeType]) -> None:
        consumer = ShareConsumer(self._config)
        consumer.subscribe([self._topic])
        while not self._stop.is_set():
            acknowledged: list[tuple[str, AcknowledgeType]] = []
            for message in poll(consumer):
                if message.error():
                    assert message.error().code() != KafkaError.UNKNOWN, message.error()
                    continue
                value = (message.value() or b"").decode()
                self.given[value] += 1
                acknowledged.append((value, acknowledge_type(message)))
                consumer.acknowledge(message, acknowledged[-1][1])
            if acknowledged:
                results = consumer.commit_sync(10) or {}
                if all(error is None for error in dict(results).values()):
                    self.accepted.update(
                        value for value, kind in acknowledged if kind is AcknowledgeType.ACCEPT
                    )
        consumer.close()


def accept(message: Message) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT


@pytest.fixture
def topic(three_nodes: Cluster) -> str:
    name = f"shared-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": three_nodes.bootstrap})
    admin.create_topics([NewTopic(name, 1, 3)])[name].result(30)
    return name


@pytest.fixture
def workers(three_nodes: Cluster, topic: str) -> Iterator[Workers]:
    group = f"workers-{uuid4().hex[:8]}"
    configure(three_nodes, group, {"share.auto.offset.reset": "earliest"})
    some = Workers(three_nodes.bootstrap, topic, group)
    yield some
    some.stop()


def configure(three_nodes: Cluster, group: str, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": three_nodes.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def send(three_nodes: Cluster, topic: str, values: set[str]) -> None:
    producer = Producer({"bootstrap.servers": three_nodes.bootstrap, "acks": "all", "linger.ms": 5})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_ten_workers_on_one_partition_are_given_each_record_once(
    three_nodes: Cluster, topic: str, workers: Workers
) -> None:
    values = {f"value-{number}" for number in range(2_000)}
    workers.start(10, accept)

    send(three_nodes, topic, values)

    assert eventually(lambda: workers.accepted.keys() >= values, bool)
    assert set(workers.given.values()) == {1}


def test_a_killed_leader_loses_no_record(three_nodes: Cluster, topic: str, workers: Workers) -> None:
    before, after = ({f"{when}-{number}" for number in range(300)} for when in ("before", "after"))
    workers.start(3, accept)
    send(three_nodes, topic, before)
    assert eventually(lambda: workers.accepted.keys() >= before, bool)
    time.sleep(1.0)  # until the acknowledgements are written
    given_before = Counter({value: workers.given[value] for value in before})
    admin = AdminClient({"bootstrap.servers": three_nodes.bootstrap})
    leader = admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader

    three_nodes.kill(leader)
    try:
        send(three_nodes, topic, after)

        assert eventually(lambda: workers.accepted.keys() >= after, bool)
        assert {value: workers.given[value] for value in before} == dict(given_before)
    finally:
        three_nodes.start(leader)


def test_a_released_record_is_delivered_again_after_its_back_off_and_others_go_on(
    three_nodes: Cluster, topic: str, workers: Workers
) -> None:
    settings = {"ottla.share.retry.backoff.ms": "700", "ottla.share.retry.backoff.max.ms": "10000"}
    configure(three_nodes, workers.group, settings)
    given_at: dict[str, list[float]] = {}

    def release_bad_twice(message: Message) -> AcknowledgeType:
        times = given_at.setdefault((message.value() or b"").decode(), [])
        times.append(time.monotonic())
        is_bad = message.value() == b"bad" and len(times) < 3
        return AcknowledgeType.RELEASE if is_bad else AcknowledgeType.ACCEPT

    workers.start(2, release_bad_twice)
    send(three_nodes, topic, {"bad", *(f"good-{number}" for number in range(20))})

    assert eventually(lambda: len(workers.accepted) == 21, bool)
    first, second, third = given_at["bad"]
    assert second - first >= 0.7
    assert third - second >= 1.4  # twice as long
    assert all(times[0] < third for value, times in given_at.items() if value != "bad")


@pytest.fixture
def dead_letter_topic(three_nodes: Cluster, workers: Workers) -> str:
    """Create a topic for the dead letters of the workers, and return its name."""
    name = f"dlq.{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": three_nodes.bootstrap})
    config = {"errors.deadletterqueue.group.enable": "true"}
    admin.create_topics([NewTopic(name, 1, 3, config=config)])[name].result(30)
    settings = {
        "errors.deadletterqueue.topic.name": name,
        "errors.deadletterqueue.copy.record.enable": "true",
        "share.record.lock.duration.ms": "15000",
    }
    configure(three_nodes, workers.group, settings)
    return name


def dead_letters(three_nodes: Cluster, topic: str) -> list[Message]:
    """Return all records of the topic."""
    consumer = Consumer({"bootstrap.servers": three_nodes.bootstrap, "group.id": "looks"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while not found or (found[-1].offset() or 0) < end - 1:
        message = consumer.poll(5) if end else None
        if message is None:
            break
        assert message.error() is None
        found.append(message)
    consumer.close()
    return found


def reject_bad(message: Message) -> AcknowledgeType:
    is_bad = (message.value() or b"").startswith(b"bad")
    return AcknowledgeType.REJECT if is_bad else AcknowledgeType.ACCEPT


def test_rejected_records_become_dead_letters_once_even_if_nodes_are_killed(
    three_nodes: Cluster, topic: str, workers: Workers, dead_letter_topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": three_nodes.bootstrap})
    workers.start(3, reject_bad)
    bad: set[str] = set()
    for number, killed in enumerate([topic, dead_letter_topic, "__share_group_state", topic]):
        some = {f"bad-{number}-{at}" for at in range(60)}
        bad |= some
        send(three_nodes, topic, some | {f"good-{number}-{at}" for at in range(60)})
        time.sleep(0.3)  # some dead letters are still on their way
        leader = admin.list_topics(killed, timeout=30).topics[killed].partitions[0].leader
        three_nodes.kill(leader)
        time.sleep(1.0)
        three_nodes.start(leader)

    def values() -> Counter[str]:
        return Counter((one.value() or b"").decode() for one in dead_letters(three_nodes, dead_letter_topic))

    assert eventually(lambda: values().keys() >= bad, bool)
    assert values() == Counter(dict.fromkeys(bad, 1))
    headers = dict(dead_letters(three_nodes, dead_letter_topic)[0].headers() or [])
    assert headers["__dlq.errors.topic"] == topic.encode()
    assert headers["__dlq.errors.message"] == b"Offset rejected by client."
