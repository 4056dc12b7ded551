"""The map of offsets, read from its topic: to the end at first, then only new records."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.pipeline.client.list_offsets import EARLIEST, LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.offset_syncs import decode_sync
from ottla.pipeline.client.partition_fetcher import OutOfRange, PartitionFetcher, TopicReplaced
from ottla.pipeline.mirror.offset_map import OffsetMap

PARTITION: Final = 0  # the only partition, so that the order of batches is the order of records


class SyncReader:
    """Reads one topic of offset syncs, with a client that reads committed records only."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        assert cluster.settings.read_committed, "syncs of aborted rows would be wrong"
        self._cluster = cluster
        self._partition = TopicPartition(topic, PARTITION)
        self._position = 0
        self._topic_id = ZERO_UUID
        self.offsets = OffsetMap()
        self.refused = 0  # number of records that this module cannot have written

    def exists(self) -> bool:
        """Return True if the topic exists."""
        return bool(self._cluster.topics([self._partition.topic]))

    def read(self) -> OffsetMap:
        """Return the map of all that is committed now; an empty one if the topic does not exist."""
        topic = self._cluster.topics([self._partition.topic]).get(self._partition.topic)
        if topic is None or topic.topic_id != self._topic_id:
            self._position, self.offsets = 0, OffsetMap()
        if topic is None:
            return self.offsets
        self._topic_id = topic.topic_id
        try:
            start = list_offsets(self._cluster, {self._partition: EARLIEST})[self._partition]
            end = list_offsets(self._cluster, {self._partition: LATEST})[self._partition]
            # DeleteRecords, by an administrator, may have moved the log start: the map read so far still
            # holds.
            self._position = max(self._position, start)
            self._read_to(end)
        except (TopicGone, TopicReplaced, OutOfRange):
            # The topic is looked up again at the next call.
            self._topic_id = ZERO_UUID
        return self.offsets

    def wait_for_markers(self) -> None:
        """Wait until all records are committed or aborted, as coordinators answer before their markers."""

        def attempt() -> None:
            stable, end = (
                list_offsets(self._cluster, {self._partition: LATEST}, read_committed=only_stable)
                for only_stable in (True, False)
            )
            if stable != end:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{self._partition} has an open transaction")

        self._cluster.retry(attempt)

    def _read_to(self, end: int) -> None:
        fetcher = PartitionFetcher(self._cluster, with_headers=False)
        span = OffsetRange(partition=self._partition, topic_id=self._topic_id, start=self._position, end=end)
        for fetched in fetcher.batches(span):
            columns = fetched.columns
            assert columns is not None
            assert columns.keys is not None
            assert columns.values is not None
            for key, value in zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True):
                self._take(key, value)
            self._position = fetched.next_offset
        self._position = end

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            sync = decode_sync(key, value)
        except ValueError:
            # Without this record the map is less exact, but never wrong.
            self.refused += 1
            return
        self.offsets.add(sync.partition, sync.runs)
