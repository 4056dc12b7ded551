"""A table of a database as a stream of its rows, each once, in the order of their places.

No jar: Spark's own JDBC reader needs one for each database, and reads batches only. The checkpoint has how
far the table was read. With an exactly-once sink each row that was read is there once.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.connect.record_mapping import to_records
from ottla.pipeline.connect.table_columns import texts_name
from ottla.pipeline.connect.table_options import TableOptions
from ottla.pipeline.connect.table_reader import FORMAT, TableDataSource, find_columns


def read_stream(spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
    """Columns `key` and `value`, or with `output` = rows those of the table; OptionError, TableError."""
    options = TableOptions.from_options(given)
    # Spark asks as well, in another process, and would wrap what is told in its own words.
    columns = find_columns(options)
    spark.dataSource.register(TableDataSource)
    frame = spark.readStream.format(FORMAT).options(**given).load()
    return to_records(frame, options.mapping, texts=texts_name(columns))
