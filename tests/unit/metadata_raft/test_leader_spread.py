"""Leadership of a leaving broker is spread over the replicas in sync by load, then by number."""

from collections import Counter

import pytest

from ottla.metadata_raft.commands import CreateTopics
from ottla.metadata_raft.leader_spread import LeaderSpread
from tests.unit.metadata_raft.metadata_world import MetadataWorld


def world_of(brokers: int, *assignments: tuple[int, ...]) -> MetadataWorld:
    world = MetadataWorld(brokers=brokers)
    topic = world.topic("t", assignments=list(enumerate(assignments)))
    world.submit(CreateTopics(topics=[topic]))
    return world


def leaders(world: MetadataWorld) -> Counter[int]:
    return Counter(one.leader for one in world.image.topics.by_name["t"].partitions)


@pytest.mark.parametrize("leaves", ["falls", "stops"])
def test_leadership_of_a_broker_is_spread_even_if_all_have_the_same_replicas(leaves: str) -> None:
    world = world_of(4, *[(0, 1, 2, 3)] * 30)

    if leaves == "falls":
        world.heartbeat(0, want_fence=True)
    else:
        world.heartbeat(0, want_shut_down=True)

    assert leaders(world) == {1: 10, 2: 10, 3: 10}


def test_brokers_that_lead_much_already_get_less() -> None:
    world = world_of(3, *[(0, 1, 2)] * 4, *[(1, 2, 0)] * 2)

    world.heartbeat(0, want_fence=True)

    assert leaders(world) == {1: 3, 2: 3}


def test_load_counts_before_numbers() -> None:
    world = world_of(3, *[(0, 1, 2)] * 10, *[(2, 1, 0)] * 5)
    world.heartbeat(0, leader_load=1_000)  # 100 for each of ten partitions
    world.heartbeat(1, leader_load=2_000)
    world.heartbeat(2, leader_load=1_400)

    world.heartbeat(0, want_fence=True, leader_load=1_000)

    # 1,400 + 8 x 100 equals 2,000 + 2 x 100.
    assert leaders(world) == {1: 2, 2: 13}


def test_if_all_are_equal_the_order_of_replicas_decides() -> None:
    world = world_of(3, (0, 2, 1))

    world.heartbeat(0, want_fence=True)

    assert leaders(world) == {2: 1}


def test_a_broker_without_a_heartbeat_has_no_load() -> None:
    world = world_of(3, (0, 1, 2), (0, 1, 2))

    spread = LeaderSpread(world.image, {0: 100, 1: 70}, leaving=0)

    assert [spread.choose([1, 2]) for _ in range(3)] == [2, 2, 1]
