"""The sink of a batch, on its own or inside foreachBatch, where it is as exactly once as that of a stream."""

from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.pipeline.sink.sink_cluster import Connect, connect
from ottla.pipeline.spark.sink_writer import SinkWriter, reports_of
from ottla.pipeline.words import OptionError


class BatchWriter(SinkWriter, DataSourceArrowWriter):
    """Writes the rows of a DataFrame into topics."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, overwrite: bool, connect: Connect = connect
    ) -> None:
        super().__init__(options, schema, connect)
        if overwrite:
            raise OptionError("mode", "overwrite is not supported: topics are append-only, use append")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the batch. Called at the driver, once all tasks are done."""
        if self._options.is_exactly_once and (reports := reports_of(messages)):
            self._driver().commit(reports, reports[0].run.batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the batch. Called at the driver when a task has failed; others may still be running."""
        if self._options.is_exactly_once and (reports := reports_of(messages)):
            self._driver().abort(reports, reports[0].run.batch_id)
