"""The health of a cluster: each problem is found for its partition, and for no other."""

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_health import Health, PartitionState, assess
from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker

BROKERS = [DescribeClusterBroker(broker_id=one, host="h", port=1, is_fenced=False) for one in (0, 1, 2)]
ONE_FENCED = [*BROKERS[:2], DescribeClusterBroker(broker_id=2, host="h", port=1, is_fenced=True)]
PLACE = TopicPartition("t", 0)
HEALTHY = PartitionState(PLACE, 0, (0, 1, 2), (0, 1, 2), ())


def health(state: PartitionState, min_isr: int = 2, brokers: list[DescribeClusterBroker] = BROKERS) -> Health:
    return assess(0, brokers, [state], {"t": min_isr})


def problems(found: Health) -> set[str]:
    names = ("leaderless", "under_replicated", "under_min_isr", "offline", "unclean")
    return {name for name in names if PLACE in getattr(found, name)}


def test_a_cluster_with_all_replicas_in_sync_is_healthy() -> None:
    found = health(HEALTHY)

    assert found.is_healthy and problems(found) == set() and (found.topics, found.partitions) == (1, 1)
    assert found.replicas == found.in_sync == {0: 1, 1: 1, 2: 1} and found.leads == {0: 1}


def test_a_cluster_with_a_fenced_broker_is_not_healthy() -> None:
    found = health(HEALTHY, brokers=ONE_FENCED)

    assert not found.is_healthy and problems(found) == set()


def test_a_cluster_without_a_controller_is_not_healthy() -> None:
    assert not assess(-1, BROKERS, [HEALTHY], {}).is_healthy


def test_a_replica_that_lags_makes_its_partition_under_replicated() -> None:
    found = health(HEALTHY._replace(isr=(0, 1)))

    assert problems(found) == {"under_replicated"} and not found.is_healthy


def test_a_replica_that_a_move_adds_is_not_missing() -> None:
    assert health(HEALTHY._replace(isr=(0, 1), coming=(2,))).is_healthy


def test_a_partition_with_too_few_in_sync_for_acks_all_is_under_min_isr() -> None:
    assert problems(health(HEALTHY._replace(isr=(0,)))) == {"under_replicated", "under_min_isr"}


def test_a_topic_of_one_replica_needs_no_more_in_sync() -> None:
    assert health(PartitionState(PLACE, 0, (0,), (0,), ()), min_isr=2).is_healthy


def test_replicas_that_share_a_rack_though_there_are_others_are_reported() -> None:
    racks = [
        DescribeClusterBroker(broker_id=one, host="h", port=1, is_fenced=False, rack=rack)
        for one, rack in enumerate(("a", "a", "b"))
    ]
    shared = PartitionState(PLACE, 0, (0, 1), (0, 1), ())

    assert health(shared, brokers=racks).sharing_racks == [PLACE]
    assert health(shared, brokers=racks).is_healthy, "it works as long as no rack fails"
    assert health(shared._replace(replicas=(0, 2)), brokers=racks).sharing_racks == []
    assert health(HEALTHY, brokers=racks).sharing_racks == [], "three replicas have to share two racks"
    assert health(shared, brokers=BROKERS).sharing_racks == [], "no broker has a rack"


def test_a_replica_on_a_disk_that_failed_is_offline() -> None:
    found = health(HEALTHY._replace(isr=(0, 1), offline=(2,)))

    assert problems(found) == {"under_replicated", "offline"}


def test_a_partition_whose_last_replica_in_sync_is_down_needs_an_unclean_election() -> None:
    state = HEALTHY._replace(leader=-1, isr=(2,), offline=(2,))

    found = health(state, brokers=ONE_FENCED)

    assert problems(found) == {"leaderless", "under_replicated", "under_min_isr", "offline", "unclean"}


def test_a_partition_without_a_live_replica_is_not_helped_by_an_unclean_election() -> None:
    state = PartitionState(PLACE, -1, (2,), (2,), (2,))

    assert problems(health(state, brokers=ONE_FENCED)) == {"leaderless", "offline"}
