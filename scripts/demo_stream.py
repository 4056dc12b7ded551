"""The stream of the demo: a producer and a consumer of all flights at the same time, and a ledger of each.

The producer is idempotent with acks=all; the consumer is a member of a group. Both keep a chained digest for
each carrier, so equal digests mean equal records in the same order.
"""

import hashlib
import threading
import time
from collections.abc import Callable

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, Message, Producer, TopicPartition
from demo_access import Access
from demo_cluster import QUIET, START_TIMEOUT_S
from demo_error import DemoError
from demo_failure import KILL_AT, Failure
from demo_flights import TOPIC
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

GROUP = "departure-board"
STALL_TIMEOUT_S = 60  # after which the demo gives up without a further record


class Ledger:
    """The flights that one side has seen: counts and chained digests by carrier, and their bytes."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.digests: dict[str, hashlib.blake2b] = {}
        self.size_bytes = 0

    def enter(self, carrier: str, flight: bytes) -> None:
        digest = self.digests.get(carrier)
        if digest is None:
            digest = self.digests[carrier] = hashlib.blake2b(digest_size=8)
        digest.update(len(flight).to_bytes(4, "big"))
        digest.update(flight)
        self.counts[carrier] = self.counts.get(carrier, 0) + 1
        self.size_bytes += len(flight)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


Show = Callable[[str, Ledger, int], None]  # "sent" or "received", its ledger, and completed records


def stream(
    access: Access,
    flights: list[tuple[str, bytes]],
    compression: str,
    failure: Failure,
    console: Console,
) -> tuple[Ledger, Ledger, float]:
    """Send and receive at the same time, with a failure; return both ledgers and the seconds."""
    sent, received = Ledger(), Ledger()
    problems: list[str] = []
    columns = (
        TextColumn("{task.description:>9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>7.1f} MB/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        tasks = {side: progress.add_task(side, total=len(flights), rate=0.0) for side in ("sent", "received")}
        started_s = time.monotonic()

        def show(side: str, ledger: Ledger, count: int) -> None:
            rate = ledger.size_bytes / 1e6 / (time.monotonic() - started_s)
            progress.update(tasks[side], completed=count, rate=rate)

        consumer = threading.Thread(
            target=consume, args=(access, len(flights), received, show, problems), daemon=True
        )
        consumer.start()
        try:
            produce(access, flights, compression, sent, show, problems, failure)
            consumer.join()
            seconds = time.monotonic() - started_s
        finally:
            failure.wait()  # so that stopping the cluster also stops the node that was started again
    if problems:
        raise DemoError("; ".join(problems[:3]))
    return sent, received, seconds


def fill(access: Access, flights: list[tuple[str, bytes]], compression: str) -> None:
    """Send the flights, without a consumer or a failure."""
    producer = Producer(producer_settings(access, compression))
    for carrier, flight in flights:
        while True:
            try:
                producer.produce(TOPIC, flight, carrier)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(STALL_TIMEOUT_S):
        raise DemoError("the flights were not acknowledged")


def producer_settings(access: Access, compression: str) -> dict[str, str | int | bool]:
    return {
        **QUIET,
        **access.confluent,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": compression,
        "linger.ms": 20,
        "batch.size": 256 * 1024,
        "queue.buffering.max.messages": 200_000,
    }


def produce(
    access: Access,
    flights: list[tuple[str, bytes]],
    compression: str,
    sent: Ledger,
    show: Show,
    problems: list[str],
    failure: Failure,
) -> None:
    producer = Producer(producer_settings(access, compression))
    acknowledged = failure.acknowledgements

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            problems.append(f"a flight was not acknowledged: {error}")
        else:
            acknowledged.enter(message.partition())

    def show_sent() -> None:
        show("sent", sent, acknowledged.count)
        if acknowledged.count >= KILL_AT * len(flights):
            failure.kill_leader()

    for number, (carrier, flight) in enumerate(flights):
        while True:
            try:
                producer.produce(TOPIC, flight, carrier, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        sent.enter(carrier, flight)
        if number % 2000 == 0:
            producer.poll(0)
            show_sent()
    while producer.flush(0.05) and not problems:
        show_sent()
    show_sent()
    if acknowledged.count != len(flights):
        problems.append(f"{acknowledged.count} of {len(flights)} flights were acknowledged")


def consume(access: Access, expected: int, received: Ledger, show: Show, problems: list[str]) -> None:
    consumer = Consumer(
        {
            **QUIET,
            **access.confluent,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    positions: dict[int, int] = {}  # behind the last record in the ledger, by partition

    def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
        # If the group's coordinator was killed, the member joins again, and continues where the ledger ends.
        for one in partitions:
            one.offset = positions.get(one.partition, OFFSET_STORED)
        consumer.assign(partitions)

    consumer.subscribe([TOPIC], on_assign=on_assign)
    count = 0
    last_s = time.monotonic()
    try:
        while count < expected and not problems:
            for message in consumer.consume(5000, 0.2):
                if message.error() is not None:
                    problems.append(f"the consumer failed: {message.error()}")
                    return
                received.enter(message.key().decode(), message.value())
                positions[message.partition()] = message.offset() + 1
                count += 1
                last_s = time.monotonic()
            show("received", received, count)
            if time.monotonic() - last_s > STALL_TIMEOUT_S:
                problems.append(f"no flight arrived for {STALL_TIMEOUT_S} s, after {count}")
        if count:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def sum_of_committed_offsets(access: Access, partitions: int) -> int:
    """Return the sum of the group's committed offsets, fetched by another client."""
    reader = Consumer({**access.confluent, "group.id": GROUP, **QUIET})
    offsets = reader.committed([TopicPartition(TOPIC, index) for index in range(partitions)], START_TIMEOUT_S)
    reader.close()
    return sum(max(0, one.offset) for one in offsets)
