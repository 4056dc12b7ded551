"""The latency of single records that Spark copies, in micro-batches or in Real-time Mode."""

import struct
import time
import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import clients
from benchmarks.spark_jobs import Figures, JobContext, Side

PAUSE_S = 0.05
RECORDS = 200
# The first records meet processes that are starting and code that is not compiled.
WARM_UP_RECORDS = 60
FIRST_TIMEOUT_S = 120
TIMEOUT_S = 30
PADDING = b"x" * 92
ONE_LONG_BATCH = "1 hour"


def trickle(
    source_side: Side, sink_side: Side, *, real_time: bool = False
) -> Callable[[JobContext], Figures]:
    """Return a job that copies a record every 50 ms, timed from `produce()` to a read_committed consumer."""

    def run(context: JobContext) -> Figures:
        source, target = (clients.create_topic(context.server.bootstrap, 1) for _ in range(2))
        reader = context.client.spark.readStream.format(source_side.format)
        reader = reader.options(**context.options(), **source_side.fresh(), startingOffsets="earliest")
        frame = reader.option("subscribe", source).load().select("key", "value")
        writer = frame.writeStream.format(sink_side.format).options(**context.options(), **sink_side.fresh())
        writer = writer.option("topic", target).option("checkpointLocation", context.client.new_folder())
        if real_time:
            writer = writer.outputMode("update").trigger(realTime=ONE_LONG_BATCH)
        query = writer.start()
        try:
            taken = _round_trips_ms(context.server.bootstrap, source, target)
        finally:
            query.stop()
        for topic in (source, target):
            clients.delete_topic(context.server.bootstrap, topic)
        return {
            "p50 ms": taken[len(taken) // 2],
            "p99 ms": taken[len(taken) * 99 // 100],
        }

    return run


def _round_trips_ms(bootstrap: str, source: str, target: str) -> list[float]:
    """Send records to `source`; return the sorted milliseconds until each is read from `target`."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **clients.QUIET})
    group = f"bench-{uuid.uuid4().hex[:8]}"
    settings = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **clients.QUIET})
    consumer.assign([TopicPartition(target, 0, 0)])
    taken: list[float] = []

    def send() -> None:
        producer.produce(source, struct.pack(">d", time.perf_counter()) + PADDING, partition=0)
        producer.poll(0)

    def receive(timeout_s: float) -> None:
        message = consumer.poll(timeout_s)
        if message is not None and not message.error():
            taken.append((time.perf_counter() - struct.unpack_from(">d", message.value() or b"")[0]) * 1000)

    send()
    producer.flush(clients.CALL_TIMEOUT_S)
    receive(FIRST_TIMEOUT_S)
    total = WARM_UP_RECORDS + RECORDS
    began = time.perf_counter()
    for number in range(1, total):
        send()
        while (left := began + number * PAUSE_S - time.perf_counter()) > 0:
            receive(left)
    deadline = time.perf_counter() + TIMEOUT_S
    while len(taken) < total and time.perf_counter() < deadline:
        receive(1)
    consumer.close()
    if len(taken) < total:
        raise RuntimeError(f"{len(taken)} of {total} records came back")
    return sorted(taken[WARM_UP_RECORDS:])
