"""The controller balances its cluster in steps, each of which is planned from the present metadata."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.commands import (
    AlterConfigs,
    AlterPartitionReassignments,
    Command,
    ConfigChange,
    ConfigOperation,
    CreateTopics,
    ReassignablePartition,
    ReassignableTopic,
    Reply,
    ResourceChanges,
)
from ottla.metadata_raft.image import EVERY_BROKER, MetadataImage
from ottla.metadata_raft.reassignment_control import ongoing_reassignments
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.clock import ManualClock
from ottla.node.metadata import balancer
from ottla.node.metadata.balancer import Balancer, LogDirSizes
from ottla.node.settings.balance_settings import REQUESTED
from ottla.node.settings.config import parse_config
from ottla.node.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.unit.metadata_raft.metadata_world import MetadataWorld
from tests.unit.metadata_raft.test_isr_control import alter

GB = 10**9


class World:
    """A controller whose brokers have replicas of one size; it records all commands."""

    def __init__(self, brokers: int, *assignments: tuple[int, ...], **settings: str) -> None:
        self.metadata = MetadataWorld(brokers=brokers)
        topic = self.metadata.topic("t", assignments=list(enumerate(assignments)))
        self.metadata.submit(CreateTopics(topics=[topic]))
        self.submitted: list[Command] = []
        self.silent: set[int] = set()
        self.meanwhile: Callable[[], None] = lambda: None  # called while a plan is made
        self.refuses = False  # rejects moves, as if the number of replicas had changed since the plan
        self.clock = ManualClock()
        self.growth: dict[int, int] = {}  # partition -> bytes that it grows between two readings of sizes
        self._looks = 0
        self.config(**settings)
        self.balancer = Balancer(
            node_id=0,
            metadata=self,  # type: ignore[arg-type]
            config=lambda: self._config,
            own_sizes=self._own_sizes,
            ask=self._ask,  # type: ignore[arg-type]
            in_thread=self._in_thread,
            clock=self.clock,
        )

    def config(self, **settings: str) -> None:
        self._config = parse_config({"node.id": "0", **settings})

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    async def submit(self, command: Command) -> Reply:
        self.submitted.append(command)
        if self.refuses and isinstance(command, AlterPartitionReassignments):
            topics = [
                ReassignableTopic(
                    name=topic.name,
                    partitions=[
                        ReassignablePartition(partition_index=one.partition_index, replicas=[0, 1, 2])
                        for one in topic.partitions
                    ],
                )
                for topic in command.topics
            ]
            command = AlterPartitionReassignments(
                topics=topics, allow_replication_factor_change=command.allow_replication_factor_change
            )
        return self.metadata.submit(command)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        made = work()
        self.meanwhile()
        return made

    def _sizes(self, broker_id: int) -> dict[TopicPartition, int]:
        return {
            TopicPartition("t", one.partition): GB + self._looks * self.growth.get(one.partition, 0)
            for one in self.image.topics.by_name["t"].partitions
            if broker_id in one.replicas
        }

    async def _own_sizes(self) -> LogDirSizes:
        self._looks += 1
        return LogDirSizes(0, 0, self._sizes(0))

    async def _ask(
        self, node_id: int, _: str, request: DescribeLogDirsRequest, *__: object
    ) -> DescribeLogDirsResponse:
        assert request.topics is None, "every partition is asked for"
        if node_id in self.silent:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "silent")
        partitions = [
            DescribeLogDirsPartition(partition_index=place.partition, partition_size=size)
            for place, size in self._sizes(node_id).items()
        ]
        topic = DescribeLogDirsTopic(name="t", partitions=partitions)
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d", topics=[topic])])

    def step(self) -> list[str]:
        """Take a step some time after the last one, and return the kinds of commands that it submitted."""
        self.submitted.clear()
        self.clock.advance(balancer.SAMPLE_MS)
        asyncio.run(self.balancer.step())
        return [type(one).__name__ for one in self.submitted]

    def moving(self) -> list[int]:
        return [one.partition for one in ongoing_reassignments(self.image)]

    def finish(self) -> None:
        """Bring all replicas in sync."""
        for partition in self.image.topics.by_name["t"].partitions:
            if set(partition.isr) == set(partition.replicas):
                continue
            alter(
                self.metadata,
                partition.replicas,
                broker_id=partition.leader,
                partition_index=partition.partition,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
            )

    def replicas(self) -> Counter[int]:
        return Counter(
            replica for one in self.image.topics.by_name["t"].partitions for replica in one.replicas
        )

    def leaders(self) -> Counter[int]:
        return Counter(one.leader for one in self.image.topics.by_name["t"].partitions)

    def request(self) -> None:
        change = ConfigChange(name=REQUESTED, operation=ConfigOperation.SET, value="true")
        resource = ResourceChanges(
            resource_type=ConfigResourceType.BROKER, resource_name=EVERY_BROKER, changes=[change]
        )
        self.metadata.submit(AlterConfigs(resources=[resource]))


MOVES, ELECTION, SETTINGS = "AlterPartitionReassignments", "ElectLeaders", "AlterConfigs"
ON = {"ottla.balance.requested": "true"}


def test_a_few_partitions_move_at_a_time_and_the_next_ones_after_them() -> None:
    world = World(3, *[(0, 1)] * 9, **ON, **{"ottla.balance.concurrent.moves": "2"})

    assert world.step() == [], "the growth of partitions is not known yet"
    assert world.step() == [MOVES] and len(world.moving()) == 2
    assert world.step() == [], "these are still moving"
    for _ in range(3):
        world.finish()
        world.step()

    assert sorted(world.replicas().values()) == [6, 6, 6]


def test_leaders_move_after_the_replicas_and_then_the_request_is_deleted() -> None:
    world = World(3, *[(0, 1, 2)] * 9, **ON)
    world.request()
    world.step()

    assert world.step() == [MOVES, ELECTION]
    assert world.leaders() == {0: 3, 1: 3, 2: 3} and not world.moving()
    assert world.step() == [SETTINGS]
    assert world.image.configs.broker(None) == {}


def test_preferred_leaders_lead_again_before_a_balance_ends() -> None:
    world = World(3, (0, 1), (1, 2), (2, 0), **ON)
    world.request()
    world.metadata.heartbeat(1, want_fence=True)
    world.metadata.heartbeat(1)
    without = world.leaders()[1]
    world.finish()
    world.step()

    steps = [world.step() for _ in range(2)]

    assert without == 0 and world.leaders() == {0: 1, 1: 1, 2: 1}
    assert steps == [[ELECTION], [SETTINGS]]


def test_a_partition_whose_replicas_were_changed_meanwhile_is_planned_again() -> None:
    world = World(3, *[(0, 1)] * 9, **ON)
    world.step()
    world.refuses = True

    assert world.step() == [MOVES] and not world.moving()
    world.refuses = False
    assert world.step() == [MOVES] and len(world.moving()) == 6


@pytest.mark.parametrize(
    "changed",
    [{}, {**ON, "ottla.balance.exclude.brokers": "2"}, {**ON, "ottla.balance.exclude.leaders": "2"}],
)
def test_a_plan_that_was_made_for_other_settings_is_not_carried_out(changed: dict[str, str]) -> None:
    """Otherwise a balance that is cancelled while its plan is made would go on, without its throttle."""
    world = World(3, *[(0, 1)] * 9, **ON)
    world.step()
    world.meanwhile = lambda: world.config(**changed)

    assert world.step() == [] and not world.moving()


def test_a_cluster_that_balances_itself_keeps_its_settings() -> None:
    world = World(3, *[(0, 1, 2)] * 9, **{"ottla.balance.enable": "true"})
    world.step()

    assert [world.step() for _ in range(3)] == [[MOVES, ELECTION], [], []]


def test_nothing_moves_while_a_broker_does_not_return_its_sizes() -> None:
    world = World(3, *[(0, 1)] * 9, **ON)
    world.step()
    world.silent = {2}

    with pytest.raises(KafkaError):
        world.step()
    assert world.submitted == []


def test_growing_partitions_are_shared_between_the_brokers() -> None:
    world = World(2, (0,), (0,), (1,), (1,), **ON)
    world.growth = {0: 30 * GB // 10, 1: 30 * GB // 10}
    world.step()

    world.step()
    world.finish()

    leaders = [one.leader for one in world.image.topics.by_name["t"].partitions]
    assert leaders[0] != leaders[1], "each broker leads one of the two growing partitions"


def test_excluded_brokers_are_emptied() -> None:
    excluded = {"ottla.balance.exclude.brokers": "1"}
    world = World(3, *[(one % 3, (one + 1) % 3) for one in range(6)], **ON, **excluded)
    world.step()

    for _ in range(3):
        world.step()
        world.finish()

    assert world.replicas()[1] == 0
