"""The map of offsets as it stands in its topic: read to the end, then only what is new."""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.pipeline.client.list_offsets import EARLIEST, LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.offset_syncs import decode_sync
from ottla.pipeline.client.partition_fetcher import OutOfRange, PartitionFetcher, TopicReplaced
from ottla.pipeline.mirror.offset_map import OffsetMap

PARTITION: Final = 0  # the only one: the order of batches is the order of records


class SyncReader:
    """Reads one topic of offset syncs, with a client that reads what is committed."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        assert cluster.settings.read_committed, "a sync of rows that were aborted leads astray"
        self._cluster = cluster
        self._partition = TopicPartition(topic, PARTITION)
        self._position = 0
        self._topic_id = ZERO_UUID
        self.offsets = OffsetMap()
        self.refused = 0  # records that nobody here wrote

    def exists(self) -> bool:
        """Whether there is such a topic."""
        return bool(self._cluster.topics([self._partition.topic]))

    def read(self) -> OffsetMap:
        """The map with all that is committed now; an empty one where there is no such topic."""
        topic = self._cluster.topics([self._partition.topic]).get(self._partition.topic)
        if topic is None or topic.topic_id != self._topic_id:
            self._position, self.offsets = 0, OffsetMap()
        if topic is None:
            return self.offsets
        self._topic_id = topic.topic_id
        try:
            start = list_offsets(self._cluster, {self._partition: EARLIEST})[self._partition]
            end = list_offsets(self._cluster, {self._partition: LATEST})[self._partition]
            # Records of it were deleted, which only a person does as it is compacted: the rest still holds.
            self._position = max(self._position, start)
            self._read_to(end)
        except (TopicGone, TopicReplaced, OutOfRange):
            # It is looked for again next time.
            self._topic_id = ZERO_UUID
        return self.offsets

    def wait_for_markers(self) -> None:
        """Until all that is written is committed or aborted: a coordinator answers before its markers go."""

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
            # Without it the map tells less, which is never wrong.
            self.refused += 1
            return
        self.offsets.add(sync.partition, sync.runs)
