"""Topics as a table that is read again whenever a plan runs, so by each micro-batch of a query that joins it.

With `spark.read.format("ottla")` each task asks for the ends of its partition when it begins, so the rows are
of several moments. Here only the options are planned, and one task asks for all offsets, so the table is of
one moment; it reads a million rows a second.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.source.source_options import Mode, SourceOptions
from ottla.pipeline.source.source_schema import COLUMNS, HEADERS, schema_text


def read_fresh(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the records of a batch read, with its columns; raises OptionError here, not in the task."""
    read = SourceOptions.from_options(options, Mode.BATCH)
    schema = schema_text(include_headers=read.include_headers)
    fields = (*COLUMNS, HEADERS) if read.include_headers else tuple(COLUMNS)
    return spark.range(0, 1, 1, 1).mapInArrow(_reader(dict(options), fields), schema)


def _reader(
    options: Mapping[str, str], fields: tuple[str, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from ottla.pipeline.spark.batch_reader import BatchReader

        for _ in given:  # one row in one batch, which Spark requires to be consumed
            reader = BatchReader(options, fields)
            for partition in reader.partitions():
                yield from reader.read(partition)

    return read
