"""A compacted topic as a table: the latest record of each key.

A join of a stream with `records` is one of each micro-batch with the table as it is when that batch runs: a
change is seen by the batches after it, and all rows of a batch see one table. A batch that is run again after
a crash sees the table of that moment. The topic is read whole for each batch; that is what keeps it right
without state, and its price (some millions of rows cost seconds a batch). Of `spark.read.format("ottla")`
each task would see its partition as it is when the task begins.

A table written in transactions is read with `kafka.isolation.level=read_committed`.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.spark.fresh_table import read_fresh
from ottla.pipeline.words import OptionError

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


def records(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The records of topics, by the options of a batch read, anew whenever they are used. In a job file: a
    source with `static: true`."""
    return read_fresh(spark, options)


def latest(rows: DataFrame) -> DataFrame:
    """The record of each key with its greatest offset.

    A key whose latest record has no value (a tombstone) is gone, and a record without a key is none of a
    table. Offsets are compared within one partition of one topic alone. Where a key lies in several (the
    topic got more partitions, or the rows are of several topics) the latest record of each is found first,
    and the one of these with the latest timestamp is the row, which names its `topic`; of equal timestamps
    the later name of a topic, then the greater partition.
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
