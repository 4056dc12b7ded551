"""A table of a database as a stream: each new row once, in order, or in mode bulk all rows again and again.

It needs no jar: Spark's own JDBC reader needs one for each database, and reads batches only. The checkpoint
has the position in the table. With an exactly-once sink each row that was read is written once.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.connect.record_mapping import to_records
from ottla.pipeline.connect.table_columns import texts_name
from ottla.pipeline.connect.table_options import TableOptions
from ottla.pipeline.connect.table_reader import FORMAT, TableDataSource, find_columns


def read_stream(spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
    """Return a stream of `key` and `value`, or of the table's columns with `output` = rows.

    Raises OptionError, and TableError if the database fails.
    """
    options = TableOptions.from_options(given)
    # Spark does the same in another process, and would wrap the error in a message of its own.
    columns = find_columns(options)
    spark.dataSource.register(TableDataSource)
    frame = spark.readStream.format(FORMAT).options(**given).load()
    return to_records(frame, options.mapping, texts=texts_name(columns))
