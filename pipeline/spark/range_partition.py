"""Ranges in the form in which Spark hands them from a plan to a task: as input partitions."""

from pyspark.sql.datasource import InputPartition

from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.source.batch_plan import Newcomers, Piece


class RangePartition(InputPartition):
    """One range of a micro-batch for one task."""

    def __init__(self, split: OffsetRange) -> None:
        self.split = split


class BatchPartition(InputPartition):
    """The parts of a batch for one task, which finds out where they end."""

    def __init__(self, parts: tuple[Piece | Newcomers, ...]) -> None:
        self.parts = parts
