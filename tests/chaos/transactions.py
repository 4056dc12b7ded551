"""Transactional producers of the chaos tests, and a reader of committed records.

confluent-kafka's producer uses version 1 of the transaction protocol. Java's producer, which uses version 2
(KIP-890), takes part if its jars are available.
"""

import random
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.transaction_history import (
    ReadRecord,
    TransactionHistory,
    TransactionOutcome,
    TransactionStamp,
)
from tests.compat.java.jars import reason_to_skip
from tests.compat.java.transactions import JavaError, Transactions

TOPIC = "chaos-transactions"
PARTITIONS = 4
TRANSACTION_TIMEOUT_MS = 15_000
CALL_TIMEOUT_S = 60.0
ABORTED_SHARE, LEFT_OPEN_SHARE = 0.2, 0.02  # of all transactions
PAUSE_S = 0.05  # between two transactions: load is not the subject


class Failed(Exception):
    """The producer failed, and cannot be used any more."""


class Client(Protocol):
    """The producer of one transactional id. `restart` makes a new one, which fences the one before."""

    def restart(self) -> None: ...
    def send(self, partitions: Sequence[int], stamp: TransactionStamp) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Librdkafka:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "socket.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self._producer: Producer | None = None

    def restart(self) -> None:
        self._producer = Producer(self._config)
        self._call("init_transactions", CALL_TIMEOUT_S)

    def send(self, partitions: Sequence[int], stamp: TransactionStamp) -> None:
        assert self._producer is not None
        self._call("begin_transaction")
        for partition in partitions:
            self._producer.produce(TOPIC, stamp.encode(), partition=partition)
        self._producer.flush(CALL_TIMEOUT_S)

    def commit(self) -> None:
        self._call("commit_transaction", CALL_TIMEOUT_S)

    def abort(self) -> None:
        self._call("abort_transaction", CALL_TIMEOUT_S)

    def close(self) -> None:
        self._producer = None

    def _call(self, name: str, *arguments: float) -> None:
        try:
            getattr(self._producer, name)(*arguments)
        except KafkaException as error:
            raise Failed(f"{name}: {error.args[0].name()}") from None


class Java:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._jvm = Transactions(bootstrap)
        self._id, self._name, self._count = transactional_id, "", 0

    def restart(self) -> None:
        self._count += 1
        self._name = f"producer-{self._count}"
        timeouts = (f"transaction.timeout.ms={TRANSACTION_TIMEOUT_MS}", "request.timeout.ms=5000")
        self._call("producer", self._id, *timeouts, "delivery.timeout.ms=30000")
        self._call("init")

    def send(self, partitions: Sequence[int], stamp: TransactionStamp) -> None:
        self._call("begin")
        for partition in partitions:
            self._call("send", f"{TOPIC}-{partition}", stamp.encode().decode())

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")

    def close(self) -> None:
        self._jvm.close()

    def _call(self, verb: str, *words: str) -> None:
        try:
            self._jvm(verb, self._name, *words)
        except JavaError as error:
            raise Failed(f"{verb}: {error.name}") from None


def clients(bootstrap: str) -> list[Client]:
    """Return a producer of each kind that is installed."""
    found: list[Client] = [Librdkafka(bootstrap, f"id-{number}") for number in range(2)]
    return found if reason_to_skip() else [*found, Java(bootstrap, "id-java")]


class TransactionWriter:
    """A client that runs transactions until it is stopped; it aborts some, and abandons some."""

    def __init__(self, name: str, client: Client, history: TransactionHistory, seed: int) -> None:
        self._name, self._client, self._history = name, client, history
        self._chance = random.Random(f"{name} {seed}")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number, is_ready = 0, False
        while not self._stop.is_set():
            try:
                if not is_ready:
                    self._client.restart()
                number += 1
                is_ready = self._transaction(TransactionStamp(self._name, number))
                self._stop.wait(PAUSE_S)
            except Failed as failure:
                self._history.failures[str(failure)] += 1
                is_ready = False
                time.sleep(0.1)
        self._client.close()

    def _transaction(self, stamp: TransactionStamp) -> bool:
        """Run one transaction; return False if it is left open, and the producer must be replaced."""
        partitions = self._chance.sample(range(PARTITIONS), self._chance.randint(1, PARTITIONS))
        self._history.outcomes[stamp] = TransactionOutcome.ABORTED  # until a commit is requested
        self._history.partitions[stamp] = partitions
        self._client.send(partitions, stamp)
        dice = self._chance.random()
        if dice < LEFT_OPEN_SHARE:
            return False
        if dice < LEFT_OPEN_SHARE + ABORTED_SHARE:
            self._client.abort()
            return True
        self._history.outcomes[stamp] = TransactionOutcome.UNKNOWN
        self._client.commit()
        self._history.outcomes[stamp] = TransactionOutcome.COMMITTED
        return True

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class CommittedReader:
    """A read_committed consumer that records everything it reads."""

    def __init__(self, bootstrap: str, history: TransactionHistory) -> None:
        self._history, self._consumer = history, _consumer(bootstrap)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._history.read += _read_records(self._consumer.consume(1000, 0.1))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()


def create_topic(bootstrap: str) -> None:
    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[TOPIC].result(CALL_TIMEOUT_S)


def read_all_committed(bootstrap: str) -> list[ReadRecord]:
    """Return all committed records once every transaction is over.

    The records are read up to the present log end offsets, not the last stable offsets: the coordinator
    answers a commit before all partitions have its marker.
    """
    uncommitted = _consumer(bootstrap, "read_uncommitted")
    ends = {
        number: uncommitted.get_watermark_offsets(TopicPartition(TOPIC, number), CALL_TIMEOUT_S)[1]
        for number in range(PARTITIONS)
    }
    uncommitted.close()
    consumer = _consumer(bootstrap)
    log: list[ReadRecord] = []
    deadline = time.monotonic() + 2 * CALL_TIMEOUT_S
    while True:
        log += _read_records(consumer.consume(1000, 0.1))
        at = consumer.position([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        left = [one.partition for one in at if one.offset < ends[one.partition]]
        if not left:
            consumer.close()
            return log
        assert time.monotonic() < deadline, f"transactions are still open in partitions {left}"


def _consumer(bootstrap: str, isolation_level: str = "read_committed") -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": TOPIC,
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    return consumer


def _read_records(messages: Sequence[Any]) -> list[ReadRecord]:
    return [
        (one.partition(), one.offset(), TransactionStamp.decode(one.value()))
        for one in messages
        if one.error() is None
    ]
