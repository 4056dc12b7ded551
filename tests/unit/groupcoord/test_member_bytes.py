"""Bytes of members count over all shards of a node; members without room are rejected."""

import pytest

from ottla.groupcoord.classic.member_results import SyncGroupResult
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.member_bytes import LITTLE_BYTES, MEMBER_BYTES, check_members
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetToCommit
from ottla.groupcoord.shard_bytes import NodeBytes, ShardBytes
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.unit.groupcoord.consumer.consumer_world import ConsumerWorld
from tests.unit.groupcoord.group_world import GroupWorld

KIB = 1024
NO_DELAY = CoordinatorConfig(group_initial_rebalance_delay_ms=0)


def attach(world: GroupWorld, limit_bytes: int) -> NodeBytes:
    node = NodeBytes(limit_bytes)
    world.coordinator.shard.member_bytes.attach(node)
    return node


def test_shards_of_a_node_share_one_limit() -> None:
    node, shards = NodeBytes(400 * KIB), [ShardBytes(), ShardBytes()]
    for shard in shards:
        shard.attach(node)

    check_members(shards[0], 300 * KIB)
    shards[0].add(300 * KIB)
    with pytest.raises(KafkaError) as refused:
        check_members(shards[1], LITTLE_BYTES + 1)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    check_members(shards[1], LITTLE_BYTES)

    shards[0].detach()
    assert node.used_bytes == 0
    check_members(shards[1], 300 * KIB)


def test_the_bytes_of_a_shard_count_once_it_is_attached() -> None:
    node, shard = NodeBytes(), ShardBytes()
    shard.add(500)
    assert node.used_bytes == 0

    shard.attach(node)
    shard.add(70)

    assert node.used_bytes == shard.total == 570


def test_present_members_may_take_room_that_new_ones_may_not() -> None:
    shard = ShardBytes()
    shard.attach(NodeBytes(80 * KIB))
    shard.add(70 * KIB)

    with pytest.raises(KafkaError):
        check_members(shard, 1 * KIB)
    check_members(shard, 10 * KIB, is_member=True)
    with pytest.raises(KafkaError):
        check_members(shard, 11 * KIB, is_member=True)


def test_assignments_are_counted_and_rejected_beyond_the_limit() -> None:
    world = GroupWorld(NO_DELAY)
    node = attach(world, 200 * KIB)
    token = world.join()
    world.advance(0)
    joined = world.joined(token)
    before = node.used_bytes

    def sync(size: int, generation_id: int) -> SyncGroupResult:
        assignments = [(joined.member_id, bytes(size))]
        return world.synced(world.sync(joined.member_id, generation_id, assignments))

    assert sync(190 * KIB, joined.generation_id).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.used_bytes == before
    again = world.joined(world.join(joined.member_id))
    assert sync(100 * KIB, again.generation_id).error is ErrorCode.NONE
    assert node.used_bytes == before + 100 * KIB
    world.leave(joined.member_id)
    assert node.used_bytes == 0


def heartbeat(world: ConsumerWorld, member_id: str, names: int) -> ConsumerGroupHeartbeatResult | Refuse:
    subscribed = [f"{number:0100}" for number in range(names)]
    return world.heartbeat(member_id, 0, names=subscribed, owned={}, rebalance_ms=60_000)


def test_members_of_consumer_groups_are_counted_with_their_subscriptions() -> None:
    world = ConsumerWorld()
    node = attach(world.groups, 100 * KIB)

    assert isinstance(heartbeat(world, "m1", 300), ConsumerGroupHeartbeatResult)
    assert node.used_bytes == MEMBER_BYTES + 300 * 200
    refused = heartbeat(world, "m2", 100)
    assert isinstance(refused, Refuse) and refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(heartbeat(world, "m3", 1), ConsumerGroupHeartbeatResult)

    world.heartbeat("m1", -1)
    world.heartbeat("m3", -1)
    assert node.used_bytes == 0


def test_new_groups_without_memory_for_them_are_rejected_however_they_come() -> None:
    world = ConsumerWorld()
    shard = world.groups.coordinator.shard
    world.groups.join(group_id="old")
    shard.has_room = lambda: False

    refusals = [
        world.groups.answers[world.groups.join(group_id="new")],
        world.heartbeat("m", 0, group_id="new", names=["a"], owned={}, rebalance_ms=60_000),
        world.groups.ask(
            OffsetCommit(
                token=world.groups.token(),
                group_id="new",
                generation_id=-1,
                member_id="",
                offsets=[OffsetToCommit("a", 0, 5)],
            )
        ),
    ]

    assert [isinstance(one, Refuse) and one.error for one in refusals] == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ] * 3
    assert list(shard.groups) == ["old"]
