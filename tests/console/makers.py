"""Topics, groups and transactions for the tests of the console, made by clients."""

import time
from collections.abc import Callable
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster

TIMEOUT_S = 60


def name_of(what: str) -> str:
    """Return a name that no other test uses."""
    return f"{what}-{uuid4().hex[:8]}"


def make_topic(cluster: Cluster, what: str, partitions: int = 1) -> str:
    """Create a topic on all three nodes, and wait until they are in sync."""
    name = name_of(what)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(TIMEOUT_S)

    def is_ready() -> bool:
        found = admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions.values()
        return len(found) == partitions and all(len(one.isrs) == 3 for one in found)

    until(is_ready)
    return name


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    """Commit an offset of partition 0 for a group without members."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def fill(producer: Producer, topic: str, *values: bytes | None, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, "the condition is not met"
        time.sleep(0.05)
