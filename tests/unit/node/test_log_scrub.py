"""Damage in the logs of a node: found, counted, named, and repaired where another replica has the bytes."""

import asyncio
import errno
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logstore.disk import MemoryDisk
from logstore.errors import ErrorCode
from logstore.log_check import check_of
from logstore.log_config import LogConfig
from logstore.log_manager import LogManager
from logstore.partition_log import FetchIsolation, PartitionLog
from logstore.record import ControlType, EndTransactionMarker, build_batch
from logstore.segment import CLEANED_SUFFIX
from logstore.topic_partition import TopicPartition
from logstore.verification import NOT_VERIFIED
from node.clock import ManualClock
from node.config import parse_config
from node.replica.partition import Assignment, Partition
from node.runtime import log_scrub
from node.runtime.log_scrub import LogScrub
from node.runtime.segment_repair import SegmentRepair
from node.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

T0 = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=80)


class Replica:
    """One node's log of a partition."""

    def __init__(self, broker_id: int, config: LogConfig = CONFIG) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock()
        self.manager = LogManager(
            log_dirs=(Path("/a"),),
            disk=self.disk,
            now_ms=self.clock.now_ms,
            unique=lambda: bytes(16),
            lock=None,
        )
        self.manager.acquire()
        self.manager.claim(cluster_id=TOPIC_ID, node_id=broker_id)
        self.manager.load(lambda _topic: config)
        self.log = self.manager.get_or_create(T0, TOPIC_ID, config)

    def files(self) -> dict[str, bytes]:
        return {
            path.name: bytes(one.content)
            for path, one in self.disk.files.items()
            if path.parent == self.log.directory and path.suffix not in (".deleted", ".snapshot")
        }

    def flip(self, path: Path, position: int) -> None:
        self.disk.files[path].content[position] ^= 0x10
        self.disk.forget(path)


def fill(log: PartitionLog) -> None:
    """Several segments, with transactions that were aborted."""
    for number in range(12):
        now_ms = 1000 + number
        for producer in (-1, 5):
            options: dict[str, Any] = {}
            if producer >= 0:
                options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 2 * number}
                options["is_transactional"] = True
            batch = build_batch([(b"k", b"value", now_ms, ())] * 2, **options)
            log.append_as_leader(batch, leader_epoch=number // 5, now_ms=now_ms, guard=NOT_VERIFIED)
        if number % 3 == 1:
            log.append_marker(
                EndTransactionMarker(ControlType.ABORT, 0),
                producer_id=5,
                producer_epoch=0,
                transaction_version=0,
                leader_epoch=number // 5,
                now_ms=now_ms,
            )


class World:
    """This node, 1, whose log is scrubbed, and node 2, which has the same records."""

    def __init__(self, *, in_sync: tuple[int, ...] = (1, 2), config: LogConfig = CONFIG) -> None:
        self.own, self.other = Replica(1, config), Replica(2, config)
        fill(self.other.log)
        other = self.other.log
        while self.own.log.log_end_offset < other.log_end_offset:
            found = other.read(
                self.own.log.log_end_offset, 10**6, isolation=FetchIsolation.LOG_END, minimum_one_batch=True
            )
            self.own.log.append_as_follower(found.slice.read(), now_ms=1000)
        for replica in (self.own, self.other):
            replica.log.update_high_watermark(replica.log.log_end_offset)
        assert len(self.own.log.segments) > 3
        assert self.own.files() == self.other.files()
        assignment = Assignment(
            leader_id=1, leader_epoch=2, partition_epoch=1, replicas=(1, 2), in_sync_replicas=in_sync
        )
        self.partition = Partition(broker_id=1, log=self.own.log, topic_id=TOPIC_ID, assignment=assignment)
        self.config = parse_config(
            {"node.id": "1", "log.dirs": "/a", "ottla.log.scrub.bytes.per.second": str(10**9)}
        )
        self.asked: list[int] = []
        self.scrub = LogScrub(
            log_manager=self.own.manager,
            config=lambda: self.config,
            clock=self.own.clock,
            repair=SegmentRepair(
                broker_id=1,
                disk=self.own.disk,
                clock=self.own.clock,
                find=lambda _: self.partition,
                connect=self.connect,
            ).repair,
        )

    async def connect(self, node_id: int, _purpose: str) -> Any:
        self.asked.append(node_id)
        return self

    async def request(self, message: FetchRequest, _type: object, *, timeout_s: float) -> FetchResponse:
        (topic,) = message.topics
        (wanted,) = topic.partitions
        found = self.other.log.read(
            wanted.fetch_offset, 300, isolation=FetchIsolation.HIGH_WATERMARK, minimum_one_batch=True
        )
        data = PartitionData(partition_index=wanted.partition, records=found.slice.read())
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    def run(self) -> None:
        asyncio.run(self.scrub.scrub(T0))

    def counts(self) -> tuple[int, int, int, int]:
        scrub = self.scrub
        return scrub.found, scrub.repaired, scrub.indexes_rebuilt, scrub.unrepaired_count


def test_a_healthy_log_is_left_as_it_is() -> None:
    world = World()
    before = world.own.files()

    world.run()

    assert world.own.files() == before
    assert world.counts() == (0, 0, 0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_anywhere_is_gone_after_a_round_or_two(seed: int) -> None:
    world, chance = World(), random.Random(seed)
    own, good = world.own, world.own.files()
    segments = own.log.segments[:-1]
    paths = [path for one in segments for path in one.existing_paths()]
    path = chance.choice(paths)
    own.flip(path, chance.randrange(len(own.disk.files[path].content)))

    world.run()

    found, repaired, rebuilt, unrepaired = world.counts()
    assert (found, repaired + rebuilt, unrepaired) == (1, 1, 0), path
    assert repaired == (path.suffix == ".log")
    assert own.files() == good == world.other.files()
    world.run()
    assert world.counts() == (found, repaired, rebuilt, 0), "nothing was left to repair"
    own.log.check_invariants()


def test_several_damaged_segments_are_repaired_in_one_round() -> None:
    world = World()
    good = world.own.files()
    for segment in world.own.log.segments[:3]:
        world.own.flip(segment.path, 70)

    world.run()

    assert world.counts() == (3, 3, 0, 0)
    assert world.own.files() == good


def test_the_active_segment_is_closed_and_repaired() -> None:
    world = World()
    path = world.own.log.active_segment.path
    content = bytes(world.own.disk.files[path].content)
    world.own.flip(path, 70)

    world.run()

    assert world.counts() == (1, 1, 0, 0)
    assert bytes(world.own.disk.files[path].content) == content
    assert world.own.log.active_segment.base_offset == world.own.log.log_end_offset
    world.own.log.check_invariants()


def test_where_no_other_replica_is_in_sync_the_damage_is_named_and_left() -> None:
    world = World(in_sync=(1,))
    path = world.own.log.segments[1].path
    world.own.flip(path, 70)
    before = world.own.files()

    world.run()
    world.run()

    assert world.own.files() == before
    assert world.asked == []
    assert world.counts() == (1, 0, 0, 1), "counted once, however often it is read"
    (one,) = world.scrub.unrepaired
    assert (one.topic_partition, one.path, one.reason) == (T0, str(path), "no other replica is in sync")
    assert one.offset == world.own.log.segments[1].base_offset


def test_bytes_of_another_replica_that_are_damaged_too_are_not_taken() -> None:
    world = World()
    for replica in (world.own, world.other):
        replica.flip(replica.log.segments[1].path, 70)
    before = world.own.files()

    world.run()

    assert world.asked == [2]
    assert world.own.files() == before, "nothing is left of the attempt"
    (one,) = world.scrub.unrepaired
    assert "node 2: " in one.reason and ErrorCode.CORRUPT_MESSAGE.name in one.reason


def test_records_of_another_history_are_not_taken() -> None:
    """Only the leader epochs tell them apart."""
    world = World()
    segment = world.other.log.segments[1]
    content = world.other.disk.files[segment.path].content
    for position, header in list(segment.headers()):
        content[position + 12 : position + 16] = (header.partition_leader_epoch + 7).to_bytes(4, "big")
    world.own.flip(world.own.log.segments[1].path, 70)
    before = world.own.files()

    world.run()

    assert world.own.files() == before
    assert world.counts() == (1, 0, 0, 1)


def test_a_compacted_log_is_named_and_left() -> None:
    world = World()
    world.own.log.config = replace(CONFIG, cleanup_policy=("compact",))
    world.own.flip(world.own.log.segments[1].path, 70)
    before = world.own.files()

    world.run()

    assert world.own.files() == before
    assert "compacted" in world.scrub.unrepaired[0].reason


def test_a_log_that_is_cut_while_the_copy_comes_is_not_touched() -> None:
    world = World()
    segment, next_base = world.own.log.segments[1], world.own.log.segments[2].base_offset
    world.own.flip(segment.path, 70)
    answer = world.request

    async def cut(message: FetchRequest, _type: object, *, timeout_s: float) -> FetchResponse:
        if world.own.log.log_end_offset > next_base:
            world.own.log.truncate_to(next_base, now_ms=1000)
        return await answer(message, _type, timeout_s=timeout_s)

    world.request = cut  # type: ignore[method-assign]
    world.run()

    assert world.own.log.segments[1] is segment
    assert world.counts() == (1, 0, 0, 1)
    assert not [name for name in world.own.files() if name.endswith(CLEANED_SUFFIX)]


def test_a_crash_while_the_copy_is_put_in_place_leaves_a_whole_log() -> None:
    for step in range(1, 40):
        world = World()
        world.own.flip(world.own.log.segments[1].path, 70)
        world.own.disk.steps, world.own.disk.fail_at, world.own.disk.stays_broken = 0, step, True
        world.run()
        world.own.disk.fail_at = None
        if world.scrub.repaired:
            break
        check_log = PartitionLog.open(
            disk=world.own.disk,
            directory=world.own.log.directory,
            topic_partition=T0,
            topic_id=TOPIC_ID,
            config=CONFIG,
            now_ms=1000,
            clean_shutdown=False,
            recovery_point=world.own.log.active_segment.base_offset,
        )
        assert check_log.log_end_offset == world.own.log.log_end_offset, step
        check = check_of(check_log, world.own.disk)
        for _ in check.steps():
            pass
        damaged = [one.path for one in check.findings]
        assert damaged in ([], [check_log.segments[1].path]), (step, damaged)
    else:
        pytest.fail("the repair needs more steps than were tried")


def test_a_disk_that_has_no_room_for_the_copy_does_not_take_the_log_offline() -> None:
    world = World()
    world.own.flip(world.own.log.segments[1].path, 70)
    before = world.own.files()
    world.own.disk.error = errno.ENOSPC
    world.own.disk.fail_at = world.own.disk.steps + 3

    world.run()

    assert "the copy cannot be written" in world.scrub.unrepaired[0].reason
    assert world.own.log.failure is None
    assert world.own.files() == before
    world.run()
    assert world.counts() == (1, 1, 0, 0), "there was room the next time"


def test_who_leads_reads_its_log_once_after_a_start_and_readers_bring_it_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.config = parse_config({"node.id": "1", "log.dirs": "/a", "ottla.log.scrub.interval.ms": "0"})
    rounds: list[TopicPartition] = []

    async def scrub(name: TopicPartition) -> None:
        rounds.append(name)
        world.scrub._read_at[name] = asyncio.get_running_loop().time()

    monkeypatch.setattr(world.scrub, "scrub", scrub)

    async def story() -> None:
        task = asyncio.ensure_future(world.scrub.run())
        await asyncio.sleep(0.02)
        assert rounds == [], "no rounds with an interval of 0"
        world.scrub.leads(T0)
        await asyncio.sleep(0.02)
        assert rounds == [T0]
        world.scrub.leads(T0)
        world.scrub.soon(T0)
        await asyncio.sleep(0.02)
        assert rounds == [T0], "it was read a moment ago"
        monkeypatch.setattr(log_scrub, "RETRY_S", 0.0)
        world.scrub.soon(T0)
        await asyncio.sleep(0.02)
        assert rounds == [T0, T0]
        task.cancel()

    asyncio.run(story())
