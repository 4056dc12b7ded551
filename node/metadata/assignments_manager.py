"""Reports to the controller the log directory of each replica of this node, and the failed directories.

As in Apache Kafka (KIP-858), a replica in a directory that is not online is offline for the whole cluster. So
a failed directory costs one record, and one for each partition that loses its leader. A report that fails is
sent again later; a newer assignment of a replica replaces the older one. Until the controller knows of a
failed directory, no other broker leads the partitions in it. So a node that cannot report it in time shuts
down.
"""

import asyncio
import logging
from itertools import islice

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.commands import AssignReplicasToDirs, ReplicaDirectory, ReportOfflineLogDirs
from ottla.metadata_raft.records import LOST_DIRECTORY
from ottla.node.metadata.metadata_runtime import MetadataRuntime

# The limit of one request of Apache Kafka's brokers; a command may need a record for each assignment.
MAX_ASSIGNMENTS_PER_COMMAND = 2_250
RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)


class AssignmentsManager:
    """The assignments and failed directories that the controller does not know. Used on the event loop."""

    def __init__(self, metadata: MetadataRuntime, *, failure_timeout_ms: int) -> None:
        self._metadata = metadata
        self._failure_timeout_s = failure_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._attempt: asyncio.Timeout | None = None
        self._assignments: dict[tuple[bytes, int], bytes] = {}  # (topic id, partition) -> directory id
        self._failed_dirs: dict[bytes, float] = {}  # and the deadline of each report, by the loop's clock
        self._has_news = asyncio.Event()

    def assign(self, topic_partition: TopicPartition, directory_id: bytes | None) -> None:
        """Report the directory of a replica of this node; None if it is unknown: the replica is offline."""
        metadata = self._metadata
        topic = metadata.image.topics.by_name.get(topic_partition.topic)
        partition = metadata.image.topics.partition(topic_partition)
        if topic is None or partition is None or metadata.broker_id not in partition.replicas:
            return
        place = (topic.topic_id, topic_partition.partition)
        known = partition.directory(metadata.broker_id)
        if directory_id is None:
            if not metadata.image.brokers[metadata.broker_id].has_online_dir(known):
                return
            directory_id = LOST_DIRECTORY
        # While an assignment is being sent, the image does not show it yet, so even an equal one is replaced.
        if known != directory_id or place in self._assignments:
            self._assignments[place] = directory_id
            self._has_news.set()

    def dir_failed(self, directory_id: bytes) -> None:
        """Report that a directory has failed: none of its replicas can be served."""
        # Logs are closed in a thread when the node stops, and a disk may fail then.
        reported_by_s = self._loop.time() + self._failure_timeout_s
        self._failed_dirs.setdefault(directory_id, reported_by_s)
        self._has_news.set()
        if self._attempt is not None:
            self._attempt.reschedule(self._reported_by_s)

    async def run(self) -> None:
        """Send reports until cancelled.

        KAFKA_STORAGE_ERROR, which ends the node, if a failed directory cannot be reported in time.
        """
        while True:
            await self._has_news.wait()
            try:
                async with asyncio.timeout_at(self._reported_by_s) as self._attempt:
                    if not await self.report():
                        await asyncio.sleep(RETRY_SECONDS)
            except TimeoutError:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    "The failure of a log directory could not be reported to the controller for "
                    f"{self._failure_timeout_s:g} s (log.dir.failure.timeout.ms), so the node shuts down.",
                ) from None
            finally:
                self._attempt = None

    @property
    def _reported_by_s(self) -> float | None:
        """The time by which the first failed directory must be reported; None if none has failed."""
        return min(self._failed_dirs.values(), default=None)

    async def report(self) -> bool:
        """Send everything that the controller does not know; return False if it did not accept all of it."""
        metadata = self._metadata
        try:
            while self._failed_dirs:
                failed = tuple(self._failed_dirs)
                await metadata.submit(
                    ReportOfflineLogDirs(
                        broker_id=metadata.broker_id, broker_epoch=metadata.broker_epoch, log_dirs=failed
                    )
                )
                for directory_id in failed:
                    del self._failed_dirs[directory_id]
            while self._assignments:
                sent = tuple(islice(self._assignments.items(), MAX_ASSIGNMENTS_PER_COMMAND))
                await metadata.submit(
                    AssignReplicasToDirs(
                        broker_id=metadata.broker_id,
                        broker_epoch=metadata.broker_epoch,
                        assignments=[
                            ReplicaDirectory(
                                topic_id=topic_id, partition_index=index, directory_id=directory_id
                            )
                            for (topic_id, index), directory_id in sent
                        ],
                    )
                )
                for place, directory_id in sent:
                    if self._assignments[place] == directory_id:
                        del self._assignments[place]
        except KafkaError as error:
            log.warning(
                "The log directories of this node's replicas could not be reported to the controller: %s",
                error,
            )
            return False
        if not self._failed_dirs:
            self._has_news.clear()
        return True
