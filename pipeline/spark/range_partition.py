"""Input partitions: the form in which Spark hands ranges from a plan to a task."""

from pyspark.sql.datasource import InputPartition

from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.source.batch_plan import NewPartitions, Piece


class RangePartition(InputPartition):
    """One range of a micro-batch for one task."""

    def __init__(self, split: OffsetRange) -> None:
        self.split = split


class BatchPartition(InputPartition):
    """The parts of a batch for one task, which determines their ends."""

    def __init__(self, parts: tuple[Piece | NewPartitions, ...]) -> None:
        self.parts = parts
