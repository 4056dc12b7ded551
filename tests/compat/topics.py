"""Topics of a cluster: functions that create them, and read their committed records from their leaders."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

TIMEOUT_S = 60.0


def new_topic(bootstrap: str, partitions: int = 1) -> str:
    """Create a topic and return its name when all partitions have a leader.

    It has three replicas if there are three brokers.
    """
    admin, name = AdminClient({"bootstrap.servers": bootstrap}), f"topic-{uuid4().hex[:10]}"
    replicas = min(3, len(admin.list_topics(timeout=TIMEOUT_S).brokers))
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            assert last_stable_offsets(bootstrap, name) == dict.fromkeys(range(partitions), 0)
            return name
        except (KafkaException, KeyError, AssertionError):
            assert time.monotonic() < deadline, f"{name} has no leader"
            time.sleep(0.05)


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> str:
    """Return the address of the leader of a partition."""
    cluster = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, TIMEOUT_S)
    broker = cluster.brokers[cluster.topics[topic].partitions[partition].leader]
    return f"{broker.host}:{broker.port}"


@contextmanager
def counter_of_committed(bootstrap: str, topic: str) -> Iterator[Callable[[], int]]:
    """Give a function that continues to read, and returns the number of committed records read so far."""
    consumer, count = _reader(bootstrap), 0
    consumer.assign([TopicPartition(topic, number, 0) for number in last_stable_offsets(bootstrap, topic)])

    def so_far() -> int:
        nonlocal count
        count += sum(message.error() is None for message in consumer.consume(1000, 0.1))
        return count

    try:
        yield so_far
    finally:
        consumer.close()


def _reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def read_committed(bootstrap: str, topic: str) -> list[tuple[str, str]]:
    """Return keys and values up to the last stable offset, those of each partition in their order."""
    consumer = _reader(bootstrap)
    try:
        ends = last_stable_offsets(bootstrap, topic)
        left = {number for number, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        records: list[tuple[str, str]] = []
        while left:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{topic} is not read to its end"
            number, offset, error = message.partition(), message.offset(), message.error()
            assert number is not None and offset is not None
            if error is None and offset < ends[number]:
                records.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
            # Markers may follow the last record, and more records while a producer writes.
            if error is not None or offset >= ends[number] - 1:
                assert error is None or error.name() == "_PARTITION_EOF", error
                left.discard(number)
        return records
    finally:
        consumer.close()


def last_stable_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the last stable offset of each partition, as answered by its leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    specs = {TopicPartition(topic, number): OffsetSpec.latest() for number in found}
    answers = admin.list_offsets(
        specs, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
    )
    return {one.partition: answer.result(TIMEOUT_S).offset for one, answer in answers.items()}
