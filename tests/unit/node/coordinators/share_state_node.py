"""A node's share coordinator on real logs in memory, for tests. A restart keeps the disk."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC, decode_record
from ottla.groupcoord.share_state.share_state_words import (
    InitializeState,
    ReadState,
    StateAnswer,
    StateRequest,
    WriteState,
)
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.record import iterate_records
from ottla.logstore.record_batch import LOG_OVERHEAD, iterate_headers
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.clock import ManualClock
from ottla.node.coordinators.share_state_runtime import ShareStateRuntime, answer_of
from ottla.node.metadata.suspected_brokers import SuspectedBrokers
from ottla.node.replica.partition import Assignment, Partition
from ottla.node.services import Services
from ottla.node.settings.config import parse_config
from tests.unit.groupcoord.share_state.share_state_world import KEY, batch, topic_id
from tests.unit.node.coordinators.group_node import NUM_PARTITIONS, host_topic, replicas_on
from tests.unit.node.fakes import services_of

PARTS = tuple(
    PartitionImage(partition=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    for index in range(2)
)


class ShareStateNode:
    """The parts of one broker that the coordinator needs, with topics 1 and 2."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        replicas: tuple[int, ...] = (1,),
        config: ShareCoordinatorConfig | None = None,
        topics: Iterable[int] = (1, 2),
        states: NodeBytes | None = None,
    ) -> None:
        self.suspects = SuspectedBrokers()
        self.disk = disk or MemoryDisk()
        self.clock = ManualClock()
        self.image = MetadataImage()
        self.topics = list(topics)
        self.created = 0
        self.states = states or NodeBytes()
        self._assignment = replicas
        self.replicas = replicas_on(self.disk, self.clock, lambda: self.image)
        self.coordinators = ShareStateRuntime(
            config=config or ShareCoordinatorConfig(),
            replicas=self.replicas,
            image=lambda: self.image,
            create_topic=self.create_topic,
            clock=self.clock,
            num_partitions=NUM_PARTITIONS,
            commit_timeout_ms=100,
            states=self.states,
        )

    async def create_topic(self) -> None:
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
        topics = host_topic(self.replicas, self.image, SHARE_STATE_TOPIC, assignment)
        by_name, by_id = dict(topics.by_name), dict(topics.by_id)
        for number in self.topics:
            topic = TopicImage(f"t{number}", topic_id(number), PARTS)
            by_name[topic.name] = by_id[topic.topic_id] = topic
        self.image = MetadataImage(topics=TopicsImage(by_name=by_name, by_id=by_id))

    @property
    def services(self) -> Services:
        """The parts of a node that the handlers of the share state APIs use."""
        return services_of(
            parse_config({"node.id": "1", "advertised.listeners": "PLAINTEXT://here:9092"}),
            share_states=self.coordinators,
            metadata=self,
        )

    def submit(self, request: StateRequest) -> "asyncio.Future[Any] | Any":
        return self.coordinators.submit(request)

    async def ask(self, request: StateRequest) -> StateAnswer:
        outcome = self.submit(request)
        return answer_of(request, await outcome if isinstance(outcome, asyncio.Future) else outcome)

    async def begin(self) -> None:
        """Initialize a state and write a batch to it."""
        await self.coordinators.coordinator_of(KEY.coordinator_key)
        await self.ask(InitializeState(KEY, 0, 0))
        await self.ask(WriteState(KEY, 0, 0, -1, 1, (batch(0, 0, 2),)))

    async def read(self) -> StateAnswer:
        return await self.ask(ReadState(KEY, -1))

    @property
    def partition(self) -> Partition:
        index = self.coordinators.partition_for(KEY.coordinator_key)
        found = self.replicas.find((SHARE_STATE_TOPIC, index))
        assert found is not None
        return found

    @property
    def records(self) -> list[object]:
        segment = self.partition.log.active_segment
        content = memoryview(bytes(segment.slice(0, segment.size_bytes).read()))
        return [
            decode_record(record.key or b"", record.value)
            for position, header in iterate_headers(content)
            for record in iterate_records(content[position : position + LOG_OVERHEAD + header.batch_length])
        ]

    async def loaded(self) -> None:
        while not all(shard.is_loaded for shard in self.coordinators.shards.values()):
            await asyncio.sleep(0.001)


Scenario = Callable[[ShareStateNode], Coroutine[Any, Any, None]]


def play(scenario: Scenario, node: ShareStateNode | None = None) -> ShareStateNode:
    node = node or ShareStateNode()

    async def run() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            node.coordinators.start(tasks.create_task)
            await scenario(node)
            node.coordinators.close()

    asyncio.run(run())
    return node
