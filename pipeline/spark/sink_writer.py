"""The common part of the sinks of batches and of streams: the start of a writer, and the work of its tasks.

Spark pickles a writer when it goes from the planning process to the tasks. So the driver's part begins when
it is first pickled, and a commit knows of that only what the tasks report.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.pipeline.sink.batch_messages import Begun, TaskReport
from ottla.pipeline.sink.driver import Driver
from ottla.pipeline.sink.sink_cluster import Connect, connect
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.spark.sink_columns import check_columns
from ottla.pipeline.spark.table_options import new_rows, options_to_write
from ottla.pipeline.spark.task_message import TaskMessage
from ottla.pipeline.spark.worker_process import PickledIntoTasks

# The memory of this process about the batches that it has planned; not pickled.
_INCARNATIONS: Final[dict[SinkOptions, Any]] = {}


class SinkWriter(PickledIntoTasks):
    """Writes rows into topics; `commit` and `abort` differ and are in the two sinks."""

    def __init__(self, options: Mapping[str, str], schema: StructType, connect: Connect = connect) -> None:
        given = options_to_write(options, schema)
        self._options = SinkOptions.from_options(given.options)
        self._inserts = given.is_insert
        self._connect = connect
        self._begun: Begun | None = None
        check_columns(schema, self._options)

    def __getstate__(self) -> dict[str, Any]:
        if self._options.is_exactly_once and self._begun is None:
            self._begun = self._driver().begin()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task. Called in each task."""
        # Processes that plan and commit write no rows; the encoders would take half of their start.
        from ottla.pipeline.spark.sink_task import write_at_least_once, write_exactly_once

        rows = new_rows(iterator) if self._inserts else iterator
        if not self._options.is_exactly_once:
            return write_at_least_once(self._options, rows)
        assert self._begun is not None, "it was pickled on its way here"
        return write_exactly_once(self._options, self._begun, self._connect, rows)

    def _driver(self) -> Driver:
        """Return the driver's part, with the memory of this process."""
        return Driver(self._options, self._connect(self._options), _INCARNATIONS)


def reports_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    """Return the reports of the tasks; None stands for a task without one."""
    return [one.report for one in messages if isinstance(one, TaskMessage) and one.report is not None]
