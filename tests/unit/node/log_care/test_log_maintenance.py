"""The periodic work on logs, round by round, also with a failed disk."""

import asyncio
import errno
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore import log_checkpoints, producer_state
from ottla.logstore.checkpoint import CLEANER_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, read_offsets
from ottla.logstore.cleaner import CleaningAborted
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.producer_tally import PRODUCER_BYTES
from ottla.logstore.record import build_batch, iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.clock import ManualClock
from ottla.node.log_care import log_maintenance
from ottla.node.log_care.damaged_replicas import DamagedReplicas
from ottla.node.log_care.log_maintenance import MAX_CLEANERS, MIN_SILENCE_MS, LogMaintenance, Throttle
from ottla.node.log_care.segment_repair import SegmentRepair
from ottla.node.metrics.read_node import read_log_dirs
from ottla.node.settings.config import parse_config
from tests.unit.logstore.log_maker import epochs_of

A, B = Path("/a"), Path("/b")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = bytes(range(16))


class World:
    """The logs of a node with two log directories in memory, and their maintenance."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock()
        unique = count(1)
        self._unique = lambda: next(unique).to_bytes(16, "big")
        self.manager = self.reopened()
        self.config = parse_config({"node.id": "1", "log.dirs": "/a,/b", "log.initial.task.delay.ms": "0"})
        self.moved: list[PartitionLog] = []
        self.maintenance = LogMaintenance(
            log_manager=self.manager,
            config=lambda: self.config,
            clock=self.clock,
            on_moved=lambda _name, log: self.moved.append(log),
            on_flushed=lambda _: None,
            on_notes=lambda: None,
            repair=SegmentRepair(
                broker_id=1, disk=self.disk, clock=self.clock, find=lambda _: None, connect=self.connect
            ),
            replicas=DamagedReplicas(find=lambda _: None, notify_leader=lambda _: None),
        )

    async def connect(self, node_id: int, _purpose: str) -> Any:
        raise AssertionError(f"unexpected connection to node {node_id}")

    def reopened(self) -> LogManager:
        """Return a new log manager for the same disk, as after a crash."""
        manager = LogManager(
            log_dirs=(A, B), disk=self.disk, now_ms=self.clock.now_ms, unique=self._unique, lock=None
        )
        manager.acquire()
        manager.claim(cluster_id=TOPIC_ID, node_id=1)
        manager.load(lambda _topic: LogConfig())
        return manager

    def log(self, name: TopicPartition = T0, **settings: object) -> PartitionLog:
        config = LogConfig(file_delete_delay_ms=1_000, **settings)  # type: ignore[arg-type]
        return self.manager.get_or_create(name, TOPIC_ID, config)

    def append(self, log: PartitionLog, *values: bytes, key: bytes = b"k") -> None:
        now_ms = self.clock.now_ms()
        for value in values:
            log.append_as_leader(build_batch([(key, value, now_ms, ())]), leader_epoch=0, now_ms=now_ms)
        log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def world() -> World:
    return World()


def values(log: PartitionLog) -> list[bytes | None]:
    found: list[bytes | None] = []
    for segment in log.segments:
        content = segment.slice(0, segment.size_bytes).read()
        for position, header in iterate_headers(content):
            found += [one.value for one in iterate_records(content[position : position + header.size_bytes])]
    return found


def test_old_segments_are_deleted_and_their_files_later(world: World) -> None:
    log = world.log(segment_bytes=200, retention_ms=500)
    world.append(log, *[b"old"] * 6)
    world.clock.advance(501)
    world.append(log, b"new")

    asyncio.run(world.maintenance.apply_retention())

    assert log.log_start_offset == 6 and values(log) == [b"new"]
    assert "retention.ms" in world.manager.notes[-1]
    assert [one for one in world.disk.files if one.name.endswith(".deleted")]
    world.clock.advance(1_001)
    asyncio.run(world.maintenance.upkeep())
    assert not [one for one in world.disk.files if one.name.endswith(".deleted")]


def test_a_whole_log_may_be_deleted(world: World) -> None:
    log = world.log(retention_ms=500)
    world.append(log, b"1", b"2")
    world.clock.advance(501)

    asyncio.run(world.maintenance.apply_retention())

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 2, 2)
    world.append(log, b"3")
    assert values(log) == [b"3"]


def test_rolled_segments_become_durable_and_the_active_one_when_it_is_due(world: World) -> None:
    log = world.log(segment_bytes=200, flush_ms=100)
    world.append(log, b"1", b"2", b"3", b"4", b"5")

    asyncio.run(world.maintenance.upkeep())
    assert log.recovery_point == log.active_segment.base_offset < 5

    world.clock.advance(100)
    asyncio.run(world.maintenance.flush_due_logs())
    assert log.recovery_point == 5


def test_checkpoints_are_written_when_they_change(world: World) -> None:
    log = world.log()
    world.append(log, b"1")
    log.flush(now_ms=world.clock.now_ms())

    asyncio.run(world.maintenance.checkpoint(RECOVERY_POINT_CHECKPOINT))
    steps = world.disk.steps
    asyncio.run(world.maintenance.checkpoint(RECOVERY_POINT_CHECKPOINT))

    assert read_offsets(world.disk, A / RECOVERY_POINT_CHECKPOINT) == {T0: 1}
    assert world.disk.steps == steps


def test_a_compacted_log_is_cleaned(world: World) -> None:
    log = world.log(segment_bytes=300, cleanup_policy=("compact",))
    world.append(log, *[b"%d" % number for number in range(30)])

    assert asyncio.run(world.maintenance.clean_dirtiest_log())

    assert len(values(log)) < 10 and values(log)[-1] == b"29"
    assert not asyncio.run(world.maintenance.clean_dirtiest_log())
    assert "cleaned from 0" in world.manager.notes[-1]


@pytest.mark.parametrize(
    "lost",
    [(), (CLEANER_OFFSET_CHECKPOINT,), (RECOVERY_POINT_CHECKPOINT,)],
    ids=["nothing", "the cleaner's offset", "the recovery point"],
)
def test_a_compacted_log_survives_a_crash_completely(world: World, lost: tuple[str, ...]) -> None:
    """The crash may come before the cleaned offset or the recovery point was written."""
    log = world.log(segment_bytes=300, cleanup_policy=("compact",))
    world.append(log, *[b"%d" % number for number in range(30)])
    asyncio.run(world.maintenance.clean_dirtiest_log())
    first, second, *_ = log.segments
    assert first.find_end()[0] < second.base_offset, "nothing is left of what the first one ended with"
    left = values(log)
    for name in lost:
        world.disk.remove(A / name)

    again = world.reopened().logs[T0]

    assert values(again) == left and again.log_end_offset == 30


def test_without_readable_checkpoints_gaps_do_not_count_as_lost_records(world: World) -> None:
    log = world.log(segment_bytes=300, cleanup_policy=("compact",))
    world.append(log, *[b"%d" % number for number in range(30)])
    asyncio.run(world.maintenance.clean_dirtiest_log())
    left = values(log)
    for name in (CLEANER_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        world.disk.write_file(A / name, b"rubbish", sync=True)

    assert values(world.reopened().logs[T0]) == left


def test_a_log_that_cannot_be_read_is_set_apart_and_others_are_cleaned(world: World) -> None:
    broken = world.log(T0, segment_bytes=300, cleanup_policy=("compact",))
    healthy = world.log(T1, segment_bytes=300, cleanup_policy=("compact",))
    world.append(broken, *[b"1"] * 30)
    world.append(healthy, *[b"1"] * 20)
    world.disk.files[broken.segments[0].path].content[65] ^= 1

    while asyncio.run(world.maintenance.clean_dirtiest_log()):
        pass

    assert list(world.maintenance.cleaner.uncleanable) == [T0]
    assert len(world.manager.warnings) == 1 and "t-0 cannot be cleaned" in world.manager.warnings[0]
    log_dirs = read_log_dirs(world.manager, world.maintenance.cleaner)
    assert {one.path: one.uncleanable_sizes for one in log_dirs}[str(A)] == [broken.size_bytes]
    assert len(values(healthy)) < 10 and broken.failure is None


def test_a_disk_that_fails_under_the_cleaner_takes_its_directory_offline(world: World) -> None:
    log = world.log(segment_bytes=300, cleanup_policy=("compact",))
    world.append(log, *[b"1"] * 30)
    world.disk.fail_at, world.disk.error = world.disk.steps + 2, errno.ENOSPC

    assert asyncio.run(world.maintenance.clean_dirtiest_log())

    assert [one.path for one in world.manager.offline_dirs] == [A]
    assert world.maintenance.cleaner.uncleanable == {}
    assert not asyncio.run(world.maintenance.clean_dirtiest_log())


def test_segments_that_are_deleted_during_a_cleaning_are_no_failure_of_the_disk(world: World) -> None:
    log = world.log(segment_bytes=300, cleanup_policy=("compact", "delete"), retention_bytes=900)
    world.append(log, *[b"1"] * 30)
    first, reading, deleted = log.segments[0].path, threading.Event(), threading.Event()

    def pause(operation: str, path: Path) -> None:
        if (
            operation == "read"
            and path == first
            and threading.current_thread() is not threading.main_thread()
        ):
            reading.set()
            assert deleted.wait(60)

    world.disk.watch = pause

    async def clean_and_delete() -> None:
        cleaning = asyncio.create_task(world.maintenance.clean_dirtiest_log())
        assert await asyncio.to_thread(reading.wait, 60)
        log.delete_segments(log.segments[:4], now_ms=world.clock.now_ms())
        for path in log.take_deleted_paths():
            world.disk.remove(path)
        deleted.set()
        assert await cleaning

    asyncio.run(clean_and_delete())

    assert world.manager.offline_dirs == [] and log.failure is None
    assert world.maintenance.cleaner.uncleanable == {} and world.maintenance.cleaner.in_progress == ()
    log.check_invariants()


def test_a_failed_flush_takes_its_directory_offline_and_the_rest_continues(world: World) -> None:
    first, second = world.log(T0, segment_bytes=200), world.log(T1, segment_bytes=200)
    world.append(first, *[b"1"] * 5)
    world.append(second, *[b"1"] * 5)
    seen: list[Path] = []

    def fail_syncs_of_a(operation: str, path: Path) -> None:
        if operation == "sync" and path.is_relative_to(A):
            seen.append(path)
            raise OSError(errno.EIO, "gone", str(path))

    world.disk.watch = fail_syncs_of_a

    asyncio.run(world.maintenance.upkeep())

    assert len(seen) == 1 and [one.path for one in world.manager.offline_dirs] == [A]
    assert second.recovery_point == second.active_segment.base_offset


def test_the_node_stops_with_its_last_directory(world: World) -> None:
    for log_dir in world.manager.dirs:
        world.manager.take_offline(log_dir, "pulled out")

    with pytest.raises(KafkaError, match="Every log directory has failed"):
        asyncio.run(world.maintenance.run())


def test_a_log_moves_while_it_is_written_to(world: World) -> None:
    log = world.log()
    world.append(log, b"1", b"2")
    world.manager.move_to_dir(T0, B)
    future = world.manager.future_logs[T0]
    future.append_as_follower(
        log.read(0, 1, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice.read()
    )
    world.append(log, b"3")

    asyncio.run(world.maintenance.move_logs())

    (moved,) = world.moved
    assert moved is world.manager.logs[T0] and moved.directory == B / "t-0"
    assert values(moved) == [b"1", b"2", b"3"] and moved.high_watermark == 3
    assert epochs_of(moved) == epochs_of(log)
    moved.check_invariants()


def test_a_move_follows_a_log_that_was_truncated_and_trimmed(world: World) -> None:
    log = world.log()
    world.append(log, b"1", b"2", b"3", b"4")
    world.manager.move_to_dir(T0, B)
    future = world.manager.future_logs[T0]
    future.append_as_follower(
        log.read(0, 1 << 20, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice.read()
    )
    log.truncate_to(3, now_ms=world.clock.now_ms())
    log.append_as_leader(
        build_batch([(b"k", b"other", world.clock.now_ms(), ())]), leader_epoch=4, now_ms=world.clock.now_ms()
    )
    log.update_high_watermark(4)
    log.increment_log_start_offset(1)

    asyncio.run(world.maintenance.move_logs())

    assert values(world.moved[0]) == [b"1", b"2", b"3", b"other"]
    assert world.moved[0].log_start_offset == 1


@pytest.mark.parametrize("start", [15, 12])
def test_a_log_that_begins_inside_a_batch_moves(world: World, start: int) -> None:
    log = world.log()
    now_ms = world.clock.now_ms()
    for first in (0, 10, 20):
        batch = build_batch([(b"k", b"%d" % number, now_ms, ()) for number in range(first, first + 10)])
        log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    log.update_high_watermark(30)
    log.increment_log_start_offset(15)
    world.manager.move_to_dir(T0, B)
    log.log_start_offset = start  # as after a crash before the checkpoint was written

    asyncio.run(world.maintenance.move_logs())

    (moved,) = world.moved
    assert (moved.log_start_offset, moved.log_end_offset) == (start, 30)
    assert values(moved) == [b"%d" % number for number in range(10, 30)]
    moved.check_invariants()


def test_the_rate_of_a_move_is_limited(world: World) -> None:
    log = world.log()
    world.append(log, b"1" * 1000)
    limit = {"replica.alter.log.dirs.io.max.bytes.per.second": "20000"}
    world.config = world.config.with_dynamic(limit, {})
    world.manager.move_to_dir(T0, B)

    begin = time.monotonic()
    asyncio.run(world.maintenance.move_logs())

    assert world.moved and time.monotonic() - begin >= log.size_bytes / 20_000


def test_durable_records_are_durable_after_the_move(world: World) -> None:
    log = world.log()
    world.append(log, b"1", b"2")
    log.flush(now_ms=world.clock.now_ms())
    world.manager.move_to_dir(T0, B)

    asyncio.run(world.maintenance.move_logs())
    world.disk.lose_power()

    assert world.moved[0].recovery_point == 2 and values(world.moved[0]) == [b"1", b"2"]


def test_silent_producers_are_removed(world: World) -> None:
    log = world.log()
    now_ms = world.clock.now_ms()
    batch = build_batch([(b"k", b"v", now_ms, ())], producer_id=5, producer_epoch=0, base_sequence=0)
    log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    world.clock.advance(world.config.producer_id_expiration_ms + 1)

    asyncio.run(world.maintenance.expire_producers())

    assert list(log.active_producers()) == []


class Turns:
    """Counts the logs that are visited in each turn of a loop."""

    def __init__(self) -> None:
        self.looked_at = [0]

    def look(self) -> None:
        self.looked_at[-1] += 1

    async def during(self, work: Coroutine[Any, Any, None]) -> None:
        async def turn() -> None:
            while True:
                self.looked_at.append(0)
                await asyncio.sleep(0)

        turning = asyncio.ensure_future(turn())
        await work
        turning.cancel()


@pytest.mark.parametrize("work", ["upkeep", "flush_due_logs", "expire_producers"])
def test_rounds_over_all_logs_take_turns_with_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(log_maintenance, "LOOKED_AT_PER_TURN", 4)
    for number in range(10):
        world.log(TopicPartition("many", number))
    turns = Turns()

    class Logs(dict[TopicPartition, PartitionLog]):
        """The logs of a node; counts each look-up."""

        def get(self, *arguments: Any) -> Any:
            turns.look()
            return super().get(*arguments)

    world.manager.logs = Logs(world.manager.logs)

    asyncio.run(turns.during(getattr(world.maintenance, work)()))

    assert max(turns.looked_at) == 4 and sum(turns.looked_at) == 10


def test_offsets_of_very_many_logs_are_gathered_in_turns_and_written_in_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_maintenance, "LOOKED_AT_PER_TURN", 4)
    names = [TopicPartition("many", number) for number in range(10)]
    for name in names:
        world.append(world.log(name), b"1")
    turns = Turns()
    encoders: set[int] = set()
    add, encode = log_checkpoints.GatheredOffsets.add, log_checkpoints.pending_checkpoint

    def counted(gathered: Any, log: PartitionLog) -> None:
        turns.look()
        add(gathered, log)

    def noted(*arguments: Any) -> Any:
        encoders.add(threading.get_ident())
        return encode(*arguments)

    monkeypatch.setattr(log_checkpoints.GatheredOffsets, "add", counted)
    monkeypatch.setattr(log_checkpoints, "pending_checkpoint", noted)

    asyncio.run(turns.during(world.maintenance.checkpoint(RECOVERY_POINT_CHECKPOINT)))

    assert max(turns.looked_at) == 4 and sum(turns.looked_at) == 10
    assert encoders and threading.get_ident() not in encoders
    noted_of = {
        name for folder in (A, B) for name in read_offsets(world.disk, folder / RECOVERY_POINT_CHECKPOINT)
    }
    assert noted_of == set(names)


def test_a_log_that_is_deleted_while_offsets_are_gathered_is_in_no_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(world.log(T0), b"1")
    world.append(world.log(T1), b"1")
    add = log_checkpoints.GatheredOffsets.add

    def deleting(gathered: Any, log: PartitionLog) -> None:
        add(gathered, log)
        if log.topic_partition == T1:
            world.manager.delete(T0)
            world.log(T0)  # another log of that name

    monkeypatch.setattr(log_checkpoints.GatheredOffsets, "add", deleting)

    asyncio.run(world.maintenance.checkpoint(RECOVERY_POINT_CHECKPOINT))

    noted = {
        name for folder in (A, B) for name in read_offsets(world.disk, folder / RECOVERY_POINT_CHECKPOINT)
    }
    assert noted == {T1}


def test_producers_of_one_log_are_removed_in_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "ENTRIES_AT_ONCE", 3)
    log = world.log()
    now_ms = world.clock.now_ms()
    for number in range(10):
        batch = build_batch([(b"k", b"v", now_ms, ())], producer_id=number, producer_epoch=0, base_sequence=0)
        log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    world.clock.advance(world.config.producer_id_expiration_ms + 1)
    turns = Turns()

    asyncio.run(turns.during(world.maintenance.expire_producers()))

    assert list(log.active_producers()) == []
    assert len(turns.looked_at) > 4


def test_a_log_that_is_deleted_during_a_round_is_skipped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_maintenance, "LOOKED_AT_PER_TURN", 1)
    names = [TopicPartition("many", number) for number in range(4)]
    for name in names:
        world.log(name)

    seen: list[TopicPartition] = []

    def expire(log: PartitionLog, now_ms: int, expiration_ms: int) -> Iterator[None]:
        seen.append(log.topic_partition)
        if len(seen) == 1:
            world.manager.delete(names[2])
        return iter(())

    monkeypatch.setattr(PartitionLog, "remove_expired_producers", expire)
    asyncio.run(world.maintenance.expire_producers())

    assert seen == [names[0], names[1], names[3]]


def test_a_throttle_limits_the_bytes_per_second() -> None:
    throttle = Throttle(lambda: 1_000_000.0)
    began = time.monotonic()

    for _ in range(5):
        throttle.wait(10_000)

    assert time.monotonic() - began > 0.04


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_higher_rate_takes_effect_at_once_also_for_waiting_threads(rate: float) -> None:
    rates = [rate]
    throttle = Throttle(lambda: rates[0])
    waiting = threading.Thread(target=throttle.wait, args=(1_000_000,))
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()

    rates[0] = 1.7976931348623157e308
    waiting.join(60)

    assert not waiting.is_alive()


def test_the_number_of_cleaners_follows_the_setting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.node.log_care.log_maintenance.CLEANER_CHECK_SECONDS", 0.001)
    static = world.config = world.config.with_dynamic({"log.cleaner.backoff.ms": "1"}, {})
    seen: list[int] = []

    async def change_threads() -> None:
        task = asyncio.create_task(world.maintenance.run())
        for wanted in (1, 3, 2, 100):
            texts = {"log.cleaner.backoff.ms": "1", "log.cleaner.threads": str(wanted)}
            world.config = static.with_dynamic(texts, {})
            while len(world.maintenance.cleaners) != min(wanted, MAX_CLEANERS):
                await asyncio.sleep(0.001)
            seen.append(len(world.maintenance.cleaners))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(change_threads(), 60))

    assert seen == [1, 3, 2, MAX_CLEANERS]
    assert not world.maintenance.cleaners


def test_a_shortened_backoff_takes_effect_at_once_and_a_backoff_of_zero_is_harmless(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.node.log_care.log_maintenance.CLEANER_CHECK_SECONDS", 0.001)
    static, rounds = world.config, 0

    async def count() -> bool:
        nonlocal rounds
        rounds += 1
        return False

    monkeypatch.setattr(world.maintenance, "clean_dirtiest_log", count)

    async def change_backoff() -> None:
        world.config = static.with_dynamic({"log.cleaner.backoff.ms": str(2**63 - 1)}, {})
        task = asyncio.create_task(world.maintenance.run())
        while not rounds:
            await asyncio.sleep(0.001)
        for shorter in ("1", "0"):
            world.config, before = static.with_dynamic({"log.cleaner.backoff.ms": shorter}, {}), rounds
            while rounds < before + 3:
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(change_backoff(), 60))


def test_a_stopped_throttle_ends_present_and_future_waits() -> None:
    is_waiting = threading.Event()

    def rate() -> float:
        is_waiting.set()
        return 1.0

    throttle = Throttle(rate)

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(throttle.wait, 1_000_000)
        assert is_waiting.wait(60)
        throttle.stop()

        with pytest.raises(CleaningAborted, match="the node is stopping"):
            waiting.result(60)
    with pytest.raises(CleaningAborted):
        throttle.wait(1_000_000)


def test_the_tasks_run_and_end(world: World) -> None:
    log = world.log(segment_bytes=200, retention_ms=500)
    world.append(log, *[b"old"] * 6)
    world.clock.advance(501)

    async def run_briefly() -> None:
        task = asyncio.create_task(world.maintenance.run())
        while log.log_start_offset == 0:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run_briefly(), 60))


def test_producers_silent_for_longest_are_removed_when_all_use_too_much_memory(
    world: World,
) -> None:
    log = world.log()
    world.manager.producer_tally.limit_bytes = 80 * PRODUCER_BYTES

    def write(producer_id: int, **options: Any) -> None:
        now_ms = world.clock.now_ms()
        options |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        batch = build_batch([(b"k", b"v", now_ms, ())], **options)
        guard = NOT_VERIFIED if options.get("is_transactional") else None
        log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms, guard=guard)

    write(1_000, is_transactional=True)  # the transaction stays open
    for producer_id in range(79):
        write(producer_id)
        world.clock.advance(1_000)

    world.clock.advance(MIN_SILENCE_MS - 60_000)
    assert asyncio.run(world.maintenance.forget_silent_producers()) == 19, "the others may send again"
    assert asyncio.run(world.maintenance.forget_silent_producers()) == 0, "there is room again"
    left = {one.producer_id for one in log.active_producers()}
    assert left == {1_000, *range(19, 79)}

    assert world.manager.producer_tally.count == 61
