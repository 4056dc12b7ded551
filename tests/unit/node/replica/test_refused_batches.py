"""Batches that a producer sent behind a rejected batch are rejected, too, for a short time."""

import pytest

from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica.refused_batches import MAX_PRODUCERS, WINDOW_MS, RefusedBatches
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch


def batch_at(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> bytearray:
    return batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def holds_back(refused: RefusedBatches, records: bytearray, now_ms: int, *, last_sequence: int = -1) -> bool:
    return refused.holds_back(records, now_ms, lambda producer_id, epoch: last_sequence)


def test_batches_behind_a_rejected_one_are_rejected_until_the_log_has_it() -> None:
    refused = RefusedBatches()
    for sequence in (5, 6):
        refused.note(batch_at(sequence), 100)

    assert holds_back(refused, batch_at(6), 101) and holds_back(refused, batch_at(7), 101)
    assert not holds_back(refused, batch_at(5), 102)
    assert holds_back(refused, batch_at(6), 103)  # the first has arrived, and could not be appended
    assert not holds_back(refused, batch_at(6), 104, last_sequence=5) and not refused


@pytest.mark.parametrize(
    "other",
    [batch_at(6, producer_id=8), batch_at(6, epoch=1), batch_at(4), batch(), bytearray(b"no batch")],
    ids=["another producer", "another epoch", "an earlier sequence", "no producer", "no batch"],
)
def test_others_are_not_held_back(other: bytearray) -> None:
    refused = RefusedBatches()
    refused.note(batch_at(5), 100)

    assert not holds_back(refused, other, 101)
    assert holds_back(refused, batch_at(6), 101)


@pytest.mark.parametrize(
    "other", [batch_at(6), batch_at(0, epoch=0)], ids=["a later one", "one of an older epoch"]
)
def test_another_refused_batch_does_not_take_the_place_of_the_first(other: bytearray) -> None:
    refused = RefusedBatches()
    refused.note(batch_at(5, epoch=1), 100)
    refused.note(other, 101)

    assert holds_back(refused, batch_at(6, epoch=1), 102)


def test_a_clock_that_is_set_back_ends_the_rejections() -> None:
    refused = RefusedBatches()
    refused.note(batch_at(5), 3_600_000)

    assert not holds_back(refused, batch_at(6), 100) and not refused


def test_nothing_is_held_back_for_long() -> None:
    refused = RefusedBatches()
    refused.note(batch_at(5), 100)

    assert holds_back(refused, batch_at(6), 100 + WINDOW_MS)
    assert not holds_back(refused, batch_at(6), 101 + WINDOW_MS) and not refused


def test_a_rejected_batch_that_arrived_another_way_holds_nothing_back() -> None:
    refused = RefusedBatches()
    refused.note(batch_at(5), 100)

    assert holds_back(refused, batch_at(6), 101, last_sequence=4)
    assert not holds_back(refused, batch_at(6), 101, last_sequence=5) and not refused


def test_only_the_newest_of_very_many_producers_are_kept() -> None:
    refused = RefusedBatches()
    for producer_id in range(MAX_PRODUCERS + 1):
        refused.note(batch_at(5, producer_id=producer_id), 100)

    assert not holds_back(refused, batch_at(6, producer_id=0), 100)
    assert holds_back(refused, batch_at(6, producer_id=1), 100)


# ---- in a partition ----------------------------------------------------------------------------------


def append(world: ReplicaWorld, sequence: int) -> ErrorCode:
    """Append as a client's request does: as a run of batches first, then as a single one."""
    partition, records = world.partition(), batch_at(sequence)
    now_ms = world.clock.now_ms()
    if partition.append_run([memoryview(records)], required_acks=1, now_ms=now_ms):
        return ErrorCode.NONE
    try:
        partition.append_as_leader(records, required_acks=1, now_ms=now_ms, produce_version=9)
    except KafkaError as error:
        return ErrorCode(error.code)
    return ErrorCode.NONE


def lead(world: ReplicaWorld, leader: int, epoch: int) -> None:
    world.create_topic(leader=leader, leader_epoch=epoch, replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))


@pytest.mark.parametrize("known", [True, False], ids=["of a known producer", "of a new one"])
def test_requests_around_the_start_of_a_leader_epoch_are_accepted_in_their_order(known: bool) -> None:
    world = ReplicaWorld()
    lead(world, NODE_ID, 0)
    first = 1 if known else 0
    if known:
        assert append(world, 0) is ErrorCode.NONE
    lead(world, OTHER_ID, 1)

    assert append(world, first) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(world, NODE_ID, 2)
    assert append(world, first + 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    assert [append(world, first), append(world, first + 1), append(world, first + 2)] == [ErrorCode.NONE] * 3
    log = world.partition().log
    content = log.segments[0].file.read_at(0, log.size_bytes)
    assert [header.base_sequence for _, header in iterate_headers(content)] == list(range(first + 3))


def test_a_batch_that_the_log_has_already_holds_nothing_back() -> None:
    world = ReplicaWorld()
    lead(world, NODE_ID, 0)
    assert [append(world, 0), append(world, 1)] == [ErrorCode.NONE] * 2
    lead(world, OTHER_ID, 1)
    assert append(world, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(world, NODE_ID, 2)

    assert append(world, 2) is ErrorCode.NONE


def test_the_first_batch_may_fail_once_more() -> None:
    world = ReplicaWorld()
    lead(world, OTHER_ID, 0)
    assert append(world, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(world, NODE_ID, 1)
    damaged = batch_at(0)
    damaged[-1] ^= 1

    with pytest.raises(KafkaError, match="CRC"):
        world.partition().append_as_leader(
            damaged, required_acks=1, now_ms=world.clock.now_ms(), produce_version=9
        )

    assert append(world, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [append(world, 0), append(world, 1)] == [ErrorCode.NONE] * 2


def test_runs_of_batches_are_accepted_again_after_a_moment() -> None:
    world = ReplicaWorld()
    lead(world, OTHER_ID, 0)
    append(world, 5)
    lead(world, NODE_ID, 1)
    partition, run = world.partition(), [memoryview(batch())]

    def append_at(now_ms: int) -> bool:
        partition.append_as_leader(batch(), required_acks=1, now_ms=now_ms, produce_version=9)
        return bool(partition.append_run(run, required_acks=1, now_ms=now_ms))

    now_ms = world.clock.now_ms()
    assert not append_at(now_ms)
    assert append_at(now_ms + WINDOW_MS + 1)
