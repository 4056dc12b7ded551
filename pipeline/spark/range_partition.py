"""What Spark hands from a plan to a task: a range of offsets, as the partition that it demands."""

from pyspark.sql.datasource import InputPartition

from pipeline.client.offset_range import OffsetRange


class RangePartition(InputPartition):
    """One range for one task."""

    def __init__(self, split: OffsetRange) -> None:
        self.split = split
