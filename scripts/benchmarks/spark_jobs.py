"""Spark jobs that write rows to a topic, read a topic and discard it, or copy a topic to another.

Each works with the format and options that it is given, and returns thousands of rows a second and CPU
seconds per million rows.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import DataFrame

from benchmarks import clients
from benchmarks.servers import Server
from benchmarks.spark_session import Client
from benchmarks.workload import Figures

PARTITIONS = 4
VALUE_BYTES = 100
COPY_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The session, the broker and the filled topic that a job runs with; `rows` is the number of its rows."""

    client: Client
    server: Server
    rows: int
    filled: str

    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.server.bootstrap}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end of a job: a format and its options."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    def fresh(self) -> dict[str, str]:
        """Return the options, with a new transactional id for each run, as each query needs its own."""
        options = dict(self.options)
        if "transactional.id" in options:
            options["transactional.id"] += f"-{uuid.uuid4().hex[:12]}"
        return options


def generated(context: JobContext, rows: int) -> DataFrame:
    """Return rows with keys of 10 bytes and values of 100."""
    numbers = context.client.spark.range(0, rows, 1, PARTITIONS)
    return numbers.selectExpr(
        "lpad(string(id), 10, 'k') key", f"rpad(string(id), {VALUE_BYTES}, 'the rest of a value, ') value"
    )


def fill(context: JobContext) -> None:
    """Fill the topic that jobs read, by the connector with its defaults, so in Java's batches of 16 KB."""
    _save(context, generated(context, context.rows), Side(format="kafka"), context.filled)


def source(side: Side) -> Callable[[JobContext], Figures]:
    """Return a job that reads all columns of a topic and discards them."""

    def run(context: JobContext) -> Figures:
        reader = context.client.spark.read.format(side.format).options(**context.options(), **side.fresh())
        frame = reader.option("subscribe", context.filled).load()
        return _measured(context, lambda: frame.write.format("noop").mode("overwrite").save())

    return run


def sink(side: Side, *, in_stream: bool = False) -> Callable[[JobContext], Figures]:
    """Return a job that writes generated rows to a new topic.

    With `in_stream` it writes from foreachBatch of a streaming query.
    """

    def run(context: JobContext) -> Figures:
        def write(topic: str) -> Figures:
            return _measured(context, lambda: _save(context, generated(context, context.rows), side, topic))

        def write_in_stream(topic: str) -> Figures:
            return _in_a_batch(context, partial(write, topic))

        return _into_new_topic(context, write_in_stream if in_stream else write)

    return run


def _in_a_batch(context: JobContext, work: Callable[[], Figures]) -> Figures:
    """Run `work` in the only micro-batch of a query; the query's own time is not counted."""
    folder = Path(context.client.new_folder())
    (folder / "line").write_text("one batch\n")
    found: list[Figures] = []
    stream = context.client.spark.readStream.text(str(folder))
    writer = stream.writeStream.foreachBatch(lambda _frame, _batch_id: found.append(work()))
    query = (
        writer.option("checkpointLocation", context.client.new_folder()).trigger(availableNow=True).start()
    )
    if not query.awaitTermination(COPY_TIMEOUT_S):
        query.stop()
        raise RuntimeError(f"the stream did not end within {COPY_TIMEOUT_S} s")
    return found[0]


def copy(
    source_side: Side, sink_side: Side, *, batch_rows: int | None = None
) -> Callable[[JobContext], Figures]:
    """Return a job that copies a topic by a stream with a checkpoint, measured from start to end."""

    def run(context: JobContext) -> Figures:
        working_ms: list[int] = []

        def stream(topic: str) -> None:
            reader = context.client.spark.readStream.format(source_side.format)
            reader = reader.options(**context.options(), **source_side.fresh(), startingOffsets="earliest")
            if batch_rows is not None:
                reader = reader.option("maxOffsetsPerTrigger", str(batch_rows))
            frame = reader.option("subscribe", context.filled).load().select("key", "value")
            writer = frame.writeStream.format(sink_side.format).options(
                **context.options(), **sink_side.fresh()
            )
            writer = writer.option("topic", topic).option("checkpointLocation", context.client.new_folder())
            query = writer.trigger(availableNow=True).start()
            if not query.awaitTermination(COPY_TIMEOUT_S):
                query.stop()
                raise RuntimeError(f"the stream did not end within {COPY_TIMEOUT_S} s")
            copied = sum(progress.numInputRows for progress in query.recentProgress)
            if copied != context.rows:
                raise RuntimeError(f"{copied} of {context.rows} rows were copied")
            working_ms.extend(each.durationMs["triggerExecution"] for each in query.recentProgress)

        figures = _into_new_topic(context, lambda topic: _measured(context, partial(stream, topic)))
        # The rate without the start of the query's Python processes, which is negligible for long queries.
        return figures | {"k rows/s in batches": context.rows / sum(working_ms)}

    return run


def _save(context: JobContext, frame: DataFrame, side: Side, topic: str) -> None:
    writer = frame.write.format(side.format).mode("append")
    writer.options(**context.options(), **side.fresh()).option("topic", topic).save()


def _into_new_topic(context: JobContext, work: Callable[[str], Figures]) -> Figures:
    topic = clients.create_topic(context.server.bootstrap, PARTITIONS)
    figures = work(topic)
    there = _records_in(context.server.bootstrap, topic)
    clients.delete_topic(context.server.bootstrap, topic)
    if there < context.rows:
        raise RuntimeError(f"{there} of {context.rows} rows are in the topic")
    return figures


def _records_in(bootstrap: str, topic: str) -> int:
    """Return the number of used offsets; the markers of transactions are included."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **clients.QUIET})
    offsets = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(PARTITIONS)}
    return sum(one.result(clients.CALL_TIMEOUT_S).offset for one in admin.list_offsets(offsets).values())


def _measured(context: JobContext, work: Callable[[], None]) -> Figures:
    client_before, broker_before = context.client.cpu.seconds(), context.server.cpu_seconds()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    millions = context.rows / 1e6
    return {
        "k rows/s": context.rows / seconds / 1e3,
        "client CPU s/M": (context.client.cpu.seconds() - client_before) / millions,
        "broker CPU s/M": (context.server.cpu_seconds() - broker_before) / millions,
    }
