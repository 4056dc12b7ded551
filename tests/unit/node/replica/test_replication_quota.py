"""Fetches for replicas that are added to a node are limited while the cluster balances itself."""

from ottla.node.replica.replication_quota import UNLIMITED, ReplicationQuotas
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld


def quotas(moved_bytes_per_second: int) -> ReplicationQuotas:
    made = ReplicationQuotas(broker_id=NODE_ID, windows=2, window_seconds=1)
    made.configure(
        leader_bytes_per_second=UNLIMITED,
        follower_bytes_per_second=UNLIMITED,
        moved_bytes_per_second=moved_bytes_per_second,
    )
    return made


def test_only_replicas_that_are_added_wait() -> None:
    world = ReplicaWorld()
    world.create_topic(partitions=2, leader=OTHER_ID, replicas=(NODE_ID, OTHER_ID), isr=(OTHER_ID,))
    world.change_partition("t", 0, adding_replicas=(NODE_ID,))
    added, usual = world.partition(index=0), world.partition(index=1)
    made = quotas(moved_bytes_per_second=100)

    for partition in (added, usual):
        made.follower_received(partition, 1_000, now_ms=0)

    assert made.limits_fetches
    assert made.follower_must_wait(added, is_in_sync=False, now_ms=10)
    assert not made.follower_must_wait(added, is_in_sync=True, now_ms=10)
    assert not made.follower_must_wait(usual, is_in_sync=False, now_ms=10)
    assert not made.follower_must_wait(added, is_in_sync=False, now_ms=5_000), "the window is over"


def test_without_a_balance_nothing_is_limited() -> None:
    assert not quotas(UNLIMITED).limits_fetches
