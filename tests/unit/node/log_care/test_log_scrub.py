"""The scrub finds, counts and logs damage, and repairs it if another replica has the bytes."""

import asyncio
import errno
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_check import FileKind, check_of, rebuilt_indexes, write_indexes
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch
from ottla.logstore.segment import CLEANED_SUFFIX, Segment
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.raft_check import MetadataDamage
from ottla.node.clock import ManualClock
from ottla.node.log_care import log_scrub, segment_repair
from ottla.node.log_care.damaged_replicas import DamagedReplicas
from ottla.node.log_care.log_scrub import LogScrub
from ottla.node.log_care.segment_repair import SegmentRepair
from ottla.node.replica.partition import Assignment, Partition
from ottla.node.replica.replication_quota import ReplicationQuotas
from ottla.node.settings.config import parse_config
from ottla.node.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

T0 = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=80)


class Replica:
    """The log of a partition on one node."""

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
    """Append several segments, with aborted transactions."""
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

    def __init__(
        self,
        *,
        in_sync: tuple[int, ...] = (1, 2),
        config: LogConfig = CONFIG,
        quotas: ReplicationQuotas | None = None,
        metadata_damage: Sequence[MetadataDamage] = (),
    ) -> None:
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
        self.requested: list[int] = []
        self.reported: list[TopicPartition] = []
        self.unreachable = False
        self.rate = float("inf")
        self.refills: list[int] = []
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
                bytes_per_second=lambda: self.rate,
                refilling=self.refilling,
                quotas=quotas,
            ),
            metadata_damage=lambda: metadata_damage,
            replicas=DamagedReplicas(
                find=lambda _: self.partition, notify_leader=self.reported.append, leave_s=0
            ),
        )

    async def connect(self, node_id: int, _purpose: str) -> Any:
        self.requested.append(node_id)
        if self.unreachable:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody listens")
        return self

    @asynccontextmanager
    async def refilling(self, _log: PartitionLog, end_offset: int) -> AsyncIterator[None]:
        self.refills.append(end_offset)
        yield

    async def request(self, message: FetchRequest, _type: object, *, timeout_s: float) -> FetchResponse:
        (topic,) = message.topics
        (wanted,) = topic.partitions
        found = self.other.log.read(
            wanted.fetch_offset, 300, isolation=FetchIsolation.HIGH_WATERMARK, minimum_one_batch=True
        )
        data = PartitionData(
            partition_index=wanted.partition,
            records=found.slice.read(),
            high_watermark=self.other.log.high_watermark,
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    def run(self) -> None:
        asyncio.run(self.scrub.scrub(T0))

    def counts(self) -> tuple[int, int, int, int]:
        scrub = self.scrub
        return scrub.found, scrub.repaired, scrub.indexes_rebuilt, scrub.unrepaired_count


def test_an_intact_log_is_not_changed() -> None:
    world = World()
    before = world.own.files()

    world.run()

    assert world.own.files() == before
    assert world.counts() == (0, 0, 0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_anywhere_is_repaired_in_one_round(seed: int) -> None:
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


def test_without_an_answer_of_another_replica_the_damage_is_logged_and_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(in_sync=(1,))
    path = world.own.log.segments[1].path
    world.own.flip(path, 70)
    before = world.own.files()

    world.unreachable = True

    world.run()
    world.run()

    assert world.own.files() == before
    assert world.requested == [2, 2], "a replica that is not in sync may have it"
    assert world.counts() == (1, 0, 0, 1), "counted once, however often it is read"
    (one,) = world.scrub.unrepaired
    assert (one.topic_partition, one.path) == (T0, str(path))
    assert "node 2: NETWORK_EXCEPTION" in one.reason
    assert one.offset == world.own.log.segments[1].base_offset
    assert world.partition.damaged
    warnings = [line for line in caplog.messages if "stays damaged" in line]
    assert len(warnings) == 1, "logged once, not with each attempt"


def test_damaged_bytes_of_another_replica_are_not_used() -> None:
    world = World()
    for replica in (world.own, world.other):
        replica.flip(replica.log.segments[1].path, 70)
    before = world.own.files()

    world.run()

    assert world.requested == [2]
    assert world.own.files() == before, "nothing is left of the attempt"
    (one,) = world.scrub.unrepaired
    assert "node 2: " in one.reason and ErrorCode.CORRUPT_MESSAGE.name in one.reason


def test_records_of_another_history_are_not_used() -> None:
    """Only the leader epochs differ."""
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


def compacted_world() -> World:
    """Return a world in which both replicas are compacted, and node 2 has dropped more than node 1."""
    world = World()
    for replica, holes in ((world.own, (1,)), (world.other, (1, 3))):
        log = replica.log
        log.config = replace(CONFIG, cleanup_policy=("compact",))
        log.roll(now_ms=2000)
        for number in holes:
            drop_first_batch(replica, log.segments[number])
        log.update_high_watermark(log.log_end_offset)
    return world


def drop_first_batch(replica: Replica, segment: Segment) -> None:
    """Replace a segment, as the cleaner does, by one without its first batch."""
    headers = list(segment.headers())
    new = Segment.create(
        replica.disk, replica.log.directory, segment.base_offset, CONFIG, now_ms=1, suffix=CLEANED_SUFFIX
    )
    for position, header in headers[1:]:
        batch = segment.read_batch(position, header.size_bytes)
        at = new.size_bytes
        new.append([batch], len(batch))
        new.index_batch(header.last_offset, header.max_timestamp, at, CONFIG.index_interval_bytes)
    for row in segment.transaction_index.rows:
        new.transaction_index.append(row)
    new.seal()
    replica.log.replace_segments([new], [segment])


def batches(replica: Replica) -> list[bytes]:
    return [
        segment.read_batch(position, header.size_bytes)
        for segment in replica.log.segments
        for position, header in segment.headers()
    ]


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_compacted_log_is_replaced_as_a_whole(number: int) -> None:
    """Another replica may have dropped a tombstone together with the record that it deletes."""
    world = compacted_world()
    assert batches(world.own) != batches(world.other)
    world.own.flip(world.own.log.segments[number].path, 70)
    end = world.own.log.log_end_offset

    world.run()

    assert world.counts() == (1, 1, 0, 0)
    assert batches(world.own) == batches(world.other)
    assert world.refills == [world.own.log.active_segment.base_offset] == [end]
    world.own.log.check_invariants()
    world.run()
    assert world.counts() == (1, 1, 0, 0), "nothing is left to repair"
    reopened = PartitionLog.open(
        disk=world.own.disk,
        directory=world.own.log.directory,
        topic_partition=T0,
        topic_id=TOPIC_ID,
        config=CONFIG,
        now_ms=1000,
        clean_shutdown=False,
        recovery_point=end,
        compacted_to=0,
    )
    assert reopened.log_end_offset == end


def test_several_damaged_segments_of_a_compacted_log_are_replaced_together() -> None:
    world = compacted_world()
    for segment in world.own.log.segments[:3]:
        world.own.flip(segment.path, 70)

    world.run()

    assert world.counts() == (3, 3, 0, 0)
    assert len(world.refills) == 1
    assert batches(world.own) == batches(world.other)


def test_a_crash_while_a_compacted_log_is_put_in_place_leaves_the_old_or_the_new() -> None:
    for step in range(1, 400, 17):
        world = compacted_world()
        world.own.flip(world.own.log.segments[1].path, 70)
        end = world.own.log.log_end_offset
        old, new = len(world.own.log.segments), batches(world.other)
        world.own.disk.steps, world.own.disk.fail_at, world.own.disk.stays_broken = 0, step, True
        world.run()
        world.own.disk.fail_at = None
        if world.scrub.repaired:
            break
        world.own.log = PartitionLog.open(
            disk=world.own.disk,
            directory=world.own.log.directory,
            topic_partition=T0,
            topic_id=TOPIC_ID,
            config=CONFIG,
            now_ms=1000,
            clean_shutdown=False,
            recovery_point=end,
        )
        assert world.own.log.log_end_offset == end, step
        assert len(world.own.log.segments) == old, step
        check = check_of(world.own.log, world.own.disk, was_compacted=True)
        for _ in check.steps():
            pass
        if not [one for one in check.findings if one.kind is FileKind.LOG]:
            assert batches(world.own) == new, step
    else:
        pytest.fail("the repair needs more steps than were tried")


def test_a_topic_that_was_once_compacted_does_not_count_as_damaged() -> None:
    """Replicas made later have the gaps, but no checkpoint of the cleaner."""
    world = compacted_world()
    for replica in (world.own, world.other):
        replica.log.config = CONFIG

    world.run()

    assert world.counts() == (0, 0, 0, 0)
    world.own.flip(world.own.log.segments[2].path, 70)
    world.run()
    assert world.counts() == (1, 1, 0, 0), "real damage is repaired"
    assert batches(world.own) == batches(world.other)


def test_a_hole_that_another_replica_has_too_is_no_damage() -> None:
    """Only the end of one segment is missing, so no gap between batches shows the compaction."""
    world = World()
    for replica in (world.own, world.other):
        segment = replica.log.segments[1]
        position, _ = list(segment.headers())[-1]
        replica.disk.open(segment.path).truncate(position)
        segment.size_bytes = position
        segment.indexes_replaced()
        for index in (segment.offset_index, segment.time_index):
            replica.disk.remove(index.path)
        check = check_of(replica.log, replica.disk)
        for _ in check.steps():
            pass
        write_indexes(rebuilt_indexes(check, segment, CONFIG.index_interval_bytes), replica.disk)

    world.run()

    assert [one for one in world.scrub.unrepaired if one.kind is FileKind.LOG] == []
    assert world.scrub.repaired == 0
    assert not world.partition.damaged


def test_a_hole_that_no_other_replica_has_is_damage() -> None:
    world = World()
    good = batches(world.own)
    segment = world.own.log.segments[1]
    position, _ = list(segment.headers())[-1]
    world.own.disk.open(segment.path).truncate(position)
    segment.size_bytes = position
    segment.indexes_replaced()

    world.run()

    assert world.scrub.repaired == 1
    assert batches(world.own) == good


def test_the_segment_with_the_log_start_is_repaired_from_there_on() -> None:
    world = World()
    log = world.own.log
    start = log.segments[1].base_offset + 3
    for replica in (world.own, world.other):
        replica.log.increment_log_start_offset(start)
    world.own.flip(log.segments[1].path, log.segments[1].size_bytes - 5)

    world.run()

    assert world.counts()[:2] == (1, 1)
    world.run()
    assert world.scrub.unrepaired_count == 0
    found = log.read(start, 10**6, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
    other = world.other.log.read(start, 10**6, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
    assert found.slice.read() == other.slice.read()


def test_the_rate_of_a_copy_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.rate = 1000.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(segment_repair.asyncio, "sleep", sleep)
    size_bytes = world.own.log.segments[1].size_bytes
    world.own.flip(world.own.log.segments[1].path, 70)

    world.run()

    assert world.scrub.repaired == 1
    assert sum(slept) > 0.5 * size_bytes / world.rate


def test_a_throttled_replica_waits_for_its_share() -> None:
    quotas = ReplicationQuotas(broker_id=1, windows=1, window_seconds=1)
    quotas.configure(leader_bytes_per_second=2**63 - 1, follower_bytes_per_second=400)
    world = World(quotas=quotas)
    world.own.log.config = replace(CONFIG, follower_replication_throttled_replicas=("*",))
    world.own.flip(world.own.log.segments[1].path, 70)
    began = time.monotonic()

    world.run()

    assert world.scrub.repaired == 1
    assert time.monotonic() - began > 0.2


def test_the_replica_is_damaged_until_it_is_repaired() -> None:
    world = World()
    seen: list[bool] = []
    answer = world.request

    async def look(message: FetchRequest, _type: object, *, timeout_s: float) -> FetchResponse:
        seen.append(world.partition.damaged)
        return await answer(message, _type, timeout_s=timeout_s)

    world.request = look  # type: ignore[method-assign]
    world.own.flip(world.own.log.segments[1].path, 70)

    world.run()

    assert seen and all(seen)
    assert not world.partition.damaged
    assert world.reported == [T0, T0], "the leader is informed of both"


def test_a_damaged_index_does_not_take_a_replica_out_of_the_isr() -> None:
    world = World()
    world.own.flip(world.own.log.segments[1].offset_index.path, 5)

    world.run()

    assert world.counts() == (1, 0, 1, 0)
    assert world.reported == []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_the_segment_in_which_a_reader_met_damage_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.config = parse_config({"node.id": "1", "log.dirs": "/a", "ottla.log.scrub.interval.ms": "0"})
    looked: list[list[int] | None] = []
    ended: list[TopicPartition] = []
    read = world.scrub.scrub

    async def scrub(name: TopicPartition, *, offsets: list[int] | None = None) -> None:
        looked.append(offsets)
        await read(name, offsets=offsets)
        ended.append(name)

    monkeypatch.setattr(world.scrub, "scrub", scrub)

    async def scenario() -> None:
        task = asyncio.ensure_future(world.scrub.run())
        world.scrub.soon(T0, 7)
        await until(lambda: len(ended) == 2)
        assert looked == [[7], None]
        world.scrub.soon(T0, 8)
        await asyncio.sleep(0.02)
        assert looked == [[7], None], "it was looked at a moment ago"
        task.cancel()

    asyncio.run(scenario())


def test_unrepaired_damage_is_retried_with_growing_pauses_and_when_its_partition_changes() -> None:
    first = log_scrub.Retry(1, 100.0, "alone")
    later = log_scrub.Retry(4, 100.0, "alone")
    last = log_scrub.Retry(40, 100.0, "alone")

    assert [first.is_due(100 + after, "alone") for after in (59, 60)] == [False, True]
    assert [later.is_due(100 + after, "alone") for after in (479, 480)] == [False, True]
    assert [last.is_due(100 + after, "alone") for after in (3599, 3600)] == [False, True]
    assert [last.is_due(100 + after, "another leads") for after in (4, 5)] == [False, True]


def test_damage_of_the_metadata_log_is_counted_once_and_named(caplog: pytest.LogCaptureFixture) -> None:
    damage = [MetadataDamage(Path("/a/__cluster_metadata-0/0.log"), 70, "The CRC does not match.")]
    world = World(metadata_damage=damage)

    for _ in range(2):
        asyncio.run(world.scrub.check_metadata())

    assert world.counts() == (1, 0, 0, 1)
    (one,) = world.scrub.unrepaired
    assert one.topic_partition == TopicPartition("__cluster_metadata", 0)
    assert "restart the node" in one.reason
    assert len([line for line in caplog.messages if "metadata log is damaged" in line]) == 1
    damage.clear()
    asyncio.run(world.scrub.check_metadata())
    assert world.counts() == (1, 0, 0, 0)


def test_a_retry_reads_only_what_is_damaged() -> None:
    world = World()
    world.unreachable = True
    world.own.flip(world.own.log.segments[1].path, 70)
    world.run()
    world.unreachable = False
    world.own.flip(world.own.log.segments[2].offset_index.path, 5)

    asyncio.run(world.scrub.retry(T0))

    assert world.counts() == (1, 1, 0, 0)
    assert not world.partition.damaged
    world.run()
    assert world.counts() == (2, 1, 1, 0)


def test_a_log_that_is_truncated_during_the_copy_is_not_touched() -> None:
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


def test_a_crash_while_the_copy_is_put_in_place_leaves_an_intact_log() -> None:
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


def test_a_disk_without_room_for_the_copy_does_not_take_the_log_offline() -> None:
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


def test_a_leader_reads_its_log_once_after_a_start_and_again_if_a_reader_meets_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.config = parse_config({"node.id": "1", "log.dirs": "/a", "ottla.log.scrub.interval.ms": "0"})
    rounds: list[TopicPartition] = []
    ended: list[TopicPartition] = []
    read = world.scrub.scrub

    async def scrub(name: TopicPartition) -> None:
        rounds.append(name)
        await read(name)
        ended.append(name)

    monkeypatch.setattr(world.scrub, "scrub", scrub)

    async def scenario() -> None:
        task = asyncio.ensure_future(world.scrub.run())
        await asyncio.sleep(0.02)
        assert rounds == [], "no rounds with an interval of 0"
        world.scrub.leads(T0)
        await until(lambda: len(ended) == 1)
        assert rounds == [T0]
        world.scrub.leads(T0)
        world.scrub.soon(T0)
        await asyncio.sleep(0.02)
        assert rounds == [T0], "it was read a moment ago"
        monkeypatch.setattr(log_scrub, "RETRY_S", 0.0)
        world.scrub.soon(T0)
        await until(lambda: len(ended) == 2)
        assert rounds == [T0, T0]
        task.cancel()

    asyncio.run(scenario())
