"""Loading a shard in a thread: the loop goes on meanwhile, and closing the shard ends the load."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.groupcoord.commands import Command
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.group_records import OffsetCommitValue, OffsetRecord
from ottla.groupcoord.record_codec import encode_key, encode_value
from ottla.groupcoord.shard import GroupShard
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.record import build_batch
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import shard_loader
from ottla.node.coordinators.coordinator_shard import Loaded
from ottla.node.coordinators.group_loader import load_group_shard
from ottla.node.coordinators.shard_loader import LoadEndedError, ShardLoader
from ottla.node.replica.partition import Assignment, Partition

ALONE = Assignment(leader_id=1, leader_epoch=0, partition_epoch=0, replicas=(1,), in_sync_replicas=(1,))


def partition_with(batches: int, records_each: int = 100) -> Partition:
    place = TopicPartition("__consumer_offsets", 0)
    log = PartitionLog.open(
        disk=MemoryDisk(),
        directory=Path("/data") / str(place),
        topic_partition=place,
        topic_id=bytes(16),
        config=LogConfig(cleanup_policy=("compact",)),
        now_ms=0,
        clean_shutdown=True,
    )
    partition = Partition(broker_id=1, log=log, topic_id=bytes(16), assignment=ALONE)
    for number in range(batches):
        records = [
            OffsetRecord("g", "t", each, OffsetCommitValue(offset=number, commit_timestamp=1))
            for each in range(records_each)
        ]
        batch = build_batch([(encode_key(each), encode_value(each), 0, ()) for each in records])
        partition.append_as_leader(batch, required_acks=-1, now_ms=0, produce_version=13)
    return partition


def new_shard() -> GroupShard:
    assert threading.current_thread() is not threading.main_thread()
    return GroupShard(CoordinatorConfig(), lambda: "uuid")


async def load(
    loader: ShardLoader,
    partition: Partition,
    *,
    make_shard: Callable[[], GroupShard] = new_shard,
    is_closed: Callable[[], bool] = lambda: False,
) -> Loaded[Coordinator, Command]:
    return await load_group_shard(
        loader, partition, is_closed, make_shard=make_shard, topic_id_of=lambda name: bytes(16)
    )


def test_a_shard_is_loaded_piece_by_piece_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_loader, "LOAD_BYTES", 10_000)
    partition = partition_with(batches=30)

    coordinator, unreadable, stale = asyncio.run(load(ShardLoader(), partition))

    offsets = coordinator.shard.offsets
    assert offsets.count == 100 and unreadable.count == 0 and not stale
    value = offsets.get("g", "t", 99)
    assert value is not None and value.offset == 29


def test_closing_ends_a_load_within_one_pause() -> None:
    looked = 0

    def is_closed() -> bool:
        nonlocal looked
        looked += 1
        return looked > 3

    with pytest.raises(LoadEndedError):
        asyncio.run(load(ShardLoader(), partition_with(batches=100), is_closed=is_closed))

    assert looked == 4


def test_the_number_of_loads_at_once_is_limited() -> None:
    running, most = 0, 0

    def counted() -> GroupShard:
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.002)
        running -= 1
        return new_shard()

    async def scenario() -> None:
        loader = ShardLoader()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(load(loader, partition_with(batches=1), make_shard=counted))

    asyncio.run(scenario())

    assert 1 <= most <= shard_loader.MAX_LOADS
