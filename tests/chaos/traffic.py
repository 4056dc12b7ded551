"""Clients of the chaos tests, all from confluent-kafka: idempotent writers with acks=all, and readers."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.history import History, Stamp

TOPIC = "chaos"
CALL_TIMEOUT_S = 60
END_TIMEOUT_S = 120.0  # for the results of all records, and for reading a topic to its end
# Retries reach a new leader soon; the client gives a record up only long after the last fault.
WRITER: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 1,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.timeout.ms": 5_000,
    "request.timeout.ms": 5_000,
    "delivery.timeout.ms": 120_000,
    "log_level": 2,
}


def create_topic(
    bootstrap: str, partitions: int, replicas: int, *, name: str = TOPIC, config: Mapping[str, str] = {}
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    configs = {"min.insync.replicas": "2", **config}
    admin.create_topics([NewTopic(name, partitions, replicas, config=configs)])[name].result(CALL_TIMEOUT_S)


class Writer:
    """A producer that sends to all partitions in turn, `rate` records a second each, until stopped."""

    def __init__(self, number: int, bootstrap: str, partitions: int, rate: float, history: History) -> None:
        self.sent = 0
        self._number, self._partitions, self._rate, self._history = number, partitions, rate, history
        self._producer = Producer({"bootstrap.servers": bootstrap, **WRITER})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._stop.is_set():
            for partition in range(self._partitions):
                self._send(Stamp(self._number, partition, number))
            number += 1
            while (wait := began + number / self._rate - time.monotonic()) > 0:
                self._producer.poll(min(wait, 0.01))
            self._producer.poll(0)

    def _send(self, stamp: Stamp) -> None:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self._history.acknowledged.append((stamp, message.offset()))
            else:
                self._history.failed.append(f"{stamp}: {error}")

        while True:
            try:
                self._producer.produce(
                    TOPIC, stamp.encode(), partition=stamp.partition, on_delivery=delivered
                )
                self.sent += 1
                return
            except BufferError:
                self._producer.poll(0.05)

    def stop(self) -> None:
        """Stop sending, and wait until the result of every record is known."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(END_TIMEOUT_S)


class Reader:
    """A consumer that reads all partitions from the beginning, and records everything it reads."""

    def __init__(self, bootstrap: str, partitions: int, history: History) -> None:
        self._history = history
        self._consumer = _consumer(bootstrap)
        self._consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(partitions)])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:
                    stamp = Stamp.decode(message.value())
                    self._history.read.append((message.partition(), message.offset(), stamp))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()


def read_all(bootstrap: str, partitions: int) -> list[tuple[int, int, Stamp]]:
    """Return every record of the topic as (partition, offset, stamp)."""
    return [
        (message.partition(), message.offset(), Stamp.decode(message.value()))
        for message in read_topic(bootstrap, TOPIC, partitions)
    ]


def read_topic(bootstrap: str, topic: str, partitions: int) -> list[Message]:
    """Return every record of a topic."""
    consumer = _consumer(bootstrap)
    places = [TopicPartition(topic, index, 0) for index in range(partitions)]
    ends = {
        place.partition: consumer.get_watermark_offsets(place, CALL_TIMEOUT_S, cached=False)[1]
        for place in places
    }
    consumer.assign(places)
    found: list[Message] = []
    deadline = time.monotonic() + END_TIMEOUT_S
    waiting = {partition for partition, end in ends.items() if end > 0}
    while waiting:
        assert time.monotonic() < deadline, f"partitions {sorted(waiting)} cannot be read to their ends"
        for message in consumer.consume(5000, 0.2):
            if message.error() is not None:
                continue
            found.append(message)
            if message.offset() + 1 >= ends[message.partition()]:
                waiting.discard(message.partition())
    consumer.close()
    return found


def acknowledged_after(history: History, known: int, partitions: Sequence[int], timeout_s: float) -> float:
    """Wait until each partition acknowledges a record beyond the first `known`; return the seconds."""
    began = time.monotonic()
    while True:
        seen = {stamp.partition for stamp, _ in history.acknowledged[known:]}
        if seen >= set(partitions):
            return time.monotonic() - began
        assert time.monotonic() - began < timeout_s, f"no writes to {sorted(set(partitions) - seen)}"
        time.sleep(0.01)


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "log_level": 2,
        }
    )
