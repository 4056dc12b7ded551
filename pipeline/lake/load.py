"""Loads topics into a directory of Parquet files, step by step: a bounded read that can be run repeatedly.

The progress of a load is in the manifest of its last batch, which became visible together with its rows. So a
load that is killed continues after the visible rows, without any row twice or left out, and the next load
reads the records that were written since.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.lake.directory import LakeDirectory
from ottla.pipeline.lake.load_options import LoadOptions
from ottla.pipeline.lake.load_plan import plan_load, steps
from ottla.pipeline.lake.manifest import LakeError, Manifest, Offsets, Owner
from ottla.pipeline.lake.sink import add_batch
from ottla.pipeline.source.data_loss import LossPolicy
from ottla.pipeline.source.option_names import ENDS, STARTS, SUBSCRIPTIONS
from ottla.pipeline.source.source_offsets import SourceOffsets

WRITER: Final = "load"
_SECONDS_OF_DAY: Final = 86_400
# Options that are set for each step.
_STEP_OPTIONS: Final = {
    name.lower() for name in (*SUBSCRIPTIONS, *STARTS, *ENDS, "startingOffsetsByTimestampStrategy")
}
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The batches and rows that one run has added, and the progress of the load."""

    batches: int
    rows: int
    progress: SourceOffsets


def run(spark: SparkSession, given: Mapping[str, str]) -> LoadResult:
    """Load all records up to the ends given in the options.

    Raises OptionError, DataLossError, LakeError for a directory that this did not write in this form, and
    KafkaError.
    """
    options = LoadOptions.from_options(given)
    directory = LakeDirectory(options.lake.path, Owner(writer=WRITER, partition_by=options.lake.partition_by))
    directory.claim()
    last = directory.last_batch()
    if last is not None and last.offsets is None:
        raise LakeError(str(directory.batch_path(last.batch)), "is a batch of a load, but has no offsets")
    progress = SourceOffsets(offsets={}) if last is None or last.offsets is None else last.offsets.progress
    cluster = Cluster(options.source.client)
    try:
        policy = LossPolicy(fails=options.source.fail_on_data_loss, warn=_LOG.warning)
        plan = plan_load(cluster, options.source, progress, policy)
    finally:
        cluster.close()
    batch, rows = 0 if last is None else last.batch + 1, 0
    first = batch
    for step in steps(plan, options.max_offsets_per_batch):
        manifest = Manifest(writer=WRITER, batch=batch, files=(), offsets=step)
        rows += add_batch(directory, read_step(spark, options, step), options.lake, manifest)
        batch, progress = batch + 1, step.progress
    return LoadResult(batches=batch - first, rows=rows, progress=progress)


def read_step(spark: SparkSession, options: LoadOptions, step: Offsets) -> DataFrame:
    """Return the records of a step, with the columns that name their directories."""
    partitions: dict[str, list[int]] = {}
    for one in step.end.offsets:
        partitions.setdefault(one.topic, []).append(one.partition)
    reader = {name: value for name, value in options.reader.items() if name.lower() not in _STEP_OPTIONS}
    reader |= {
        "assign": json.dumps(partitions),
        "startingOffsets": json.dumps(step.start.to_json()),
        "endingOffsets": json.dumps(step.end.to_json()),
    }
    records = spark.read.format("ottla").options(**reader).load()
    records = records.withColumn("key", F.col("key").cast(options.key_format))
    records = records.withColumn("value", F.col("value").cast(options.value_format))
    for name in options.lake.partition_by:
        if name in _DERIVED:
            records = records.withColumn(name, _DERIVED[name]())
    return records


def _date() -> Column:
    """Return the day of the timestamp in UTC, whatever the session's zone is."""
    return F.date_from_unix_date(F.floor(F.unix_seconds("timestamp") / _SECONDS_OF_DAY).cast("int"))


def _hour() -> Column:
    return F.floor(F.pmod(F.unix_seconds("timestamp"), F.lit(_SECONDS_OF_DAY)) / 3_600).cast("int")


_DERIVED: Final = {"date": _date, "hour": _hour}
