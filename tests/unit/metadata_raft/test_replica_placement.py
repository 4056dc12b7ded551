"""The placement of new partitions on brokers."""

from collections import Counter

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import BrokerImage, MetadataImage, TopicsImage
from ottla.metadata_raft.leader_spread import LeaderSpread
from ottla.metadata_raft.replica_placement import place_replicas


def broker(
    broker_id: int, rack: str | None = None, *, fenced: bool = False, leaves: bool = False
) -> BrokerImage:
    return BrokerImage(broker_id, 0, b"", {}, rack, fenced, leaves, (), {})


def no_leaders() -> LeaderSpread:
    return LeaderSpread(MetadataImage(), {})


def place(
    brokers: list[BrokerImage], count: int, factor: int, seed: int = 0, spread: LeaderSpread | None = None
) -> list[tuple[int, ...]]:
    return place_replicas(
        brokers,
        first_partition=0,
        count=count,
        replication_factor=factor,
        seed=seed,
        spread=spread or no_leaders(),
    )


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1])
def test_leaders_and_replicas_are_shared_evenly(seed: int) -> None:
    placed = place([broker(one) for one in range(5)], 100, 3, seed)

    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(5), 20)
    shares = Counter(replica for replicas in placed for replica in replicas)
    assert all(50 <= share <= 70 for share in shares.values())
    assert all(len(set(replicas)) == 3 for replicas in placed)


@pytest.mark.parametrize("seed", range(4))
def test_every_partition_is_in_as_many_racks_as_possible(seed: int) -> None:
    """KIP-36"""
    racks = {0: "a", 1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    placed = place([broker(one, rack) for one, rack in racks.items()], 60, 3, seed)

    assert all({racks[replica] for replica in replicas} == {"a", "b", "c"} for replicas in placed)


def test_the_followers_of_a_leader_are_not_always_the_same() -> None:
    placed = place([broker(one) for one in range(4)], 12, 2)

    assert {replicas[1] for replicas in placed if replicas[0] == 0} == {1, 2, 3}


@pytest.mark.parametrize("first_partition", [0, 7])
def test_partitions_that_are_placed_together_get_the_same_brokers_as_alone(first_partition: int) -> None:
    brokers = [broker(0, "a"), broker(1, "a"), broker(2, "b"), broker(3), broker(4, "c", fenced=True)]
    seed = 2**32 - 5

    def placed(first: int, count: int) -> list[tuple[int, ...]]:
        return place_replicas(
            brokers,
            first_partition=first,
            count=count,
            replication_factor=3,
            seed=seed,
            spread=no_leaders(),
        )

    together = placed(first_partition, 100)

    assert together == [placed(one, 1)[0] for one in range(first_partition, first_partition + 100)]


@pytest.mark.parametrize("seed", range(4))
def test_the_remainder_is_led_by_the_brokers_that_lead_least(seed: int) -> None:
    image = MetadataImage(topics=TopicsImage(leader_counts={0: 5, 1: 2, 2: 1, 3: 4, 4: 6}))

    placed = place([broker(one) for one in range(5)], 7, 3, seed, LeaderSpread(image, {}))

    assert Counter(replicas[0] for replicas in placed) == {0: 1, 1: 2, 2: 2, 3: 1, 4: 1}


@pytest.mark.parametrize("seed", range(4))
def test_a_share_of_the_load_counts_as_a_share_of_the_leaders(seed: int) -> None:
    image = MetadataImage(topics=TopicsImage(leader_counts={0: 10, 1: 10, 2: 10}))
    spread = LeaderSpread(image, {0: 600, 1: 300, 2: 200})
    brokers = [broker(one) for one in range(3)]
    leaders = []
    for _ in range(12):  # topics with one partition each, without any load yet
        ((leader, *_),) = place(brokers, 1, 3, seed, spread)
        spread.add([leader])
        leaders.append(leader)

    assert leaders[0] == 2 and Counter(leaders) == {1: 4, 2: 8}


def test_new_partitions_of_a_topic_are_led_by_brokers_that_lead_few_of_it() -> None:
    image = MetadataImage(topics=TopicsImage(leader_counts={0: 9, 1: 1, 2: 1}))

    placed = place_replicas(
        [broker(one) for one in range(3)],
        first_partition=2,
        count=1,
        replication_factor=2,
        seed=0,
        spread=LeaderSpread(image, {}),
        of_topic={1: 1, 2: 1},
    )

    assert [replicas[0] for replicas in placed] == [0]


def test_a_fenced_broker_comes_last_in_its_rack_and_never_leads() -> None:
    brokers = [broker(0, "a"), broker(1, "a"), broker(2, "b"), broker(3, "b", fenced=True)]
    placed = place(brokers, 30, 2)
    alone_in_its_rack = place([broker(0, "a"), broker(1, "a"), broker(2, "b", fenced=True)], 30, 2)

    assert all(3 not in replicas for replicas in placed)
    assert all(replicas[1] == 2 for replicas in alone_in_its_rack), "racks count more than fences"


def test_a_broker_in_controlled_shutdown_gets_no_replicas() -> None:
    placed = place([broker(0), broker(1, leaves=True), broker(2)], 10, 2)

    assert all(set(replicas) == {0, 2} for replicas in placed)


@pytest.mark.parametrize(
    ("brokers", "problem"),
    [
        ([broker(0)], "only 1 broker(s) are registered."),
        ([broker(0, fenced=True), broker(1, fenced=True)], "All brokers are currently fenced."),
        ([], "only 0 broker(s) are registered."),
    ],
    ids=["too few", "all fenced", "none"],
)
def test_too_few_brokers_are_an_error(brokers: list[BrokerImage], problem: str) -> None:
    with pytest.raises(KafkaError) as refused:
        place(brokers, 1, 2)

    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert str(refused.value.detail).endswith(problem)
