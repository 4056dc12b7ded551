"""A table into a topic and a topic into a lake, exactly once: crashes in between change no row."""

import json
import sqlite3
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.connect.table_source import read_stream
from ottla.pipeline.lake import directory, sink
from ottla.pipeline.query import AvailableNow, QuerySettings
from tests.pipeline.topics import make_topic

pytestmark = pytest.mark.slow

TIMEOUT_S = 240


def insert(path: Path, first: int, last: int) -> None:
    """Insert rows with these numbers."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS flights (id INTEGER PRIMARY KEY, name TEXT)")
        rows = [(number, f"AA{number}") for number in range(first, last)]
        connection.executemany("INSERT INTO flights VALUES (?, ?)", rows)
    connection.close()


def copy_table(
    spark: SparkSession, path: Path, bootstrap: str, topic: str, checkpoint: str, crashes_after: int
) -> None:
    """Copy the present rows to the topic in batches of ten; crash after batch `crashes_after` (-1: never)."""
    options = {
        "connection.url": f"sqlite:{path}",
        "table": "flights",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "batch.max.rows": "10",
        "key": "id",
    }
    to_topic = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "delivery.guarantee": "exactly_once",
        "transactional.id": f"copy-{topic}",
    }

    def write(batch: DataFrame, number: int) -> None:
        batch.write.format("ottla").options(**to_topic).mode("append").save()
        if number == crashes_after:
            raise RuntimeError("died here")

    query = QuerySettings(name="copy", checkpoint=checkpoint, trigger=AvailableNow())
    started = query.start(read_stream(spark, options).writeStream.foreachBatch(write))
    assert started.awaitTermination(TIMEOUT_S)


def test_a_batch_that_is_read_again_is_in_the_topic_once(
    spark: SparkSession, bootstrap: str, tmp_path: Path, checkpoint: str
) -> None:
    """It was decided in the topic, but Spark does not know, and the table has grown."""
    topic, path = make_topic(bootstrap, partitions=2), tmp_path / "air.db"
    insert(path, 1, 21)
    with pytest.raises(Exception, match="died here"):
        copy_table(spark, path, bootstrap, topic, checkpoint, crashes_after=0)
    insert(path, 21, 31)

    copy_table(spark, path, bootstrap, topic, checkpoint, crashes_after=-1)

    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    rows = (
        reader.option("kafka.isolation.level", "read_committed").option("subscribe", topic).load().collect()
    )
    assert sorted(json.loads(row.value)["id"] for row in rows) == list(range(1, 31))
    assert all(bytes(row.key).decode() == str(json.loads(row.value)["id"]) for row in rows)


def test_a_topic_is_in_the_lake_once(
    spark: SparkSession, bootstrap: str, tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver dies between two steps: the rename, and Spark's record of the batch."""
    topic, path, lake = make_topic(bootstrap, partitions=2), tmp_path / "air.db", tmp_path / "lake"
    insert(path, 1, 31)
    copy_table(spark, path, bootstrap, topic, checkpoint + "-table", crashes_after=-1)
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("kafka.isolation.level", "read_committed").option("maxOffsetsPerTrigger", "12")
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    query = QuerySettings(name="to-lake", checkpoint=checkpoint, trigger=AvailableNow())
    commit = directory.LakeDirectory.commit

    def commit_and_crash(*of: object) -> None:
        commit(*of)  # type: ignore[arg-type]
        raise RuntimeError("died here")

    with monkeypatch.context() as patched:
        patched.setattr(directory.LakeDirectory, "commit", commit_and_crash)
        with pytest.raises(Exception, match="died here"):
            sink.start(frame, {"path": str(lake)}, query).awaitTermination(TIMEOUT_S)
    assert sink.start(frame, {"path": str(lake)}, query).awaitTermination(TIMEOUT_S)

    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table()
    assert sorted(json.loads(value)["id"] for value in table["value"].to_pylist()) == list(range(1, 31))
    assert len(set(table["batch"].to_pylist())) > 2
