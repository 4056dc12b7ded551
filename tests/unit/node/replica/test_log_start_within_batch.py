"""Followers of a leader that has deleted a part of a batch: they copy it as a whole, and keep its start."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica.partition import Partition
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch

DELETED_TO = 13  # in the leader's log, in the middle of a batch with the offsets 8 to 17


def follower() -> Partition:
    world = ReplicaWorld()
    world.create_topic(leader=OTHER_ID, replicas=(NODE_ID, OTHER_ID))
    return world.partition()


def copy(partition: Partition, base_offset: int, count: int, *, epoch: int = 2, deleted_to: int = 0) -> None:
    content = batch(count)
    content[0:8], content[12:16] = base_offset.to_bytes(8, "big"), epoch.to_bytes(4, "big")
    partition.append_as_follower(
        content, high_watermark=base_offset + count, log_start_offset=deleted_to, now_ms=0
    )


def test_a_follower_that_ends_within_the_batch_drops_its_own_records_before_it() -> None:
    """They have an earlier leader epoch, which for the leader ends before its log start."""
    partition = follower()
    copy(partition, 0, DELETED_TO, epoch=0)

    copy(partition, 8, 10, deleted_to=DELETED_TO)

    log = partition.log
    assert [segment.base_offset for segment in log.segments] == [8]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (DELETED_TO, 18, 18)
    assert [tuple(entry) for entry in log.epoch_entries] == [(2, DELETED_TO)]


def test_records_that_the_leader_has_are_not_dropped_for_a_batch_that_overlaps_them() -> None:
    partition = follower()
    copy(partition, 0, DELETED_TO)

    with pytest.raises(KafkaError) as refused:
        copy(partition, 8, 10, deleted_to=DELETED_TO - 1)

    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.log.log_end_offset == DELETED_TO


def test_the_leader_hears_of_a_log_start_within_a_batch_once_it_is_in_the_checkpoint() -> None:
    """Even if the log began at that offset before, which needs no entry in the checkpoint file."""
    partition = follower()
    partition.start_again_at(DELETED_TO, now_ms=0)
    partition.log_start_checkpointed(DELETED_TO)

    copy(partition, 8, 10, deleted_to=DELETED_TO)
    before = partition.durable_log_start
    partition.log_start_checkpointed(DELETED_TO)

    assert (before, partition.durable_log_start) == (8, DELETED_TO)
