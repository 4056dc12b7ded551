"""Stream reads: offsets and plans in one process that lasts as long as the query, rows in Spark's tasks.

Spark makes one reader for the driver, and sends a second one to the tasks, where only `read` is called.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.logstore.words.errors import KafkaError
from ottla.pipeline.client.clock import monotonic_ms
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.client.process_clusters import cluster_of
from ottla.pipeline.source.admission import MinimumWait, rate_limit
from ottla.pipeline.source.log_ends import ends_after, resolve
from ottla.pipeline.source.source_offsets import SourceOffsets, read_offsets
from ottla.pipeline.source.source_options import Mode, SourceOptions
from ottla.pipeline.source.stream_plan import begin_offsets, is_before, plan_micro_batch
from ottla.pipeline.source.subscription import find_subscribed
from ottla.pipeline.spark.batch_reader import LOG, log_options_without_effect, loss_policy
from ottla.pipeline.spark.range_partition import RangePartition
from ottla.pipeline.spark.worker_process import PickledIntoTasks, tune_memory

CHECKPOINT: Final = "checkpoint"
# The group's offsets only serve lag tools; a query does not wait for them as for its own.
COMMIT_TIMEOUT_MS: Final = 5_000
Json = dict[str, Any]


class StreamReader(PickledIntoTasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. The driver of a query exchanges offsets with it as JSON."""

    def __init__(self, options: Mapping[str, str], fields: tuple[str, ...]) -> None:
        self._options = SourceOptions.from_options(options, Mode.STREAM)
        self._fields = fields
        least = self._options.min_offsets_per_trigger
        delay_ms = self._options.max_trigger_delay_ms
        self._wait = None if least is None else MinimumWait(least, delay_ms)
        self._initial: Json | None = None
        self._is_pinned = False
        self._latest: SourceOffsets | None = None
        self._is_available_now = False
        self._target: SourceOffsets | None = None
        self._planned: tuple[Json, Json, list[InputPartition]] | None = None
        self._committed: Json | None = None

    # ---- the driver -------------------------------------------------------------------------------

    def initialOffset(self) -> Json:
        # Spark asks twice, for the end and for the start of its first batch; rows may come in between.
        if self._initial is None:
            log_options_without_effect(self._options)
            cluster = self._cluster()
            subscribed = find_subscribed(cluster, self._options.subscription)
            subscribed.check()
            limit, name = self._options.start, self._options.start_name
            self._initial = resolve(cluster, subscribed, limit, name, self._options).to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no combined limit in Python, so `latestOffset` applies the minimum.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_available_now = True

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        self.commit(start)
        begun = self._options.as_known(read_offsets(start, CHECKPOINT))
        self._latest = latest = self._latest_after(begun)
        if self._begins_at_latest(start) and not self._is_pinned:
            # Spark keeps the end of a batch in its checkpoint, but asks again for the start of the first one
            # when that runs again, so rows that came in between would be left out. Therefore the first batch
            # has no rows.
            self._is_pinned = True
            return start
        if isinstance(limit, ReadAllAvailable):
            return latest.to_json()
        begin = begin_offsets(self._cluster(), begun, latest, loss_policy(self._options))
        # With Trigger.AvailableNow a minimum would wait for ever: records that come later are not read.
        wait = None if self._is_available_now else self._wait
        if wait is not None and wait.goes_on(begin.offsets, latest.offsets, monotonic_ms()):
            return start
        if not isinstance(limit, ReadMaxRows):
            return latest.to_json()
        offsets = rate_limit(begin.offsets, latest.offsets, limit.max_rows)
        return SourceOffsets(offsets=offsets, topic_ids=latest.topic_ids).to_json()

    def reportLatestOffset(self) -> Json | None:
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        # Spark asks more than once for the plan of a batch.
        if self._planned is None or self._planned[:2] != (start, end):
            begun = self._options.as_known(read_offsets(start, CHECKPOINT))
            until = read_offsets(end, CHECKPOINT)
            if self._begins_at_latest(start) and is_before(until, begun):
                return []  # the first batch runs again, and the logs end elsewhere now
            policy = loss_policy(self._options)
            splits = plan_micro_batch(self._cluster(), self._options, begun, until, policy)
            self._planned = start, end, [RangePartition(split) for split in splits]
        return self._planned[2]

    def commit(self, end: Json) -> None:
        if self._options.group_id is None or end == self._committed:
            return
        offsets = {
            partition: CommittedOffset(offset=offset)
            for partition, offset in read_offsets(end, CHECKPOINT).offsets.items()
        }
        try:
            commit_offsets(self._cluster(), self._options.group_id, offsets, timeout_ms=COMMIT_TIMEOUT_MS)
        except (KafkaError, TopicGone) as fault:
            # The checkpoint is what counts: a query does not stop because its lag cannot be shown.
            LOG.warning("offsets could not be committed to group %s: %s", self._options.group_id, fault)
        self._committed = end

    def stop(self) -> None:
        self._cluster().close()

    def _begins_at_latest(self, start: Json) -> bool:
        """Return True if the query begins at `start`, where some log ended when it was asked."""
        return start == self._initial and self._options.starts_at_latest

    def _latest_after(self, begun: SourceOffsets) -> SourceOffsets:
        if self._target is not None:
            return self._target
        ends, losses = ends_after(self._cluster(), self._options, begun, _pause)
        loss_policy(self._options).report(losses)
        if self._is_available_now:
            self._target = ends
        return ends

    def _cluster(self) -> Cluster:
        return cluster_of(self._options.client)

    # ---- tasks ------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Imported only in processes of tasks: Arrow's functions take a third of the start of the others.
        from ottla.pipeline.source.range_rows import read_rows

        assert isinstance(partition, RangePartition), partition
        tune_memory()
        return read_rows(self._cluster(), partition.split, self._fields, loss_policy(self._options))


def _pause(pause_ms: int) -> None:
    time.sleep(pause_ms / 1000)
