"""The cleaner over whole logs: the records that readers see, crashes, and logs that cannot be cleaned."""

import errno
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.logstore.cleaner import (
    CleaningAborted,
    CleaningJob,
    clean_group,
    groups_to_clean,
    index_dirty,
    read_batches,
)
from ottla.logstore.cleaner_manager import CleanerManager
from ottla.logstore.cleaning_costs import HALF_LIFE_MS, ROUND_CPU_S
from ottla.logstore.compression import Compression
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import AppendOrigin, AppendResult, FetchIsolation, PartitionLog
from ottla.logstore.record import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    iterate_records,
)
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition

DATA = Path("/data")
T0 = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
START_MS = 1_000_000


def config(**more: int) -> LogConfig:
    return LogConfig(
        cleanup_policy=("compact",),
        min_cleanable_dirty_ratio=0.0,
        segment_bytes=more.pop("segment_bytes", 400),
        delete_retention_ms=1_000,
        message_timestamp_after_max_ms=10**15,
        **more,
    )


class World:
    """A compacted log on a memory disk, with its cleaner."""

    def __init__(self, log_config: LogConfig | None = None) -> None:
        self.disk = MemoryDisk()
        self.now_ms = START_MS
        self.config = log_config or config()
        self._unique = count(1)
        self.start()

    def start(self) -> None:
        self.manager = LogManager(
            log_dirs=(DATA,),
            disk=self.disk,
            now_ms=lambda: self.now_ms,
            unique=lambda: next(self._unique).to_bytes(16, "big"),
            lock=None,
        )
        self.manager.acquire()
        self.manager.claim(cluster_id=TOPIC_ID, node_id=1)
        self.manager.load(lambda _topic: self.config)
        self.cleaner = CleanerManager(self.manager)
        self.log: PartitionLog = self.manager.get_or_create(T0, TOPIC_ID, self.config)

    def append(
        self, *pairs: tuple[bytes, bytes | None], compression: Compression = Compression.NONE, **more: int
    ) -> None:
        is_transactional = "producer_id" in more and more.pop("transactional", 0) == 1
        batch = build_batch(
            [(key, value, self.now_ms, ()) for key, value in pairs],
            compression=compression,
            is_transactional=is_transactional,
            **more,  # type: ignore[arg-type]
        )
        origin = AppendOrigin.COORDINATOR if is_transactional else AppendOrigin.CLIENT
        self.log.append_as_leader(
            batch, leader_epoch=0, now_ms=self.now_ms, origin=origin, guard=NOT_VERIFIED
        )
        self.log.update_high_watermark(self.log.log_end_offset)

    def end_transaction(self, producer_id: int, control_type: ControlType) -> None:
        self.log.append_marker(
            EndTransactionMarker(control_type, 0),
            producer_id=producer_id,
            producer_epoch=0,
            transaction_version=0,
            leader_epoch=0,
            now_ms=self.now_ms,
        )
        self.log.update_high_watermark(self.log.log_end_offset)

    def run(self, *, buffer_bytes: int = 24 * 1_000) -> CleaningJob | None:
        job = self.cleaner.next_job(self.now_ms)
        if job is None:
            return None
        offset_map = index_dirty(job, buffer_bytes=buffer_bytes, load_factor=0.9, on_bytes=lambda _size: None)
        for group in groups_to_clean(job, offset_map):
            self.cleaner.swap(job, clean_group(job, group, offset_map, on_bytes=lambda _size: None))
        pending = self.cleaner.finish(job, offset_map)
        assert pending is not None and self.manager.write_pending([pending]) == []
        self.log.check_invariants()
        return job

    def records(self, isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK) -> list[Record]:
        """Return the records that a consumer reads from the start, request by request."""
        offset, seen = self.log.log_start_offset, []
        while offset < self.log.high_watermark:
            found = self.log.read(offset, 300, isolation=isolation, minimum_one_batch=True)
            content = found.slice.read()
            next_offset = offset
            for position, header in iterate_headers(content):
                next_offset = header.next_offset
                if not header.is_control:
                    batch = content[position : position + header.size_bytes]
                    seen += [record for record in iterate_records(batch) if record.offset >= offset]
            assert next_offset > offset or not content
            offset = next_offset if next_offset > offset else self.log.high_watermark
        return seen


@pytest.fixture
def world() -> Iterator[World]:
    yield World()


def latest(records: list[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


def test_only_the_last_of_each_key_is_left_and_segments_are_merged(world: World) -> None:
    for number in range(60):
        world.append((b"key-%d" % (number % 5), b"value-%d" % number))
    before, segments = latest(world.records()), len(world.log.segments)

    job = world.run()

    assert job is not None and segments > 10
    after = world.records()
    closed = [record for record in after if record.offset < world.log.active_segment.base_offset]
    assert len(closed) <= 5 + 1
    assert latest(after) == before
    assert world.run() is None
    for number in range(10):
        world.append((b"key-%d" % (number % 5), b"value"))
    world.run()
    assert len(world.log.segments) < 6


def test_the_cleaned_log_survives_a_restart(world: World) -> None:
    for number in range(60):
        world.append((b"key-%d" % (number % 5), b"value"))
    world.run()
    before = world.records()
    world.manager.close()

    world.start()

    assert world.records() == before
    assert world.manager.cleaned_offset(world.log) == world.log.active_segment.base_offset
    assert world.run() is None
    world.log.check_invariants()


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_are_cleaned(compression: Compression) -> None:
    world = World()
    for number in range(40):
        pairs = [(b"key-%d" % (number % 3), b"x"), (b"other-%d" % (number % 2), b"y")]
        world.append(*pairs, compression=compression)
    before = latest(world.records())

    world.run()

    assert latest(world.records()) == before and len(world.records()) < 20


def test_a_small_map_needs_several_rounds(world: World) -> None:
    for number in range(60):
        world.append((b"key-%d" % (number % 20), b"value-%d" % number))
    before = latest(world.records())
    rounds = 0

    while world.run(buffer_bytes=24 * 10) is not None:
        rounds += 1
        assert latest(world.records()) == before and rounds < 50

    assert rounds > 2


def test_tombstones_are_kept_and_dropped_after_delete_retention() -> None:
    world = World(config(segment_bytes=200))
    for number in range(4):
        world.append((b"a", b"%d" % number))
    world.append((b"a", None))
    for number in range(4):
        world.append((b"b", b"%d" % number))

    world.run()
    assert [record.value for record in world.records() if record.key == b"a"] == [None]
    for _ in range(4):
        world.append((b"c", b"1"))
    world.now_ms += 1_001
    assert world.run() is not None
    assert [record.value for record in world.records() if record.key == b"a"] == []


def test_young_records_are_left_alone() -> None:
    world = World(config(min_compaction_lag_ms=10_000))
    for _ in range(20):
        world.append((b"a", b"1"))

    assert world.run() is None
    world.now_ms += 10_001
    assert world.run() is not None


def test_old_records_are_cleaned_regardless_of_the_dirty_ratio() -> None:
    eager = LogConfig(
        cleanup_policy=("compact",),
        min_cleanable_dirty_ratio=1.0,
        segment_bytes=400,
        max_compaction_lag_ms=5_000,
    )
    world = World(eager)
    for _ in range(20):
        world.append((b"a", b"1"))

    assert world.run() is None
    world.now_ms += 5_001
    assert world.run() is not None


def test_an_open_transaction_holds_back_the_cleaner(world: World) -> None:
    world.append((b"a", b"0"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=1)
    for _ in range(20):
        world.append((b"a", b"1"))

    assert world.run() is None
    world.end_transaction(7, ControlType.ABORT)
    for _ in range(4):
        world.append((b"b", b"1"))
    world.run()

    assert all(record.value != b"0" for record in world.records(FetchIsolation.TXN_COMMITTED))


def test_aborted_data_never_reappears_for_read_committed_consumers(world: World) -> None:
    world.append((b"a", b"kept"))
    world.append((b"a", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=1)
    for number in range(10):
        world.append((b"x%d" % number, b"1"))
    world.end_transaction(7, ControlType.ABORT)
    for number in range(10):
        world.append((b"y%d" % number, b"1"))

    world.run()

    assert latest(world.records())[b"a"].value == b"kept"


def test_a_producer_continues_its_sequence_after_cleaning_and_a_crash(world: World) -> None:
    world.append((b"a", b"0"), producer_id=7, producer_epoch=0, base_sequence=0)
    for _ in range(20):
        world.append((b"a", b"1"))
    world.run()
    world.disk.remove(DATA / "recovery-point-offset-checkpoint")
    for path in [path for path in world.disk.files if path.suffix == ".snapshot"]:
        world.disk.remove(path)
    for inode in world.disk.files.values():
        inode.synced = bytes(inode.content)

    world.start()

    (producer,) = [entry for entry in world.log.active_producers() if entry.producer_id == 7]
    assert producer.last_sequence == 0
    world.append((b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=1)


def test_the_last_batches_that_cleaning_kept_are_recognised_after_a_restart(world: World) -> None:
    def send(sequence: int) -> AppendResult:
        key = b"only" if sequence == 3 else b"a"
        batch = build_batch(
            [(key, b"0", world.now_ms, ())], producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        return world.log.append_as_leader(batch, leader_epoch=0, now_ms=world.now_ms)

    for sequence in range(5):
        send(sequence)
    for _ in range(20):
        world.append((b"a", b"1"))
    world.run()
    world.log.close(now_ms=world.now_ms)
    world.manager.close()
    world.start()

    for known in (4, 3):
        assert send(known).duplicate
    with pytest.raises(KafkaError) as refused:
        send(2)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("position", [8, 16, 30, 65, 70], ids=lambda at: f"byte {at}")
def test_a_corrupt_batch_makes_the_log_uncleanable(world: World, position: int) -> None:
    for _ in range(20):
        world.append((b"a", b"1"))
    segment = world.log.segments[1]
    world.disk.files[segment.path].content[position] ^= 1
    job = world.cleaner.next_job(world.now_ms)
    assert job is not None

    with pytest.raises(KafkaError) as caught:
        index_dirty(job, buffer_bytes=2400, load_factor=0.9, on_bytes=lambda _size: None)
    world.cleaner.set_apart(world.log, caught.value.detail)
    world.cleaner.finish(job, None)

    assert world.cleaner.next_job(world.now_ms) is None
    assert list(world.cleaner.uncleanable) == [T0]
    assert "is skipped from now on" in world.manager.warnings[-1]


def test_a_cleaned_segment_is_discarded_if_the_old_ones_were_deleted(world: World) -> None:
    for _ in range(20):
        world.append((b"a", b"1"))
    job = world.cleaner.next_job(world.now_ms)
    assert job is not None
    offset_map = index_dirty(job, buffer_bytes=2400, load_factor=0.9, on_bytes=lambda _size: None)
    cleaned = clean_group(job, groups_to_clean(job, offset_map)[0], offset_map, on_bytes=lambda _size: None)
    world.log.delete_segments(world.log.segments[:1], now_ms=world.now_ms)

    with pytest.raises(CleaningAborted):
        world.cleaner.swap(job, cleaned)

    assert not [path for path in world.disk.files if path.name.endswith(".cleaned")]


def test_records_written_after_a_truncation_are_dirty(world: World) -> None:
    for number in range(20):
        world.append((b"a", b"%d" % number))
    job = world.run()
    assert job is not None and job.end_offset > 10

    world.log.truncate_to(10, now_ms=world.now_ms)
    for number in range(20):
        world.append((b"b", b"%d" % number))
    again = world.run()

    assert again is not None and again.first_dirty_offset <= 10
    assert len([record for record in world.records() if record.key == b"b"]) < 20


def test_a_log_truncated_during_a_round_is_clean_up_to_the_truncation(world: World) -> None:
    for number in range(20):
        world.append((b"a", b"%d" % number))
    job = world.cleaner.next_job(world.now_ms)
    assert job is not None
    offset_map = index_dirty(job, buffer_bytes=24_000, load_factor=0.9, on_bytes=lambda _size: None)

    world.log.truncate_to(5, now_ms=world.now_ms)
    world.cleaner.finish(job, offset_map)

    assert world.manager.cleaned_offset(world.log) == 5


def test_a_log_that_moves_to_another_directory_is_not_cleaned(world: World) -> None:
    """Batches that were copied before the round would count as cleaned."""
    for number in range(20):
        world.append((b"a", b"%d" % number))
    moving, cleaner = world.manager.future_logs, world.cleaner
    job = cleaner.next_job(world.now_ms)
    assert job is not None
    offset_map = index_dirty(job, buffer_bytes=24_000, load_factor=0.9, on_bytes=lambda _size: None)

    moving[T0] = world.log

    assert cleaner.finish(job, offset_map) is None and world.manager.cleaned_offset(world.log) is None
    assert cleaner.next_job(world.now_ms) is None
    del moving[T0]
    assert cleaner.next_job(world.now_ms) is not None


def test_a_power_cut_at_any_step_of_a_round_loses_nothing() -> None:
    def filled() -> World:
        world = World()
        for number in range(30):
            # Some keys are only in the cleaned segments.
            world.append((b"key-%d" % (number if number < 8 else number % 4), b"value-%d" % number))
        world.log.flush(now_ms=world.now_ms)
        world.manager.write_pending(world.manager.pending_checkpoints())
        return world

    whole = filled()
    expected, first_step = latest(whole.records()), whole.disk.steps
    whole.run()
    steps = whole.disk.steps - first_step
    whole.disk.lose_power()
    whole.start()
    assert latest(whole.records()) == expected

    for step in range(1, steps + 1):
        world = filled()
        world.disk.fail_at, world.disk.stays_broken = world.disk.steps + step, True
        with pytest.raises((KafkaError, OSError, AssertionError)):
            world.run()
        world.disk.repair()
        world.disk.lose_power()

        world.start()

        assert latest(world.records()) == expected, step
        world.log.check_invariants()
        world.run()
        assert latest(world.records()) == expected, step


def test_a_full_disk_leaves_no_cleaned_files(world: World) -> None:
    for _ in range(20):
        world.append((b"a", b"1"))
    job = world.cleaner.next_job(world.now_ms)
    assert job is not None
    offset_map = index_dirty(job, buffer_bytes=2400, load_factor=0.9, on_bytes=lambda _size: None)
    groups = groups_to_clean(job, offset_map)
    world.disk.fail_at, world.disk.error = world.disk.steps + 3, errno.ENOSPC

    with pytest.raises(OSError):
        clean_group(job, groups[0], offset_map, on_bytes=lambda _size: None)

    assert not [path for path in world.disk.files if path.name.endswith(".cleaned")]


def test_batches_are_read_whole_for_any_size_of_a_piece(world: World) -> None:
    for number in range(3):
        world.append(*[(b"key", b"x" * 50 * number)])
    segment = world.log.segments[0]
    expected = [header for _, header in segment.headers()]

    for read_bytes in range(1, 400, 7):
        found = [
            header
            for header, _ in read_batches(
                segment, 0, lambda _size: None, end_offset=100, read_bytes=read_bytes
            )
        ]
        assert found == expected


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
STEPS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=40)), min_size=1, max_size=6),
    ),
    st.tuples(st.just("clean"), st.integers(2, 40)),
    st.tuples(st.just("wait"), st.integers(1, 1_500)),
    st.tuples(st.just("restart"), st.none()),
)


@given(st.lists(STEPS, max_size=25), st.sampled_from(list(Compression)))
@settings(max_examples=60, deadline=None)
def test_cleaned_records_match_a_simple_model(
    steps: list[tuple[str, object]], compression: Compression
) -> None:
    world = World()
    model: list[Record] = []
    for action, argument in steps:
        if action == "append":
            assert isinstance(argument, list)
            model += [
                Record(world.log.log_end_offset + index, world.now_ms, key, value)
                for index, (key, value) in enumerate(argument)
            ]
            world.append(*argument, compression=compression)
        elif action == "clean":
            assert isinstance(argument, int)
            world.run(buffer_bytes=24 * argument)
        elif action == "wait":
            assert isinstance(argument, int)
            world.now_ms += argument
        else:
            world.manager.close()
            world.start()

        seen = world.records()
        # No record is new, moved or in another order; the last one of each key is there, except tombstones.
        assert set(seen) <= set(model) and [one.offset for one in seen] == sorted(
            {one.offset for one in seen}
        )
        last, last_seen = latest(model), latest(seen)
        assert all(last_seen.get(key) == record for key, record in last.items() if record.value is not None)
        for key, record in last_seen.items():
            assert record == last[key] or last[key].value is None
        tail = world.log.active_segment.base_offset
        assert [one for one in seen if one.offset >= tail] == [one for one in model if one.offset >= tail]


def test_a_round_whose_time_is_over_cleans_the_batches_that_it_indexed(world: World) -> None:
    for number in range(40):
        world.append((b"a", b"%d" % number))
    calls = count(1)

    def run() -> int:
        job = world.cleaner.next_job(world.now_ms)
        assert job is not None
        offset_map = index_dirty(
            job,
            buffer_bytes=24_000,
            load_factor=0.9,
            on_bytes=lambda _size: None,
            is_over=lambda: next(calls) % 5 == 0,
        )
        for group in groups_to_clean(job, offset_map):
            world.cleaner.swap(job, clean_group(job, group, offset_map, on_bytes=lambda _size: None))
        pending = world.cleaner.finish(job, offset_map)
        assert pending is not None and world.manager.write_pending([pending]) == []
        world.log.check_invariants()
        return offset_map.latest_offset

    assert [run() for _ in range(3)] == [4, 9, 14]
    assert [record.offset for record in world.records()] == [*range(14, 40)]


def test_an_expensive_topic_is_cleaned_after_the_others(world: World) -> None:
    """Among topics with low costs the dirtiest goes first, as in Apache Kafka."""
    for number in range(40):
        world.append((b"a", b"%d" % number))
    world.run()  # so later records are only a part of this log, but all of the other log
    hostile, dirty = (
        world.log,
        world.manager.get_or_create(TopicPartition("other", 0), bytes(16), world.config),
    )
    for number in range(20):
        world.append((b"a", b"%d" % number))
        batch = build_batch([(b"a", b"%d" % number, world.now_ms, ())])
        dirty.append_as_leader(batch, leader_epoch=0, now_ms=world.now_ms, guard=NOT_VERIFIED)
        dirty.update_high_watermark(dirty.log_end_offset)

    def chosen() -> str:
        job = world.cleaner.next_job(world.now_ms)
        assert job is not None
        world.cleaner.finish(job, None)
        return job.log.topic_partition.topic

    costs = world.cleaner.costs
    assert chosen() == "other"
    costs.add("other", 0.9 * ROUND_CPU_S, world.now_ms)
    assert chosen() == "other"
    costs.add("other", 0.2 * ROUND_CPU_S, world.now_ms)
    assert chosen() == hostile.topic_partition.topic
    costs.add("t", 2.1 * ROUND_CPU_S, world.now_ms)
    assert chosen() == "other"
    world.now_ms += 10 * HALF_LIFE_MS
    assert chosen() == "other"
    assert costs.rounds("t", world.now_ms) == costs.rounds("other", world.now_ms) == 0
