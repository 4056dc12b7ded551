"""Workloads through confluent-kafka (librdkafka in C), as an application sees them, client cost included."""

import struct
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks import frames
from benchmarks.load import Done

CALL_TIMEOUT_S = 60
QUIET: dict[str, Any] = {"log_level": 2}  # librdkafka logs its clean-up, in the middle of our table
QUEUE_MESSAGES = 200_000
CONSUME_AT_ONCE = 5000
# For a producer that always has records to send; workloads set the rest.
BUSY_PRODUCER: dict[str, Any] = {
    "linger.ms": 5,
    "queue.buffering.max.messages": QUEUE_MESSAGES,
    "queue.buffering.max.kbytes": 262_144,
    "batch.num.messages": 100_000,
    **QUIET,
}


def create_topic(
    bootstrap: str, partitions: int, settings: dict[str, str] | None = None, replicas: int = 1
) -> str:
    """Create a topic with a random name; return the name once all leaders serve it."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    config = {"file.delete.delay.ms": "1000", **(settings or {})}
    admin.create_topics([NewTopic(name, partitions, replicas, config=config)])[name].result(CALL_TIMEOUT_S)
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while time.monotonic() < deadline:
        # Metadata may name a leader that does not serve yet; ListOffsets is answered by the leader itself.
        offsets = admin.list_offsets(
            {TopicPartition(name, index): OffsetSpec.latest() for index in range(partitions)}
        )
        if all(one.exception(CALL_TIMEOUT_S) is None for one in offsets.values()):
            return name
        time.sleep(0.05)
    raise RuntimeError(f"topic {name} got no leaders")


def leader_ports(bootstrap: str, topic: str) -> list[int]:
    """Return the port of each partition's leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    found = admin.list_topics(topic, CALL_TIMEOUT_S)
    partitions = found.topics[topic].partitions
    return [found.brokers[partitions[index].leader].port for index in sorted(partitions)]


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})  # must outlive the future
    admin.delete_topics([name])[name].result(CALL_TIMEOUT_S)


def produce(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    record_bytes: int,
    seconds: float,
    limit_bytes: int,
    settings: dict[str, Any],
) -> Done:
    """Produce distinct values round-robin to the partitions until time or bytes are used up, then flush."""
    producer = Producer({"bootstrap.servers": bootstrap, **BUSY_PRODUCER, **settings})
    payloads = frames.values(1000, record_bytes)
    limit = limit_bytes // record_bytes
    failures: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)

    def send(payload: bytes, partition: int, on_delivery: Callable[[Any, Any], None] | None) -> None:
        """Produce a record as soon as the client's queue has room."""
        while True:
            try:
                producer.produce(topic, payload, partition=partition, on_delivery=on_delivery)
                return
            except BufferError:
                producer.poll(0.01)

    began = time.perf_counter()
    count = 0
    while count < limit and time.perf_counter() - began < seconds:
        for payload in payloads:
            send(payload, count % partitions, None)
            count += 1
        producer.poll(0)
    # Only the last records have delivery reports; reports of all would add to the client's cost.
    for partition in range(partitions):
        send(payloads[0], partition, delivered)
    if producer.flush(CALL_TIMEOUT_S) or failures:
        raise RuntimeError(f"not delivered: {failures[:1] or 'timeout'}")
    took = time.perf_counter() - began
    return Done(seconds=took, requests=0, records=count, payload_bytes=count * record_bytes)


def consume(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    seconds: float,
    settings: dict[str, Any] | None = None,
) -> Done:
    """Read `records` records from the start, for at most `seconds`, without the rebalance of a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid.uuid4().hex[:8]}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # By default librdkafka pauses for a second once 100,000 messages are queued.
            "queued.min.messages": 200_000,
            "queued.max.messages.kbytes": 1_048_576,
            "fetch.queue.backoff.ms": 5,
            **QUIET,
            **(settings or {}),
        }
    )
    found = consumer.list_topics(topic, CALL_TIMEOUT_S).topics[topic]
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found.partitions])
    began = time.perf_counter()
    count = read(consumer, records, seconds)
    took = time.perf_counter() - began
    consumer.close()
    return Done(seconds=took, requests=0, records=count, payload_bytes=count * record_bytes)


def read(consumer: Consumer, records: int, seconds: float) -> int:
    """Return how many of `records` records were received within `seconds`."""
    began, count = time.perf_counter(), 0
    while count < records and time.perf_counter() - began < seconds:
        # Never more than are left, as it would wait for the rest until its timeout.
        count += len(consumer.consume(min(CONSUME_AT_ONCE, records - count), 0.2))
    return count


def end_to_end_ms(bootstrap: str, topic: str, *, rate: int, seconds: float, acks: str = "1") -> list[float]:
    """Return the sorted milliseconds from produce() to the consumer's poll(), at `rate` records a second."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": acks, **QUIET})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid.uuid4().hex[:8]}",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken: list[float] = []
    total = int(rate * seconds)
    warm_up = rate // 2  # the first half second fills caches and opens connections

    def read() -> None:
        while len(taken) < total + warm_up:
            message = consumer.poll(5)
            if message is None:
                return
            if message.error():
                raise KafkaException(message.error())
            taken.append((time.perf_counter() - struct.unpack_from(">d", message.value() or b"")[0]) * 1000)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    padding = b"x" * 92
    began = time.perf_counter()
    for number in range(total + warm_up):
        wait = began + number / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        producer.produce(topic, struct.pack(">d", time.perf_counter()) + padding, partition=0)
        producer.poll(0)
    producer.flush(CALL_TIMEOUT_S)
    reader.join(CALL_TIMEOUT_S)
    consumer.close()
    if len(taken) < total:
        raise RuntimeError(f"only {len(taken)} of {total} records came back")
    return sorted(taken[warm_up:])
