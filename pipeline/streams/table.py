"""A compacted topic as a table: the latest record of each key.

A stream joined with `records` joins each micro-batch with the table as it is when that batch runs: the
batches after a change see it, and all rows of a batch see one table. A batch that runs again after a crash
sees the table of that later moment. The whole topic is read for each batch; so it is right without state, at
the price of seconds a batch for some millions of rows. With `spark.read.format("ottla")` each task would see
its partition as it is when the task begins.

A table written in transactions is read with `kafka.isolation.level=read_committed`.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.spark.fresh_table import read_fresh
from ottla.pipeline.words import OptionError

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


def records(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the records of topics, by the options of a batch read, read again at each use.

    In a job file it is a source with `static: true`.
    """
    return read_fresh(spark, options)


def latest(rows: DataFrame) -> DataFrame:
    """Return the record of each key with its greatest offset.

    A key whose latest record has no value (a tombstone) is deleted, and a record without a key is ignored.
    Offsets are compared only within one partition. If a key is in several (partitions were added, or the rows
    are of several topics), the latest record of each is found first. Of these the one with the latest
    timestamp is the row, which names its `topic`; of equal timestamps the later name of a topic, then the
    greater partition.
    """
    missing = [name for name in COLUMNS if name not in rows.columns]
    if missing:
        raise OptionError(
            "table", f"has no column {missing[0]}; it must have the columns of records as they are read"
        )
    row = F.struct(*[F.col(name) for name in COLUMNS])
    # One shuffle by key serves both steps.
    by_log = (
        rows.where(F.col("key").isNotNull())
        .repartition("key")
        .groupBy("key", "topic", "partition")
        .agg(F.max_by(row, "offset").alias("row"))
    )
    newest = F.max_by("row", F.struct("row.timestamp", "row.topic", "row.partition")).alias("row")
    return by_log.groupBy("key").agg(newest).select("row.*").where(F.col("value").isNotNull())
