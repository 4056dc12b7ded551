"""Batch reads: divided when Spark plans, bound to offsets and read in its tasks."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.pipeline.client.process_clusters import cluster_of
from ottla.pipeline.source.batch_plan import NewPartitions, Piece, bind, plan_batch
from ottla.pipeline.source.data_loss import LossPolicy
from ottla.pipeline.source.record_filter import RecordFilter
from ottla.pipeline.source.source_options import Mode, SourceOptions
from ottla.pipeline.spark.range_partition import BatchPartition
from ottla.pipeline.spark.worker_process import PickledIntoTasks, tune_memory

LOG = logging.getLogger("ottla.source")


class BatchReader(PickledIntoTasks, DataSourceReader):
    """Reads the records that exist when its tasks run: Spark plans a frame once, but runs it often.

    It is pickled to tasks, so it holds nothing of the process.
    """

    def __init__(self, options: Mapping[str, str], fields: tuple[str, ...]) -> None:
        self._options = SourceOptions.from_options(options, Mode.BATCH)
        self._fields = fields

    def narrow_to(self, wanted: RecordFilter) -> None:
        """Read no record that the filter leaves out."""
        self._options = replace(self._options, where=self._options.where & wanted)

    def partitions(self) -> list[InputPartition]:
        log_options_without_effect(self._options)
        tasks = plan_batch(cluster_of(self._options.client), self._options, loss_policy(self._options))
        return [BatchPartition(parts) for parts in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, BatchPartition), partition
        tune_memory()
        return self._rows(partition.parts)

    def _rows(self, parts: tuple[Piece | NewPartitions, ...]) -> Iterator[pa.RecordBatch]:
        # Imported only in processes of tasks: Arrow's functions take a third of the start of the others.
        from ottla.pipeline.source.range_rows import read_rows

        cluster, policy = cluster_of(self._options.client), loss_policy(self._options)
        for part in parts:
            for split in bind(cluster, self._options, part, policy):
                yield from read_rows(cluster, split, self._fields, policy, self._options.where.timestamps_ms)


class FilteredBatchReader(DataSourceReader):
    """The reader of a scan with a source object of its own, which accepts the filters of the query.

    Spark refuses a reader with `pushFilters` where no filters are to be pushed, so this is another class.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        from ottla.pipeline.spark.pushed_filters import to_record_filter

        self._reader.narrow_to(to_record_filter(filters))
        return filters  # Spark applies all of them to the rows as well

    def partitions(self) -> list[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)


def loss_policy(options: SourceOptions) -> LossPolicy:
    """Return the policy of the options; losses that do not stop a query go to Spark's log."""
    return LossPolicy(fails=options.fail_on_data_loss, warn=LOG.warning)


def log_options_without_effect(options: SourceOptions) -> None:
    """Log each option that was given in vain, in Spark's log."""
    for name, reason in options.without_effect:
        LOG.warning("%s has no effect: %s", name, reason)
