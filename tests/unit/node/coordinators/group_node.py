"""A node's group coordinator on real logs in memory, for tests. A restart keeps the disk."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.groupcoord.consumer.consumer_commands import TopicsChanged
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.logstore.compression import Compression
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.cluster_features import GROUP_VERSION
from ottla.metadata_raft.delta import ChangedTopic, MetadataChanges
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.clock import ManualClock
from ottla.node.coordinators.group_runtime import GroupRuntime, Make
from ottla.node.coordinators.group_topics import ImageTopics
from ottla.node.coordinators.persister_jobs import StatePersister
from ottla.node.metadata.suspected_brokers import SuspectedBrokers
from ottla.node.net.answers import Delayed
from ottla.node.replica.partition import Assignment, Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.services import Services
from ottla.node.settings.config import parse_config
from tests.unit.node.fakes import services_of

TOPIC_ID = bytes(range(16))
NUM_PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class CompactedLogs:
    """The parts of a log manager that a coordinator's topic needs, on a disk in memory."""

    disk: MemoryDisk
    clock: ManualClock

    def get_or_create(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, *, is_new: bool
    ) -> PartitionLog:
        return PartitionLog.open(
            disk=self.disk,
            directory=Path("/data") / str(topic_partition),
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=config,
            now_ms=self.clock.now_ms(),
            clean_shutdown=True,
        )


def replicas_on(disk: MemoryDisk, clock: ManualClock, image: Callable[[], MetadataImage]) -> ReplicaManager:
    """Return the replicas of node 1, whose logs are on this disk."""
    return ReplicaManager(
        broker_id=1,
        log_manager=cast(Any, CompactedLogs(disk, clock)),
        image=image,
        log_config=lambda *_: LogConfig(cleanup_policy=("compact",)),
    )


def host_topic(
    replicas: ReplicaManager, before: MetadataImage, name: str, assignment: Assignment
) -> TopicsImage:
    """Assign all partitions of a coordinator's topic, and open their logs if needed; return the topics."""
    partitions = tuple(
        PartitionImage(
            partition=index,
            replicas=assignment.replicas,
            isr=assignment.in_sync_replicas,
            leader=assignment.leader_id,
            leader_epoch=assignment.leader_epoch,
            partition_epoch=assignment.partition_epoch,
        )
        for index in range(NUM_PARTITIONS)
    )
    topic = TopicImage(name, TOPIC_ID, partitions)
    topics = TopicsImage(by_name={name: topic}, by_id={TOPIC_ID: topic})
    changed = ChangedTopic(before.topics.by_name.get(name), topic)
    replicas.apply(
        MetadataImage(topics=topics),
        MetadataChanges((changed,), configs=frozenset(), brokers=frozenset(), features=False),
    )
    return topics


@contextmanager
def too_few_replicas() -> Iterator[None]:
    """Let the block run with fewer replicas in sync than min.insync.replicas."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Partition, "has_enough_replicas", lambda partition: False)
        yield


class GroupNode:
    """The parts of one broker that the group coordinator needs."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        replicas: tuple[int, ...] = (1,),
        compression: Compression = Compression.NONE,
        heartbeat_hold_ms: int = 0,
        max_batch_bytes: int = 1_048_588,
        persister: StatePersister | None = None,
    ) -> None:
        self.suspects = SuspectedBrokers()
        self.disk = disk or MemoryDisk()
        self.clock = ManualClock()
        self.image = MetadataImage(features={GROUP_VERSION: 1})
        self.created = 0
        self.replicas = replicas_on(self.disk, self.clock, lambda: self.image)
        self._assignment = replicas
        self.group_lag: Any = None  # a `GroupLag`, set by tests that need it
        self.share_views: Any = None  # a `ShareViews`, set by tests that need it
        self.groups = GroupRuntime(
            config=CoordinatorConfig(group_initial_rebalance_delay_ms=0, max_batch_bytes=max_batch_bytes),
            replicas=self.replicas,
            image=lambda: self.image,
            create_offsets_topic=self.create_offsets_topic,
            clock=self.clock,
            offsets_topic_num_partitions=NUM_PARTITIONS,
            offsets_commit_timeout_ms=100,
            offsets_topic_compression=compression,
            heartbeat_hold_ms=heartbeat_hold_ms,
            persister=persister,
        )

    async def create_offsets_topic(self) -> None:
        self.created += 1
        await asyncio.sleep(0)
        self.host(leader_epoch=0)

    def host(self, *, leader_epoch: int, leader: int = 1) -> None:
        assignment = Assignment(
            leader_id=leader,
            leader_epoch=leader_epoch,
            partition_epoch=0,
            replicas=self._assignment,
            in_sync_replicas=self._assignment,
        )
        self.image = MetadataImage(
            topics=host_topic(self.replicas, self.image, OFFSETS_TOPIC, assignment),
            features=self.image.features,
        )
        self.add_topic("t", b"t" * 16)  # for which the tests commit offsets

    async def ask(self, group_id: str, make: Make) -> Any:
        answer = self.groups.ask(group_id, make, lambda answer: answer)
        if isinstance(answer, Delayed):
            return answer.answer(await answer.future)
        return answer

    @property
    def services(self) -> Services:
        """The parts of a node that the handlers of the group APIs use."""
        return services_of(
            parse_config({"node.id": "1", "advertised.listeners": "PLAINTEXT://here:9092"}),
            groups=self.groups,
            group_lag=self.group_lag,
            share_views=self.share_views,
            metadata=self,
        )

    def add_topic(self, name: str, topic_id: bytes, partitions: int = 2) -> None:
        image = self.image
        parts = tuple(
            PartitionImage(
                partition=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
            )
            for index in range(partitions)
        )
        topic = TopicImage(name, topic_id, parts)
        self.image = MetadataImage(
            topics=TopicsImage(
                by_name={**image.topics.by_name, name: topic}, by_id={**image.topics.by_id, topic_id: topic}
            ),
            features=image.features,
        )

    def topics_now(self) -> TopicsChanged:
        """Return the command for a change to the present topics."""
        return TopicsChanged(topics=ImageTopics(self.image), has_new_topics=True, changed=frozenset())

    async def loaded(self) -> None:
        async with asyncio.timeout(60):
            while not all(shard.is_loaded for shard in self.groups.shards.values()):
                await asyncio.sleep(0.001)


Scenario = Callable[[GroupNode], Coroutine[Any, Any, None]]


def play(scenario: Scenario, node: GroupNode | None = None) -> GroupNode:
    node = node or GroupNode()

    async def run() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            node.groups.start(tasks.create_task)
            await scenario(node)
            node.groups.close()

    asyncio.run(run())
    return node
