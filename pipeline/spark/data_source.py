"""`format("ottla")`: the class that Spark asks for readers and writers, of batches and of streams.

Spark makes a new object in each process that plans, reads, writes or commits, so the readers and writers are
imported only when they are asked for, and the object keeps nothing.
"""

import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.pipeline.spark.worker_process import tune_memory

if TYPE_CHECKING:
    from ottla.pipeline.spark.batch_reader import BatchReader, FilteredBatchReader
    from ottla.pipeline.spark.batch_writer import BatchWriter
    from ottla.pipeline.spark.stream_reader import StreamReader
    from ottla.pipeline.spark.stream_writer import StreamWriter

# Spark's module that pushes filters. Only its call of `reader` may get a reader that takes filters.
_PUSHES_FILTERS: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class OttlaDataSource(DataSource):
    """Topics of an Ottla or Apache Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    # ---- source -----------------------------------------------------------------------------------

    def schema(self) -> StructType | str:
        from ottla.pipeline.source.source_options import check_for_any_mode
        from ottla.pipeline.source.source_schema import schema_text
        from ottla.pipeline.spark.table_options import (
            columns_with,
            options_for_sink,
            options_for_source,
            options_of_new_table,
        )

        table = options_of_new_table(self.options)
        if table is not None:
            from ottla.pipeline.sink.sink_options import SinkOptions

            include_headers = check_for_any_mode(options_for_source(table)).include_headers
            SinkOptions.from_options(options_for_sink(table))
            return columns_with(table, include_headers=include_headers)
        return schema_text(include_headers=check_for_any_mode(self.options).include_headers)

    def reader(self, schema: StructType) -> "BatchReader | FilteredBatchReader":
        from ottla.pipeline.source.option_names import SCAN_OPTION
        from ottla.pipeline.spark.batch_reader import BatchReader, FilteredBatchReader

        tune_memory()
        reader = BatchReader(self._options(schema), self._fields(schema))
        caller = sys._getframe(1).f_globals.get("__spec__")
        is_pushed = caller is not None and caller.name == _PUSHES_FILTERS and SCAN_OPTION in self.options
        return FilteredBatchReader(reader) if is_pushed else reader

    def streamReader(self, schema: StructType) -> "StreamReader":
        from ottla.pipeline.spark.stream_reader import StreamReader

        tune_memory()
        return StreamReader(self._options(schema), self._fields(schema))

    def _options(self, schema: StructType) -> dict[str, str]:
        from ottla.pipeline.source.option_names import SCAN_OPTION
        from ottla.pipeline.spark.table_options import options_to_read

        options = options_to_read(self.options, schema)
        options.pop(SCAN_OPTION, None)
        return options

    def _fields(self, schema: StructType) -> tuple[str, ...]:
        from ottla.pipeline.source.source_options import check_for_any_mode
        from ottla.pipeline.source.source_schema import check_columns

        columns = [(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields]
        include_headers = check_for_any_mode(self._options(schema)).include_headers
        return check_columns(columns, include_headers=include_headers)

    # ---- sink -------------------------------------------------------------------------------------

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        from ottla.pipeline.spark.batch_writer import BatchWriter

        tune_memory()
        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        from ottla.pipeline.spark.stream_writer import StreamWriter

        tune_memory()
        return StreamWriter(self.options, schema)
