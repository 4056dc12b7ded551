"""The rows of a topic for a reader, by a client that is not under test."""

from collections import Counter
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

TIMEOUT_S = 60.0


def read_topic(bootstrap: str, topic: str, *, committed: bool = True) -> list[Message]:
    """Return all records that there are now, partition by partition in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    found: list[Message] = []
    at_end: set[int] = set()
    while len(at_end) < len(partitions):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "nothing came"
        error = message.error()
        if error is None:
            found.append(message)
        else:
            assert error.name() == "_PARTITION_EOF", error
            at_end.add(message.partition())
    consumer.close()
    return sorted(found, key=lambda one: (one.partition(), one.offset()))


def values_of(messages: list[Message]) -> Counter[Any]:
    """Return the number of occurrences of each value."""
    return Counter(message.value() for message in messages)
