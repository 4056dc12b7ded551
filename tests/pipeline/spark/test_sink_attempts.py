"""Attempts of a task: one that fails, and two that run at once.

Two run at once if one is speculative, or if a stage is tried again beside abandoned tasks. Spark starts no
speculative task on the machine of the first one, and there is only one; so here two tasks get equal rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.transactions import Transactions
from ottla.pipeline.spark import sink_task
from ottla.pipeline.spark.stream_writer import StreamWriter
from tests.pipeline.conftest import MakeClient
from tests.pipeline.spark.faulty_sink import wait_for_file
from tests.pipeline.spark.topic_rows import read_topic, values_of
from tests.pipeline.topics import make_topic

pytestmark = pytest.mark.slow

ATTEMPTS = 2
ROWS = [str(number) for number in range(100)]


def rows_of(attempt: int, folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield all rows, and in between wait until the other attempt is there as well."""
    batch = pa.record_batch({"value": pa.array(ROWS)})
    yield batch.slice(0, len(ROWS) // 2)
    (folder / str(attempt)).touch()
    for other in range(ATTEMPTS):
        wait_for_file(folder / str(other))
    yield batch.slice(len(ROWS) // 2)


def write(writer: StreamWriter, attempt: int, folder: Path) -> WriterCommitMessage:
    """Write the rows of an attempt, as a task does with the writer that was sent to it."""
    with mock.patch.object(sink_task, "gather", iter):  # otherwise no row would be sent in the middle
        return writer.write(rows_of(attempt, folder))


def write_half(writer: StreamWriter) -> WriterCommitMessage:
    """Write as a task does whose rows end in a failure after some of them were sent."""

    def half() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array(ROWS)})
        raise ValueError("no more rows")

    with mock.patch.object(sink_task, "gather", iter):  # otherwise none would be sent by then
        return writer.write(half())


@contextmanager
def query_of(context: SparkContext) -> Iterator[None]:
    """Set the properties that a streaming query gives to its tasks."""
    expected = {
        sink_task.BATCH_ID: "0",
        sink_task.QUERY_ID: str(uuid4()),
        sink_task.JOB_GROUP: str(uuid4()),
    }
    for key, value in expected.items():
        context.setLocalProperty(key, value)
    try:
        yield
    finally:
        for key in expected:
            context.setLocalProperty(key, None)  # type: ignore[arg-type]


def writer_to(bootstrap: str, topic: str, name: str) -> StreamWriter:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "delivery.guarantee": "exactly_once",
        "transactional.id": name,
    }
    return StreamWriter(options, StructType().add("value", StringType()))


@pytest.mark.parametrize("counted", range(ATTEMPTS))
def test_the_rows_of_one_of_two_concurrent_attempts_are_there(
    spark: SparkSession, bootstrap: str, client: MakeClient, tmp_path: Path, counted: int
) -> None:
    topic, name = make_topic(bootstrap, partitions=2), f"T.{uuid4().hex}"
    writer = writer_to(bootstrap, topic, name)
    attempts = spark.sparkContext.parallelize(range(ATTEMPTS), ATTEMPTS)

    with query_of(spark.sparkContext):
        messages = attempts.map(lambda attempt: write(writer, attempt, tmp_path)).collect()
    there_before = len(read_topic(bootstrap, topic, committed=False))
    writer.commit([messages[counted]], 0)

    assert there_before == len(ROWS) * ATTEMPTS
    assert values_of(read_topic(bootstrap, topic)) == {row.encode(): 1 for row in ROWS}
    assert Transactions(client(Role.SINK)).list_open(f"{name}-") == set()


def test_an_attempt_that_fails_leaves_nothing_open(
    spark: SparkSession, bootstrap: str, client: MakeClient
) -> None:
    """Readers would wait for it until the next batch begins."""
    topic, name = make_topic(bootstrap), f"T.{uuid4().hex}"
    writer = writer_to(bootstrap, topic, name)

    with query_of(spark.sparkContext), pytest.raises(PythonException, match="no more rows"):
        spark.sparkContext.parallelize([0], 1).map(lambda _: write_half(writer)).collect()

    assert read_topic(bootstrap, topic) == []
    assert Transactions(client(Role.SINK)).list_open(f"{name}-") == set()
