"""Writes a stream into a directory of Parquet files, exactly once.

Spark writes the files; this module decides when they become visible. A batch that exists already is not
written again: its number and the query's id are in its manifest, which came with its files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipeline.lake.directory import BATCH_COLUMN, LakeDirectory, local_path, measure
from ottla.pipeline.lake.manifest import Manifest, Owner
from ottla.pipeline.option_values import OptionValues
from ottla.pipeline.query import QuerySettings
from ottla.pipeline.words import OptionError

COMPRESSION: Final = ("zstd", "snappy", "gzip", "lz4_raw", "none")
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOptions:
    """The directory of the rows and the layout of its files; `max_records_per_file` 0 sets no limit."""

    path: Path
    partition_by: tuple[str, ...] = ()
    compression: str = "zstd"
    max_records_per_file: int = 0

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> "LakeOptions":
        """Read `path`, `partitionBy`, `compression` and `maxRecordsPerFile`; OptionError."""
        values = OptionValues(given)
        options = cls.read(values)
        values.refuse_others()
        return options

    @classmethod
    def read(cls, values: OptionValues) -> "LakeOptions":
        """Read these options from `values`, which may have others as well."""
        return cls(
            path=local_path("path", values.text("path")),
            partition_by=values.names("partitionBy"),
            compression=values.choice("compression", COMPRESSION, "zstd"),
            max_records_per_file=values.integer("maxRecordsPerFile", 0, least=0, most=10**9),
        )


def start(frame: DataFrame, given: Mapping[str, str], query: QuerySettings) -> StreamingQuery:
    """Start a query that writes the rows of a stream; OptionError, also for rows unfit for the layout."""
    options = LakeOptions.from_options(given)
    if query.output_mode != "append":
        raise OptionError(
            "outputMode",
            f"is {query.output_mode}, but rows cannot be changed after they are written to files: use append",
        )
    check_columns(frame.columns, options)
    return query.start(frame.writeStream.foreachBatch(BatchWriter(options)))


def check_columns(columns: list[str], options: LakeOptions) -> None:
    """Raise OptionError if files of these columns cannot be laid out as the options say."""
    missing = [name for name in options.partition_by if name not in columns]
    if missing:
        raise OptionError("partitionBy", f"names {missing[0]}, but the columns are {', '.join(columns)}")
    if len(options.partition_by) == len(columns):
        raise OptionError("partitionBy", "names every column, so no column is left for the files")
    if BATCH_COLUMN in (name.lower() for name in columns):
        raise OptionError(
            "path", f"has directories {BATCH_COLUMN}=N, so no column can have the name {BATCH_COLUMN}"
        )


class BatchWriter:
    """The function that Spark calls with every micro-batch of one query."""

    def __init__(self, options: LakeOptions) -> None:
        self._options = options
        self._directory: LakeDirectory | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        query_id = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        assert query_id, "Spark sets the id of the query within a batch"
        if self._directory is None:
            owner = Owner(writer=f"query {query_id}", partition_by=self._options.partition_by)
            directory = LakeDirectory(self._options.path, owner)
            directory.claim()
            self._directory = directory
        if self._directory.read_batch(batch) is None:
            add_batch(
                self._directory,
                rows,
                self._options,
                Manifest(writer=f"query {query_id}", batch=batch, files=()),
            )


def add_batch(directory: LakeDirectory, rows: DataFrame, options: LakeOptions, manifest: Manifest) -> int:
    """Write rows as a batch and return their number; without rows and offsets no batch is made."""
    staged = directory.staging_path(manifest.batch)
    writer = rows.write.option("compression", options.compression)
    writer = writer.option("maxRecordsPerFile", options.max_records_per_file)
    # Spark's default is INT96, which is deprecated in Parquet, and whose nanoseconds end in 2262.
    writer = writer.option("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # The marker would declare a staged directory complete, which it is only after the rename.
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    if options.partition_by:
        writer = writer.partitionBy(*options.partition_by)
    writer.parquet(staged.as_uri())
    files = tuple(one for one in measure(staged) if one.rows)
    written = replace(manifest, files=files)
    if written.rows or manifest.offsets is not None:
        directory.commit(staged, written)
    else:
        directory.remove(staged)
    return written.rows
