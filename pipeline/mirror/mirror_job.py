"""A running mirror: one query for the rows, and rounds beside it that copy topics, settings and groups.

    mirror = run(spark, MirrorOptions.from_options({...}), QuerySettings(name="a-to-b", checkpoint="..."))
    mirror.query.awaitTermination()

The rows go through `foreachBatch`, as the target's topics must exist before a batch: the query learns of a
new topic when it plans a batch, and the batch is written after this module has created the topic. It is
exactly once nevertheless: the sink identifies a batch by the query's id and its number.
"""

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.mirror_rounds import MirrorRounds, RoundsThread, RowCount
from ottla.pipeline.mirror.mirror_status import MirrorStatus, partition_status, source_cluster, target_cluster
from ottla.pipeline.mirror.mirrored_rows import mirrored_rows, sink_options
from ottla.pipeline.mirror.sync_reader import SyncReader
from ottla.pipeline.mirror.topic_changes import TopicChanges
from ottla.pipeline.mirror.topic_follower import TopicFollower
from ottla.pipeline.query import AvailableNow, QuerySettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class MirrorJob:
    """A mirror that was started by `run`."""

    def __init__(self, spark: "SparkSession", options: MirrorOptions, settings: QuerySettings) -> None:
        self._options = options
        self._rounds = MirrorRounds(options)
        self._is_available_now = isinstance(settings.trigger, AvailableNow)
        # Spark calls `_write` in another thread, which needs clients of its own.
        self._source, self._target = source_cluster(options), target_cluster(options)
        self._follower = TopicFollower(self._source, self._target, options)
        self._sink_options = sink_options(options)
        self._rows = RowCount()
        try:
            self._follower.prepare()
            self._follower.follow()
            self._rounds.run_due()
        finally:
            # Batches and rounds open them again when needed.
            self._close()
        rows = mirrored_rows(spark, options)
        self.query: StreamingQuery = settings.start(rows.writeStream.foreachBatch(self._write))
        # With Trigger.AvailableNow there is no time between batches, and the query ends after the last one.
        self._thread = (
            None
            if self._is_available_now
            else RoundsThread(self._rounds, self._wait_for_end, at_end=self._close)
        )

    def status(self) -> MirrorStatus:
        """Return the status of the mirror."""
        rows = self._rows.add(self.query.recentProgress)
        source, target = source_cluster(self._options), target_cluster(self._options)
        try:
            partitions = partition_status(self._options, source, target)
        finally:
            source.close()
            target.close()
        return MirrorStatus(partitions=partitions, rows=rows, rounds=self._rounds.status)

    def stop(self) -> None:
        """Stop the query, if need be in the middle of a batch, and the rounds beside it."""
        self.query.stop()
        if self._thread is not None:
            self._thread.join()
        self._close()

    def _close(self) -> None:
        """Close all connections; they are opened again if needed."""
        self._rounds.close()
        self._source.close()
        self._target.close()

    def _write(self, batch: "DataFrame", _batch_id: int) -> None:
        try:
            self._follow_and_save(batch)
        finally:
            if self._is_available_now:
                self._close()  # no other code does, as this batch may be the last

    def _follow_and_save(self, batch: "DataFrame") -> None:
        self._follower.follow()
        try:
            self._save(batch)
        except PySparkException:
            # The node that was asked may lag behind the one that the query asked, or a topic of the target
            # was deleted. The rows already written of the batch are aborted.
            if self._follower.follow(checks_target=True) == TopicChanges():
                raise
            self._save(batch)
        if self._is_available_now:
            # There is no rounds thread, and this batch may be the last.
            SyncReader(self._target, self._options.policy.offset_syncs_topic()).wait_for_markers()
            self._rounds.run_groups()

    def _save(self, batch: "DataFrame") -> None:
        batch.write.format("ottla").mode("append").options(**self._sink_options).save()

    def _wait_for_end(self, wait_s: int) -> bool:
        """Count the new rows, wait up to `wait_s` for the query to end, and return whether it has."""
        try:
            self._rows.add(self.query.recentProgress)
            return bool(self.query.awaitTermination(wait_s))
        except (PySparkException, Py4JError, OSError):
            # It failed, which the caller sees, or the session is gone.
            return True


def run(spark: "SparkSession", options: MirrorOptions, settings: QuerySettings) -> MirrorJob:
    """Start a mirror. Raises KafkaError or OptionError if a cluster cannot be asked or the target refuses."""
    return MirrorJob(spark, options, settings)
