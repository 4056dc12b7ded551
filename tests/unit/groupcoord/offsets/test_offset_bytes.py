"""Bytes of committed offsets count over all shards of a node; new offsets without room are rejected."""

from collections.abc import Sequence

import pytest

from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.offsets.offset_bytes import OFFSET_BYTES, PENDING_BYTES, TOPIC_BYTES, check_offsets
from ottla.groupcoord.offsets.offset_commands import (
    OffsetCommit,
    OffsetDelete,
    OffsetToCommit,
    Producer,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult
from ottla.groupcoord.shard_bytes import NodeBytes, ShardBytes
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.unit.groupcoord.group_world import GroupWorld

VALUE_BYTES = 24  # without metadata


def attach(world: GroupWorld, limit_bytes: int) -> NodeBytes:
    node = NodeBytes(limit_bytes)
    world.coordinator.shard.offset_bytes.attach(node)
    return node


def commit(
    world: GroupWorld, partitions: Sequence[int], *, metadata: str = "", producer_id: int | None = None
) -> ErrorCode:
    offsets = [OffsetToCommit("t", one, 5, metadata=metadata) for one in partitions]
    token = world.token()
    if producer_id is None:
        answer = world.ask(
            OffsetCommit(token=token, group_id="g", generation_id=-1, member_id="", offsets=offsets)
        )
    else:
        answer = world.ask(
            TxnOffsetCommit(
                token=token,
                group_id="g",
                generation_id=-1,
                member_id="",
                offsets=offsets,
                producer=Producer(producer_id, 0),
            )
        )
    if isinstance(answer, Refuse):
        return answer.error
    assert isinstance(answer, OffsetCommitResult)
    return answer.errors[0]


def size_of(count: int) -> int:
    return TOPIC_BYTES + count * (OFFSET_BYTES + VALUE_BYTES)


def test_offsets_are_counted_while_they_exist() -> None:
    world = GroupWorld()
    node = attach(world, 2**40)

    assert commit(world, range(10)) is commit(world, range(5)) is ErrorCode.NONE
    assert node.used_bytes == size_of(10)
    commit(world, [0], metadata="m" * 100)
    assert node.used_bytes == size_of(10) + 100
    world.ask(OffsetDelete(token=world.token(), group_id="g", topics=[("t", range(10))]))

    assert node.used_bytes == 0


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_an_open_transaction_are_counted_until_it_ends(committed: bool) -> None:
    world = GroupWorld()
    node = attach(world, 2**40)

    assert commit(world, range(3), producer_id=7) is ErrorCode.NONE
    assert node.used_bytes == 3 * (PENDING_BYTES + VALUE_BYTES)
    world.end_transaction(7, committed=committed)

    assert node.used_bytes == (size_of(3) if committed else 0)


@pytest.mark.parametrize("producer_id", [None, 7])
def test_new_offsets_without_room_are_rejected_and_present_ones_can_be_committed(
    producer_id: int | None,
) -> None:
    world = GroupWorld()
    node = attach(world, 100_000)
    assert commit(world, range(500)) is ErrorCode.NONE

    refused = commit(world, range(500, 700), producer_id=producer_id)

    assert refused is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.used_bytes == size_of(500)
    assert commit(world, range(500)) is ErrorCode.NONE
    assert commit(world, [0], metadata="m" * 100) is ErrorCode.NONE
    world.ask(OffsetDelete(token=world.token(), group_id="g", topics=[("t", range(300))]))
    assert commit(world, range(500, 550), producer_id=producer_id) is ErrorCode.NONE


def test_present_offsets_may_have_the_last_eighth() -> None:
    shard = ShardBytes()
    shard.attach(NodeBytes(80_000))
    shard.add(70_000)

    with pytest.raises(KafkaError):
        check_offsets(shard, 1_000, is_new=True)
    check_offsets(shard, 10_000, is_new=False)
    with pytest.raises(KafkaError):
        check_offsets(shard, 11_000, is_new=False)
    shard.detach()
    check_offsets(shard, 1_000, is_new=True)


def test_a_loaded_shard_has_the_same_count() -> None:
    world = GroupWorld()
    commit(world, range(20))
    commit(world, [3], producer_id=7)
    before = world.coordinator.shard.offset_bytes.total

    world.restart()
    node = attach(world, 2**40)

    assert node.used_bytes == before == size_of(20) + PENDING_BYTES + VALUE_BYTES
