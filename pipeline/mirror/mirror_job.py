"""A mirror that runs: one query for the rows, and beside it what follows in the target.

    mirror = run(spark, MirrorOptions.from_options({...}), QuerySettings(name="a-to-b", checkpoint="..."))
    mirror.query.awaitTermination()

The rows go through `foreachBatch`, as the target's topics must be there before a batch: the query knows of a
new topic when it plans a batch, and the batch is written when this has made it. It is exactly once all the
same: the sink knows a batch by the query's id and its number.
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
        # Spark calls `_write` in a thread of its own, so it has clients of its own.
        self._source, self._target = source_cluster(options), target_cluster(options)
        self._follower = TopicFollower(self._source, self._target, options)
        self._sink_options = sink_options(options)
        self._rows = RowCount()
        try:
            self._follower.prepare()
            self._follower.follow()
            self._rounds.run_due()
        finally:
            # They come again when they are needed: by a batch, by the next round.
            self._close()
        rows = mirrored_rows(spark, options)
        self.query: StreamingQuery = settings.start(rows.writeStream.foreachBatch(self._write))
        # A query of what is available now has nothing between its batches, and is over after the last.
        self._thread = (
            None
            if self._is_available_now
            else RoundsThread(self._rounds, self._is_over_after, at_end=self._close)
        )

    def status(self) -> MirrorStatus:
        """How far it is."""
        rows = self._rows.of(self.query.recentProgress)
        source, target = source_cluster(self._options), target_cluster(self._options)
        try:
            partitions = partition_status(self._options, source, target)
        finally:
            source.close()
            target.close()
        return MirrorStatus(partitions=partitions, rows=rows, rounds=self._rounds.status)

    def stop(self) -> None:
        """End the query, in the middle of a batch if need be, and all that runs beside it."""
        self.query.stop()
        if self._thread is not None:
            self._thread.join()
        self._close()

    def _close(self) -> None:
        """All connections; they come again if they are needed."""
        self._rounds.close()
        self._source.close()
        self._target.close()

    def _write(self, batch: "DataFrame", _batch_id: int) -> None:
        try:
            self._follow_and_save(batch)
        finally:
            if self._is_available_now:
                self._close()  # nobody else would, for this batch may be the last

    def _follow_and_save(self, batch: "DataFrame") -> None:
        self._follower.follow()
        try:
            self._save(batch)
        except PySparkException:
            # The node that was asked may have been behind the one that the query asked; or somebody has
            # deleted a topic of the target. What was written of the batch is aborted.
            if self._follower.follow(anew=True) == TopicChanges():
                raise
            self._save(batch)
        if self._is_available_now:
            # No thread looks after them, and this batch may be the last.
            SyncReader(self._target, self._options.policy.offset_syncs_topic()).wait_for_markers()
            self._rounds.run_groups()

    def _save(self, batch: "DataFrame") -> None:
        batch.write.format("ottla").mode("append").options(**self._sink_options).save()

    def _is_over_after(self, wait_s: int) -> bool:
        try:
            self._rows.of(self.query.recentProgress)
            return bool(self.query.awaitTermination(wait_s))
        except (PySparkException, Py4JError, OSError):
            # It failed, which is its owner's to see, or the session is gone.
            return True


def run(spark: "SparkSession", options: MirrorOptions, settings: QuerySettings) -> MirrorJob:
    """Start a mirror. KafkaError or OptionError where a cluster cannot be asked or the target refuses."""
    return MirrorJob(spark, options, settings)
