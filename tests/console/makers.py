"""Topics, groups and transactions for the tests of the console, made by clients."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.integration.cluster.conftest import eventually
from tests.integration.rest.conftest import name_of

TIMEOUT_S = 60


def make_topic(cluster: Cluster, prefix: str, partitions: int = 1) -> str:
    """Create a topic on all three nodes, and wait until they are in sync."""
    name = name_of(prefix)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(TIMEOUT_S)

    def is_ready() -> bool:
        found = admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions.values()
        return len(found) == partitions and all(len(one.isrs) == 3 for one in found)

    eventually(is_ready, f"all replicas of {name} are in sync")
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
