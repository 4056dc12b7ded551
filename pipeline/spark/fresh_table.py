"""Topics as a table that is read anew whenever a plan runs, so by each micro-batch of a query that joins it.

Of `spark.read.format("ottla")` each task asks for the ends of its partition when it begins, so its rows are
of several moments. Here nothing but the options is planned; one task asks for all offsets, so that the table
is of one moment; it reads a million rows a second.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.source.source_options import Mode, SourceOptions
from ottla.pipeline.source.source_schema import COLUMNS, HEADERS, schema_text


def read_fresh(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The records of the options of a batch, with the same columns; OptionError here, and not in the task."""
    read = SourceOptions.from_options(options, Mode.BATCH)
    schema = schema_text(include_headers=read.include_headers)
    fields = (*COLUMNS, HEADERS) if read.include_headers else tuple(COLUMNS)
    return spark.range(0, 1, 1, 1).mapInArrow(_reader(dict(options), fields), schema)


def _reader(
    options: Mapping[str, str], fields: tuple[str, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from ottla.pipeline.spark.batch_reader import BatchReader

        for _ in given:  # one row in one batch: Spark wants it taken
            reader = BatchReader(options, fields)
            for partition in reader.partitions():
                yield from reader.read(partition)

    return read
