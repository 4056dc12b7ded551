"""A sink task's message to the driver. A module of its own, since the committing process writes no rows."""

from pyspark.sql.datasource import WriterCommitMessage

from ottla.pipeline.sink.batch_messages import TaskReport


class TaskMessage(WriterCommitMessage):
    """The message of a task; `report` is set if it wrote in a transaction."""

    def __init__(self, report: TaskReport | None = None) -> None:
        self.report = report
