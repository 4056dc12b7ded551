"""The sink of a stream: Spark plans it, writes and commits in three kinds of processes, each with a copy.

For each batch one is made in the planning process, and pickled twice from there; another one is made where
batches are committed.
"""

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.pipeline.spark.sink_writer import SinkWriter, reports_of


class StreamWriter(SinkWriter, DataSourceStreamArrowWriter):
    """Writes the rows of a query into topics."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a batch.

        Called at the driver, once all tasks are done; again if Spark runs the batch again.
        """
        if self._options.is_exactly_once:
            self._driver().commit(reports_of(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort a batch.

        Called at the driver when a task or a commit has failed; tasks may still be running.
        """
        if self._options.is_exactly_once:
            self._driver().abort(reports_of(messages), batchId)
