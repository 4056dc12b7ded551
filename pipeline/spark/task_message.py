"""What a task of the sink tells the driver; by itself, as who commits writes no rows."""

from pyspark.sql.datasource import WriterCommitMessage

from ottla.pipeline.sink.batch_messages import TaskReport


class TaskMessage(WriterCommitMessage):
    """`report` where the task wrote in a transaction."""

    def __init__(self, report: TaskReport | None = None) -> None:
        self.report = report
