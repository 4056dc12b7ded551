"""The logs of a node: found at start, created, deleted, moved, and offline with their disk."""

import errno
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk, OsDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_dir import LogDir, parse_directory_name, suffixed_name
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition

A, B = Path("/a"), Path("/b")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = bytes(range(16))
CLUSTER_ID = bytes(range(1, 17))
CONFIG = LogConfig(file_delete_delay_ms=1_000)


class World:
    """A memory disk, and a clock that only the test advances."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.now_ms = 1_000_000
        self._unique = count(1)
        self.failed: list[tuple[Path, list[TopicPartition]]] = []  # directories that failed

    def offline(self, log_dir: LogDir, lost: list[TopicPartition]) -> None:
        self.failed.append((log_dir.path, lost))

    def manager(self, *dirs: Path, reports: bool = False) -> LogManager:
        return LogManager(
            log_dirs=dirs or (A, B),
            disk=self.disk,
            now_ms=lambda: self.now_ms,
            unique=lambda: next(self._unique).to_bytes(16, "big"),
            lock=None,
            on_offline=self.offline if reports else None,
        )

    def started(self, *dirs: Path, reports: bool = False) -> LogManager:
        manager = self.manager(*dirs, reports=reports)
        manager.acquire()
        manager.claim(cluster_id=CLUSTER_ID, node_id=1)
        manager.load(lambda _topic: CONFIG)
        return manager


@pytest.fixture
def world() -> World:
    return World()


def append(log: PartitionLog, *values: bytes) -> None:
    for value in values:
        log.append_as_leader(build_batch([(b"k", value, 1_000_000, ())]), leader_epoch=0, now_ms=1_000_000)
    log.update_high_watermark(log.log_end_offset)


def copied(manager: LogManager, name: TopicPartition = T0) -> PartitionLog:
    """Return a copy of the log that moves to /b and has caught up."""
    manager.move_to_dir(name, B)
    future = manager.future_logs[name]
    future.append_as_follower(all_bytes(manager.logs[name]))
    return future


def all_bytes(log: PartitionLog) -> bytes:
    return log.read(
        log.log_start_offset, 1 << 20, isolation=FetchIsolation.LOG_END, minimum_one_batch=True
    ).slice.read()


def test_new_partitions_are_created_in_the_directory_with_the_fewest(world: World) -> None:
    manager = world.started()

    places = [manager.get_or_create(TopicPartition("t", n), TOPIC_ID, CONFIG).directory for n in range(3)]

    assert places == [A / "t-0", B / "t-1", A / "t-2"]


def test_a_clean_restart_finds_everything_as_it_was(world: World) -> None:
    manager = world.started()
    log = manager.get_or_create(T0, TOPIC_ID, CONFIG)
    append(log, b"1", b"2", b"3")
    log.increment_log_start_offset(1)
    manager.close(broker_epoch=7)
    assert (A / ".kafka_cleanshutdown") in world.disk.files

    again = world.started()

    found = again.logs[T0]
    assert (found.log_start_offset, found.log_end_offset, found.high_watermark) == (1, 3, 3)
    assert found.topic_id == TOPIC_ID and found.recovery_point == 3
    assert (A / ".kafka_cleanshutdown") not in world.disk.files
    identity = again.identity()
    assert identity is not None and identity.cluster_id == CLUSTER_ID
    assert again.notes == []
    found.check_invariants()


def test_a_crash_is_recovered_from(world: World) -> None:
    manager = world.started(A)
    log = manager.get_or_create(T0, TOPIC_ID, CONFIG)
    append(log, b"1")
    log.flush(now_ms=world.now_ms)
    assert manager.write_pending(manager.pending_checkpoints()) == []
    append(log, b"2")
    world.disk.lose_power()

    again = world.started(A)

    assert again.logs[T0].log_end_offset == 1 and again.logs[T0].high_watermark == 1


def test_a_corrupt_checkpoint_is_reported_and_rebuilt(world: World) -> None:
    manager = world.started(A)
    append(manager.get_or_create(T0, TOPIC_ID, CONFIG), b"1")
    manager.close()
    world.disk.write_file(A / "recovery-point-offset-checkpoint", b"rubbish", sync=True)

    again = world.started(A)

    assert "recovery-point-offset-checkpoint" in again.notes[0]
    assert again.logs[T0].log_end_offset == 1


def test_a_directory_of_another_node_is_rejected(world: World) -> None:
    world.started(A).close()
    other = world.manager(A)
    other.acquire()

    with pytest.raises(KafkaError, match="belongs to node 1, but this is node 2"):
        other.claim(cluster_id=CLUSTER_ID, node_id=2)


def test_a_deleted_log_is_removed_after_the_delay(world: World) -> None:
    manager = world.started(A)
    append(manager.get_or_create(T0, TOPIC_ID, CONFIG), b"1")

    manager.delete(T0)
    new = manager.get_or_create(T0, bytes(range(2, 18)), CONFIG)

    (gone,) = [name for name in world.disk.list_directories(A) if name.endswith("-delete")]
    assert new.log_end_offset == 0 and manager.removals.take_due() == []
    world.now_ms += 1_000
    assert manager.removals.remove(manager.removals.take_due()) == []
    assert A / gone not in world.disk.directories and A / "t-0" in world.disk.directories


def test_leftovers_of_a_deletion_are_removed_at_the_next_start(world: World) -> None:
    manager = world.started(A)
    manager.get_or_create(T0, TOPIC_ID, CONFIG)
    manager.delete(T0)
    manager.close()

    again = world.started(A)
    again.removals.remove(again.removals.take_due())

    assert again.logs == {} and world.disk.list_directories(A) == []


def test_deleting_an_unknown_partition_does_nothing(world: World) -> None:
    manager = world.started(A)
    append(manager.get_or_create(T1, TOPIC_ID, CONFIG), b"1")
    before = set(world.disk.files)

    manager.delete(T0)

    assert set(manager.logs) == {T1} and manager.removals.waiting == []
    assert set(world.disk.files) == before


def test_the_log_of_an_older_topic_of_the_same_name_is_renamed_to_stray(world: World) -> None:
    manager = world.started(A)
    append(manager.get_or_create(T0, TOPIC_ID, CONFIG), b"1")

    log = manager.get_or_create(T0, bytes(range(2, 18)), CONFIG)

    assert log.log_end_offset == 0
    assert [name for name in world.disk.list_directories(A) if name.endswith("-stray")]
    assert manager.notes == [
        f"{A / 't-0'} belongs to a deleted topic of the same name; it is renamed to -stray and kept: remove "
        "it if you do not need it."
    ]


def test_a_late_write_of_a_checkpoint_writes_the_newest_offsets(world: World) -> None:
    """Otherwise DeleteRecords could be answered before its offset is on the disk."""
    manager = world.started(A)
    log = manager.get_or_create(T0, TOPIC_ID, CONFIG)
    append(log, b"1", b"2", b"3")
    log.increment_log_start_offset(1)
    first = manager.pending_checkpoints()
    log.increment_log_start_offset(2)
    second = manager.pending_checkpoints()
    third = manager.pending_checkpoints()

    assert manager.write_pending(first) == []

    assert [file.path for file in third] == [file.path for file in second], "nothing was written yet"
    assert world.started(A).logs[T0].log_start_offset == 2


@pytest.mark.parametrize("crashes_between", [False, True])
def test_a_new_log_does_not_inherit_the_checkpoints_of_a_deleted_one(
    world: World, crashes_between: bool
) -> None:
    manager = world.started(A)
    log = manager.get_or_create(T0, TOPIC_ID, CONFIG)
    append(log, b"1", b"2", b"3")
    log.increment_log_start_offset(2)
    late = manager.pending_checkpoints()
    assert manager.write_pending(late) == []
    append(log, b"4")
    late = manager.pending_checkpoints()
    manager.delete(T0)
    if crashes_between:
        manager, late = world.started(A), []

    append(manager.get_or_create(T0, bytes(range(1, 17)), CONFIG), b"new")
    manager.write_pending(late)  # the write of a slow thread
    again = world.started(A)

    assert (again.logs[T0].log_start_offset, again.logs[T0].log_end_offset) == (0, 1)
    assert again.notes == []


def test_strays_are_renamed_and_kept(world: World) -> None:
    manager = world.started(A)
    manager.get_or_create(T0, TOPIC_ID, CONFIG)
    manager.get_or_create(T1, TOPIC_ID, CONFIG)

    assert manager.set_strays_apart(lambda name, _topic_id: name == T1) == [T0]
    assert manager.notes[-1].endswith("is renamed to -stray and kept: remove it if you do not need it.")
    manager.close()

    assert set(world.started(A).logs) == {T1}


def test_directories_that_only_have_the_name_of_a_log_are_left_alone(world: World) -> None:
    """Such directories were once renamed to `-stray` while other programs used them."""
    for path in (A / "photos-2019" / "img.jpg", A / "node-0" / "data" / "meta.properties.txt"):
        world.disk.make_directory(path.parent)
        world.disk.write_file(path, b"mine", sync=True)
    world.disk.make_directory(A / "begun-0")  # left by a node that was killed

    manager = world.started(A)
    manager.set_strays_apart(lambda _name, _topic_id: False)

    assert set(world.disk.list_directories(A)) >= {"photos-2019", "node-0"}
    assert not manager.logs and not world.disk.exists(A / "begun-0")
    assert sum("has the name of a partition but contains no log" in note for note in manager.notes) == 2


@pytest.mark.parametrize("inside", ["", "data"])
def test_a_directory_with_the_data_of_other_nodes_is_rejected(world: World, inside: str) -> None:
    manager = world.manager(A / "node-0" / inside)
    manager.acquire()
    manager.claim(cluster_id=CLUSTER_ID, node_id=0)

    outer = world.manager(A)
    outer.acquire()
    with pytest.raises(KafkaError, match=r"/a holds the data of other nodes \(node-0\)"):
        outer.claim(cluster_id=CLUSTER_ID, node_id=1)

    assert not world.disk.exists(A / "meta.properties")


def test_a_disk_that_fails_takes_its_partitions_offline(world: World) -> None:
    manager = world.started(reports=True)
    broken, sound = (manager.get_or_create(name, TOPIC_ID, CONFIG) for name in (T0, T1))
    world.disk.fail_at, world.disk.error = world.disk.steps + 1, errno.ENOSPC

    with pytest.raises(KafkaError) as caught:
        append(broken, b"1")
    world.disk.repair()

    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.failed == [(A, [T0])] and manager.notes == [], "the callback reports it, once"
    with pytest.raises(KafkaError, match="No space left"):
        manager.find(T0)
    append(sound, b"1")
    assert manager.find(T1) is sound
    assert [log_dir.path for log_dir in manager.offline_dirs] == [A]
    with pytest.raises(KafkaError):
        manager.get_or_create(TopicPartition("t", 5), TOPIC_ID, CONFIG)
    new = manager.get_or_create(TopicPartition("t", 5), TOPIC_ID, CONFIG, is_new=True)
    assert new.directory.parent == B
    manager.close()
    assert (A / ".kafka_cleanshutdown") not in world.disk.files
    assert (B / ".kafka_cleanshutdown") in world.disk.files


def test_too_many_open_files_do_not_count_as_a_disk_failure(world: World) -> None:
    manager = world.started(A)
    log = manager.get_or_create(T0, TOPIC_ID, CONFIG)
    for step in (1, 2):
        world.disk.fail_at, world.disk.error = world.disk.steps + step, errno.EMFILE
        with pytest.raises(KafkaError, match="too many open files"):
            manager.get_or_create(T1, TOPIC_ID, CONFIG)
    world.disk.repair()

    append(log, b"1")
    append(manager.get_or_create(T1, TOPIC_ID, CONFIG), b"1")
    assert manager.offline_dirs == []


def test_flush_messages_sets_the_offset_from_which_a_flush_is_awaited(world: World) -> None:
    manager = world.started(A)
    config = LogConfig(flush_messages=2)
    log, copy = (manager.get_or_create(name, TOPIC_ID, config) for name in (T0, T1))

    append(log, b"1")
    assert log.flush_due_from is None
    append(log, b"2")
    append(log, b"3")
    copy.append_as_follower(all_bytes(log))
    assert (log.flush_due_from, copy.flush_due_from) == (1, 0), "from the batch on with which it was due"
    for each in (log, copy):
        target = each.flush_target()
        target.run()
        each.flushed(target, world.now_ms)
        assert each.recovery_point == 3 and each.flush_due_from is None
    world.disk.lose_power()

    again = world.started(A)
    assert again.logs[T0].log_end_offset == again.logs[T1].log_end_offset == 3


def test_batches_appended_during_a_flush_wait_for_the_next_one(world: World) -> None:
    log = world.started(A).get_or_create(T0, TOPIC_ID, LogConfig(flush_messages=1))
    append(log, b"1")
    target = log.flush_target()
    append(log, b"2")

    target.run()
    log.flushed(target, world.now_ms)

    assert (log.recovery_point, log.flush_due_from) == (1, 1)


def test_a_flush_does_not_count_for_batches_written_after_a_truncation(world: World) -> None:
    log = world.started(A).get_or_create(T0, TOPIC_ID, LogConfig(flush_messages=1))
    append(log, b"1", b"2")
    target = log.flush_target()
    target.run()
    log.truncate_to(0, now_ms=world.now_ms)
    assert log.flush_due_from is None
    append(log, b"3", b"4")

    log.flushed(target, world.now_ms)

    assert (log.recovery_point, log.flush_due_from) == (0, 0)


def test_a_failed_flush_takes_all_logs_of_the_disk_offline(world: World) -> None:
    manager = world.started(A)
    one, other = (manager.get_or_create(name, TOPIC_ID, CONFIG) for name in (T0, T1))
    append(one, b"1")

    one.flush_failed(OSError(errno.EIO, "gone"))

    assert manager.logs == {} and other.failure is not None
    with pytest.raises(KafkaError):
        append(other, b"1")


def test_it_is_an_error_at_start_if_no_directory_can_be_used(world: World) -> None:
    world.disk.fail_at, world.disk.stays_broken = world.disk.steps + 1, True

    with pytest.raises(KafkaError, match="No log directory can be used"):
        world.manager().acquire()


@pytest.mark.parametrize("dirs", [(), (A, A)])
def test_each_log_dir_must_be_named_once(world: World, dirs: tuple[Path, ...]) -> None:
    with pytest.raises(KafkaError):
        LogManager(log_dirs=dirs, disk=world.disk, now_ms=lambda: 0, unique=lambda: bytes(16), lock=None)


def test_a_partition_moves_to_another_directory(world: World) -> None:
    manager = world.started()
    log = manager.get_or_create(T0, TOPIC_ID, CONFIG)
    append(log, b"1", b"2")
    log.take_lowest_cut()  # as the cleaner does
    manager.set_cleaned_offset(log, 2)
    manager.move_to_dir(T0, B)
    future = manager.future_logs[T0]
    assert future.directory.parent == B and future.directory.name.endswith("-future")

    future.append_as_follower(all_bytes(log))
    moved = manager.swap_in_future(T0)

    assert moved.directory == B / "t-0" and manager.logs[T0] is moved
    assert (moved.log_end_offset, moved.high_watermark) == (2, 2)
    assert manager.cleaned_offset(moved) == 2 and moved.take_lowest_cut() is None
    append(moved, b"3")
    manager.close()
    assert world.started().logs[T0].log_end_offset == 3


@pytest.mark.parametrize("step", [1, 2])
def test_a_move_that_a_crash_interrupts_loses_nothing(world: World, step: int) -> None:
    manager = world.started()
    append(manager.get_or_create(T0, TOPIC_ID, CONFIG), b"1", b"2")
    manager.logs[T0].increment_log_start_offset(1)
    copied(manager)
    manager.write_pending(manager.pending_checkpoints())
    world.disk.fail_at, world.disk.stays_broken = world.disk.steps + step, True
    with pytest.raises(KafkaError):
        manager.swap_in_future(T0)
    world.disk.repair()

    again = world.started()
    assert again.set_strays_apart(lambda _name, topic_id: topic_id == TOPIC_ID) == []
    again.removals.remove(again.removals.take_due())

    assert again.logs[T0].log_end_offset == again.logs[T0].high_watermark == 2
    assert again.logs[T0].directory.name == "t-0" and again.logs[T0].log_start_offset == 1
    append(again.logs[T0], b"3")


def test_a_log_stays_in_use_if_its_copy_cannot_replace_it(world: World) -> None:
    manager = world.started()
    log = manager.get_or_create(T0, TOPIC_ID, CONFIG)
    append(log, b"1", b"2")
    copied(manager)
    world.disk.fail_at = world.disk.steps + 2

    with pytest.raises(KafkaError):
        manager.swap_in_future(T0)

    assert manager.logs[T0] is log and log.directory == A / "t-0" and manager.removals.waiting == []
    assert [one.path for one in manager.offline_dirs] == [B] and manager.future_logs == {}
    append(log, b"3")


def test_a_copy_of_a_deleted_topic_replaces_nothing(world: World) -> None:
    manager = world.started()
    append(manager.get_or_create(T0, TOPIC_ID, CONFIG), b"old")
    copied(manager)
    other_id = bytes(range(1, 17))

    again = world.started()
    again.set_strays_apart(lambda _name, topic_id: topic_id == other_id)
    assert again.future_logs == {} and again.logs == {}
    assert world.started().future_logs == {}


def test_a_copy_whose_log_is_on_a_missing_disk_waits(world: World) -> None:
    manager = world.started()
    append(manager.get_or_create(T0, TOPIC_ID, CONFIG), b"1")
    copied(manager)

    again = world.manager()
    again.acquire()
    again.take_offline(again.dirs[0], "pulled out")
    again.load(lambda _topic: CONFIG)
    again.set_strays_apart(lambda _name, _id: True)

    assert again.logs == {} and list(again.future_logs) == [T0]


def test_a_move_can_be_rejected_stopped_and_requested_in_advance(world: World) -> None:
    manager = world.started()
    manager.get_or_create(T0, TOPIC_ID, CONFIG)

    manager.move_to_dir(T0, B)
    manager.move_to_dir(T0, B)
    manager.move_to_dir(T0, A)

    assert manager.future_logs == {}
    with pytest.raises(KafkaError) as caught:
        manager.move_to_dir(T0, Path("/c"))
    assert caught.value.code is ErrorCode.LOG_DIR_NOT_FOUND
    with pytest.raises(KafkaError) as caught:
        manager.move_to_dir(T1, A)
    assert caught.value.code is ErrorCode.REPLICA_NOT_AVAILABLE
    assert manager.get_or_create(T1, TOPIC_ID, CONFIG).directory.parent == A


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t-0", (T0, "")),
        ("a-b.c-12", (TopicPartition("a-b.c", 12), "")),
        ("t-0." + "0" * 32 + "-delete", (T0, "-delete")),
        ("t-0." + "f" * 32 + "-future", (T0, "-future")),
        ("t-0." + "f" * 32 + "-stray", (T0, "-stray")),
        ("t", None),
        ("t-01", None),
        ("t--1", (TopicPartition("t-", 1), "")),
        ("-1", None),
        ("t-99999999999", None),
        ("lost+found", None),
        ("t-0." + "f" * 31 + "-delete", None),
    ],
)
def test_only_names_of_logs_are_parsed(name: str, expected: tuple[TopicPartition, str] | None) -> None:
    parsed = parse_directory_name(name)

    assert (parsed and (parsed.topic_partition, parsed.suffix)) == expected


def test_the_name_of_a_deleted_log_fits_in_a_directory() -> None:
    name = suffixed_name(TopicPartition("x" * 249, 2**31 - 1), bytes(16), "-delete")

    assert len(name) == 255
    assert parse_directory_name(name) is not None


@pytest.fixture
def os_manager(tmp_path: Path) -> Iterator[Callable[[], LogManager]]:
    made: list[LogManager] = []
    unique = count(1)

    def make() -> LogManager:
        made.append(
            LogManager(
                log_dirs=(tmp_path / "data",),
                disk=OsDisk(),
                now_ms=lambda: 1_000_000,
                unique=lambda: next(unique).to_bytes(16, "big"),
            )
        )
        return made[-1]

    yield make
    for manager in made:
        manager.release()


def test_a_second_node_on_a_directory_gets_an_error_with_the_process_id(
    os_manager: Callable[[], LogManager],
) -> None:
    first, second = os_manager(), os_manager()
    first.acquire()

    with pytest.raises(KafkaError, match=r"is in use by process \d+: stop it"):
        second.acquire()
    first.release()
    second.acquire()


@pytest.mark.slow
def test_many_partitions_are_reopened_from_a_real_disk(os_manager: Callable[[], LogManager]) -> None:
    first = os_manager()
    first.acquire()
    first.claim(cluster_id=CLUSTER_ID, node_id=1)
    first.load(lambda _topic: CONFIG)
    for number in range(200):
        first.get_or_create(TopicPartition("t", number), TOPIC_ID, CONFIG)
    first.close()

    second = os_manager()
    second.acquire()
    second.load(lambda _topic: CONFIG)

    assert len(second.logs) == 200


def test_logs_without_meta_properties_are_not_claimed_for_a_new_cluster(world: World) -> None:
    manager = world.started()
    manager.get_or_create(T0, TOPIC_ID, CONFIG, is_new=True)
    used = next(path for path in (A, B) if world.disk.exists(path / "t-0"))
    manager.close()
    world.disk.remove(used / "meta.properties")
    again = world.manager()
    again.acquire()

    with pytest.raises(KafkaError) as refused:
        again.claim(cluster_id=CLUSTER_ID, node_id=1)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "holds logs, but no meta.properties" in refused.value.detail
