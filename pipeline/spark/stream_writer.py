"""The sink of a stream: Spark plans it, writes and commits in three kinds of processes, each with a copy.

For each batch it is made anew where plans are made, and pickled twice from there; then made anew once more
where batches are committed.
"""

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.pipeline.spark.sink_writer import SinkWriter, reports_of


class StreamWriter(SinkWriter, DataSourceStreamArrowWriter):
    """Rows of a query into topics."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Called where the driver is, once all tasks are done; again for a batch that Spark runs again."""
        if self._options.is_exactly_once:
            self._driver().commit(reports_of(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Called where the driver is, when a task or a commit has failed; tasks may still be at work."""
        if self._options.is_exactly_once:
            self._driver().abort(reports_of(messages), batchId)
