"""Elections on request, and elections that are due."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import due_elections
from ottla.metadata_raft.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    CreateTopics,
    ElectionType,
    ElectLeaders,
    ElectLeadersReply,
    ResourceChanges,
    TopicPartitions,
)
from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.partition_change import RECOVERING
from ottla.metadata_raft.records import NO_LEADER, ConfigResourceType
from tests.unit.metadata_raft.metadata_world import CONFIG, MetadataWorld
from tests.unit.metadata_raft.test_isr_control import alter

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def with_topic(*replicas: int, **configs: str) -> MetadataWorld:
    world = MetadataWorld(brokers=3)
    settings = [(name.replace("_", "."), value) for name, value in configs.items()]
    topic = world.topic("t", assignments=[(0, replicas), (1, replicas)], configs=settings)
    world.submit(CreateTopics(topics=[topic]))
    return world


def partition(world: MetadataWorld, index: int = 0) -> PartitionImage:
    return world.image.topics.by_name["t"].partitions[index]


def elect(world: MetadataWorld, kind: int, partitions: Sequence[int] | None, topic: str = "t") -> list[int]:
    wanted = None if partitions is None else [TopicPartitions(topic=topic, partitions=partitions)]
    reply = world.submit(ElectLeaders(election_type=kind, topic_partitions=wanted))
    assert isinstance(reply, ElectLeadersReply)
    return [one.error_code for topic in reply.replica_election_results for one in topic.partition_result]


def fence(world: MetadataWorld, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        world.heartbeat(broker_id, want_fence=True)


def in_sync_again(world: MetadataWorld, *isr: int) -> None:
    """Let the leader of the first partition set this ISR."""

    alter(world, isr, broker_id=partition(world).leader)


# ---- on request --------------------------------------------------------------------------------------------


def test_the_preferred_leader_leads_again() -> None:
    world = with_topic(1, 2)
    fence(world, 1)
    world.heartbeat(1)
    not_in_sync = elect(world, PREFERRED, [0])
    in_sync_again(world, 2, 1)

    codes = elect(world, PREFERRED, [0, 1])

    assert not_in_sync == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert codes == [ErrorCode.NONE, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert partition(world).leader == 1
    assert elect(world, PREFERRED, [0]) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_a_request_for_all_returns_only_partitions_that_needed_an_election() -> None:
    world = with_topic(1, 2)
    before = elect(world, PREFERRED, None)
    fence(world, 1)
    world.heartbeat(1)
    in_sync_again(world, 2, 1)

    codes = elect(world, PREFERRED, None)

    assert before == [] and codes == [ErrorCode.NONE, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_an_unclean_election_takes_a_live_replica_and_marks_the_leader() -> None:
    """KIP-460, KIP-704"""
    world = with_topic(1, 2)
    fence(world, 2, 1)
    world.heartbeat(2)
    leaderless = partition(world)

    codes = elect(world, UNCLEAN, [0])

    after = partition(world)
    assert (leaderless.leader, leaderless.isr) == (NO_LEADER, (1,))
    assert codes == [ErrorCode.NONE]
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERING)
    assert elect(world, UNCLEAN, [0]) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_no_leader_is_elected_if_no_replica_is_alive() -> None:
    world = with_topic(1, 2)
    fence(world, 2, 1)

    assert elect(world, UNCLEAN, [0]) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert elect(world, PREFERRED, [0]) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_unknown_and_repeated_partitions_and_unknown_types_are_rejected() -> None:
    world = with_topic(1, 2)

    assert elect(world, PREFERRED, [5, -1]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert elect(world, PREFERRED, [0], topic="?") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert elect(world, UNCLEAN, [0, 0]) == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.INVALID_REQUEST]
    with pytest.raises(KafkaError) as refused:
        elect(world, 7, [0])
    assert refused.value.code is ErrorCode.INVALID_REQUEST


# ---- due ---------------------------------------------------------------------------------------------------


def test_leadership_goes_back_by_itself_after_a_while() -> None:
    world = with_topic(1, 2)
    fence(world, 1)
    world.heartbeat(1)
    in_sync_again(world, 2, 1)
    world.controller.activate(world.image, world.now_ms)
    world.tick()
    at_once = partition(world).leader

    world.now_ms += CONFIG.leader_imbalance_check_interval_seconds * 1_000
    for broker_id in range(3):
        world.heartbeat(broker_id)
    world.tick()

    assert (at_once, partition(world).leader) == (2, 1)


def test_each_call_checks_some_of_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_elections, "CHECKED_AT_ONCE", 3)
    world = MetadataWorld(brokers=3)
    world.submit(CreateTopics(topics=[world.topic(name, assignments=[(0, (1, 2))]) for name in "abcde"]))
    fence(world, 2, 1)
    world.heartbeat(2)
    allowed = replace(CONFIG, broker_values={**CONFIG.broker_values, "unclean.leader.election.enable": True})
    elections = due_elections.DueElections()

    found = [len(elections.due(world.image, allowed, 0)) for _ in range(3)]

    assert (found, elections.is_scanning) == ([3, 2, 0], False)


def test_each_call_elects_some_leaders_of_a_large_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_elections, "MAX_ELECTIONS_AT_ONCE", 2)
    world = with_topic(1, 2)
    topic = world.topic("large", assignments=[(index, (1, 2)) for index in range(5)])
    world.submit(CreateTopics(topics=[topic]))
    fence(world, 2, 1)
    world.heartbeat(2)
    values = {**CONFIG.broker_values, "unclean.leader.election.enable": True}
    world.controller.config = replace(CONFIG, broker_values=values)
    world.controller.activate(world.image, world.now_ms)

    ticks = 0
    while world.tick():
        ticks += 1

    assert ticks == 4  # of seven partitions
    assert all(one.leader == 2 for one in world.image.topics.by_name["large"].partitions)


def test_leadership_stays_without_automatic_rebalance() -> None:
    world = with_topic(1, 2)
    fence(world, 1)
    world.heartbeat(1)
    in_sync_again(world, 2, 1)
    world.controller.config = replace(CONFIG, auto_leader_rebalance_enable=False)

    world.now_ms += CONFIG.leader_imbalance_check_interval_seconds * 1_000
    for broker_id in range(3):
        world.heartbeat(broker_id)
    world.tick()

    assert partition(world).leader == 2


def test_a_topic_that_allows_it_gets_an_unclean_leader_at_once() -> None:
    world = with_topic(1, 2, unclean_leader_election_enable="true")

    world.heartbeat(2, want_fence=True)
    world.heartbeat(2)
    fence(world, 1)

    after = partition(world)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERING)


def test_a_topic_that_allows_it_later_gets_one_then() -> None:
    world = with_topic(1, 2)
    fence(world, 2, 1)
    world.heartbeat(2)
    world.tick()
    without = partition(world).leader
    change = ConfigChange(name="unclean.leader.election.enable", operation=ConfigOperation.SET, value="true")
    resource = ResourceChanges(resource_type=ConfigResourceType.TOPIC, resource_name="t", changes=[change])
    world.submit(AlterConfigs(resources=[resource]))

    world.tick()

    assert (without, partition(world).leader) == (NO_LEADER, 2)


def test_the_default_of_the_brokers_counts_without_a_setting_of_the_topic() -> None:
    values = {**CONFIG.broker_values, "unclean.leader.election.enable": True}
    world = with_topic(1, 2)
    own = with_topic(1, 2, unclean_leader_election_enable="false")

    for one in (world, own):
        one.controller.config = replace(CONFIG, broker_values=values)
        fence(one, 2)
        one.heartbeat(2)
        fence(one, 1)

    assert (partition(world).leader, partition(own).leader) == (2, NO_LEADER)
