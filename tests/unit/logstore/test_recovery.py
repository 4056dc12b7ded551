"""The opening of a log's directory after a clean close, a crash, a power cut, an interrupted replacement."""

from dataclasses import replace

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.producer_state import encode_snapshot
from ottla.logstore.record import ControlType, build_batch
from ottla.logstore.record_batch import read_header
from ottla.logstore.segment import Segment
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from tests.unit.logstore.log_maker import (
    DIRECTORY,
    NOW_MS,
    append,
    batch_of,
    end_transaction,
    epochs_of,
    files,
    open_log,
    records_of_log,
    send,
)

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=80)
INDEXES = (".index", ".timeindex", ".txnindex")


def filled(disk: MemoryDisk, *, config: LogConfig = CONFIG) -> PartitionLog:
    """Return a log of some thirty batches in several segments and epochs, idempotent and transactional."""
    log = open_log(disk, config=config)
    for number in range(10):
        append(log, 2, timestamp=NOW_MS + number * 10, epoch=number // 4)
        send(log, 1, number, timestamp=NOW_MS + number * 7, epoch=number // 4)
        send(log, 2, number, is_transactional=True, epoch=number // 4)
        if number % 3 == 2:
            end_transaction(log, 2, ControlType(number % 2))
    return log


def test_after_a_clean_close_no_batch_is_read() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    records = records_of_log(log)
    log.close(now_ms=NOW_MS)
    seen: list[str] = []
    disk.watch = lambda operation, path: seen.append(path.suffix) if operation == "read" else None

    log = open_log(disk, config=CONFIG, clean_shutdown=True)

    disk.watch = None
    assert log.notes == []
    assert log.recovery_point == log.log_end_offset
    assert records_of_log(log) == records
    assert send(log, 1, 9).duplicate
    assert log.has_ongoing_transaction(2, 0)
    assert append(log).base_offset == len(records)


def test_zeros_behind_an_older_segment_are_kept_and_hide_nothing_as_in_kafka() -> None:
    # Apache Kafka 4.3.1 serves the zeros with the segment, and the next segment from its own start.
    disk = MemoryDisk()
    log = filled(disk)
    records = records_of_log(log)
    log.close(now_ms=NOW_MS)
    path, size = log.segments[0].path, log.segments[0].size_bytes
    disk.open(path).write_at(size, (bytes(500),))

    log = PartitionLog.open(
        disk=disk,
        directory=DIRECTORY,
        topic_partition=log.topic_partition,
        topic_id=log.topic_id,
        config=CONFIG,
        now_ms=NOW_MS,
        clean_shutdown=True,
    )

    def read(offset: int) -> bytes:
        return log.read(offset, 10**6, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice.read()

    assert (log.log_end_offset, log.segments[0].size_bytes) == (len(records), size + 500)
    assert len(read(0)) == size + 500
    assert read_header(read(log.segments[1].base_offset)).base_offset == log.segments[1].base_offset


@pytest.mark.parametrize("lost", [(".index",), (".timeindex",), INDEXES])
def test_rebuilt_indexes_equal_the_lost_ones(lost: tuple[str, ...]) -> None:
    disk = MemoryDisk()
    filled(disk).close(now_ms=NOW_MS)
    before = files(disk)
    assert sum(name.endswith(".txnindex") for name in before) >= 1
    for path in [path for path in disk.files if path.suffix in lost]:
        del disk.files[path]

    log = open_log(disk, config=CONFIG, clean_shutdown=False)
    log.close(now_ms=NOW_MS)

    assert {name: content for name, content in files(disk).items() if name in before} == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_broken_index_of_an_old_segment_is_rebuilt_after_a_clean_shutdown(suffix: str) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.close(now_ms=NOW_MS)
    before = files(disk)
    name = f"{log.segments[1].base_offset:020d}{suffix}"
    disk.files[DIRECTORY / name].content[:] = bytes(len(before[name]) + 1)

    log = open_log(disk, config=CONFIG, clean_shutdown=True)

    assert len(log.notes) == 1 and "rebuilt" in log.notes[0]
    assert files(disk)[name] == before[name]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_log_is_opened_and_appended_to_after_any_flipped_bit_of_its_last_index(suffix: str) -> None:
    disk = MemoryDisk()
    config = LogConfig(index_interval_bytes=80)
    log = filled(disk, config=config)
    log.close(now_ms=NOW_MS)
    name = f"{0:020d}{suffix}"
    size = len(files(disk)[name])

    for bit in range(8 * size):
        damaged = disk.copy()
        damaged.files[DIRECTORY / name].content[bit // 8] ^= 1 << bit % 8
        # Not all invariants hold: only the log check compares every row with its batch.
        again = PartitionLog.open(
            disk=damaged,
            directory=DIRECTORY,
            topic_partition=TopicPartition("t", 0),
            topic_id=ZERO_UUID,
            config=config,
            now_ms=NOW_MS,
            clean_shutdown=True,
            recovery_point=log.log_end_offset,
        )

        assert append(again, epoch=9).base_offset == log.log_end_offset
        again.close(now_ms=NOW_MS)


def test_a_tail_torn_at_any_byte_is_truncated_to_the_last_whole_batch() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    ends = [0]
    for number in range(3):
        append(log, number + 1)
        ends.append(log.size_bytes)
    content = files(disk)["00000000000000000000.log"]

    for length in range(len(content)):
        torn = MemoryDisk()
        torn.make_directory(DIRECTORY)
        torn.write_file(DIRECTORY / "00000000000000000000.log", content[:length], sync=True)

        log = open_log(torn)

        whole = sum(end <= length for end in ends) - 1
        assert log.size_bytes == ends[whole]
        assert log.log_end_offset == [0, 1, 3, 6][whole]
        assert bool(log.notes) == (length not in ends)
        assert append(log).base_offset == [0, 1, 3, 6][whole]


def test_a_changed_byte_ends_the_log_there() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    victim = log.segments[2]
    disk.files[victim.path].content[100] ^= 1

    log = open_log(disk, config=CONFIG, recovery_point=0)

    assert victim.base_offset <= log.log_end_offset
    assert len(log.segments) == 3
    assert [record.offset for record in records_of_log(log)] == list(range(log.log_end_offset))


def test_only_segments_above_the_recovery_point_are_read_again() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    flushed = log.segments[3].base_offset
    old = log.segments[:2]  # the end of the third segment is read
    disk.files[old[0].path].content[70] ^= 1  # this would be found if the segment were read
    read: set[str] = set()
    disk.watch = lambda operation, path: read.add(path.name) if operation == "read" else None

    log = open_log_unchecked(disk, recovery_point=flushed)

    assert not {segment.path.name for segment in old} & read
    assert log.recovery_point == flushed


def open_log_unchecked(disk: MemoryDisk, *, recovery_point: int) -> PartitionLog:
    return PartitionLog.open(
        disk=disk,
        directory=DIRECTORY,
        topic_partition=("t", 0),  # type: ignore[arg-type]
        topic_id=bytes(16),
        config=CONFIG,
        now_ms=NOW_MS,
        clean_shutdown=False,
        recovery_point=recovery_point,
    )


@pytest.mark.parametrize("clean_shutdown", [False, True])
def test_trap_30_producers_are_recognised_after_a_crash_and_a_restart(clean_shutdown: bool) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    if clean_shutdown:
        log.close(now_ms=NOW_MS)

    log = open_log(disk, config=CONFIG, clean_shutdown=clean_shutdown)

    assert send(log, 1, 9).duplicate
    assert not send(log, 1, 10).duplicate
    assert log.has_ongoing_transaction(2, 0)


def test_a_broken_snapshot_is_removed_and_the_older_one_is_used() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.close(now_ms=NOW_MS)
    newest = f"{log.log_end_offset:020d}.snapshot"
    disk.files[DIRECTORY / newest].content[8] ^= 1

    log = open_log(disk, config=CONFIG, clean_shutdown=True)

    assert len(log.notes) == 1 and newest in log.notes[0]
    assert send(log, 1, 9).duplicate


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_lost_epochs_are_found_in_the_batches(content: bytes | None) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    epochs = epochs_of(log)
    log.close(now_ms=NOW_MS)
    if content is None:
        disk.remove(DIRECTORY / "leader-epoch-checkpoint")
    else:
        disk.write_file(DIRECTORY / "leader-epoch-checkpoint", content, sync=True)

    assert epochs_of(open_log(disk, config=CONFIG, clean_shutdown=True)) == epochs


def test_batches_restored_by_a_power_cut_restore_their_epoch() -> None:
    """The batches had been truncated and written again in the next epoch, which only the epoch file shows."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, 3, epoch=4)
    append(log, 2, epoch=5)
    before = files(disk)[f"{0:020d}.log"], epochs_of(log)
    log.truncate_to(3, now_ms=NOW_MS)
    append(log, 2, epoch=6)
    assert epochs_of(log) != before[1]
    disk.write_file(DIRECTORY / f"{0:020d}.log", before[0], sync=True)

    again = open_log(disk)

    assert (again.log_end_offset, epochs_of(again)) == (5, before[1])


@pytest.mark.parametrize("tail", ["batches", "zeros", "torn"])
def test_a_truncation_undone_by_a_power_cut_hides_nothing_of_the_next_segment(tail: str) -> None:
    """Flushed batches were truncated, then a new segment was created; the disk kept only the new segment."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, 3)
    append(log, 2, value=b"cut")
    log.flush(now_ms=NOW_MS)
    path = log.active_segment.path
    before = bytes(disk.files[path].content)
    log.truncate_to(3, now_ms=NOW_MS)
    kept = log.active_segment.size_bytes
    recovery_point = log.recovery_point
    log.roll(now_ms=NOW_MS)
    behind = {"batches": before[kept:], "zeros": bytes(len(before) - kept), "torn": before[kept:-1]}
    disk.write_file(path, before[:kept] + behind[tail], sync=True)

    again = open_log(disk, recovery_point=recovery_point)
    append(again, value=b"new")

    assert recovery_point == 3
    assert [record.value for record in records_of_log(again)] == [b"v", b"v", b"v", b"new"]


def test_a_segment_restored_by_a_power_cut_is_recognised_by_its_epoch() -> None:
    """The segment was removed, and the batches before it now have a newer epoch."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    append(log, value=b"cut")
    log.roll(now_ms=NOW_MS)
    append(log, value=b"cut")
    path = log.active_segment.path
    before = bytes(disk.files[path].content)
    log.truncate_to(1, now_ms=NOW_MS)
    append(log, epoch=1)
    disk.write_file(path, before, sync=True)

    again = open_log(disk)

    assert [record.value for record in records_of_log(again)] == [b"v", b"v"]
    assert [row.epoch for row in epochs_of(again)] == [0, 1]


def test_snapshots_restored_by_a_power_cut_are_ignored() -> None:
    """Above the recovery point a removal may be undone, and the records there may be others by now."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1, 0, is_transactional=True)
    log.roll(now_ms=NOW_MS)
    send(log, 1, 1, is_transactional=True)
    log.roll(now_ms=NOW_MS)
    send(log, 2, 0)
    without_producers = encode_snapshot([])
    for offset in (1, 2, 3):
        disk.write_file(DIRECTORY / f"{offset:020d}.snapshot", without_producers, sync=True)

    again = open_log(disk)
    again.update_high_watermark(3)

    assert again.last_stable_offset == 0
    end_transaction(again, 1, ControlType.ABORT)
    again.update_high_watermark(4)
    read = again.read(0, 10_000, isolation=FetchIsolation.TXN_COMMITTED, minimum_one_batch=True)
    assert read.aborted_transactions == [AbortedTransaction(1, 0, 3, 4)]


def test_recovery_keeps_the_state_of_segments_that_are_deleted_later() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1, 0, is_transactional=True)
    log.roll(now_ms=NOW_MS)
    append(log)
    log = open_log(disk)
    log.update_high_watermark(2)
    log.delete_segments(log.segments[:1], now_ms=NOW_MS)

    log = open_log(disk, log_start_offset=1)

    assert log.has_ongoing_transaction(1, 0)
    assert send(log, 1, 1, is_transactional=True).base_offset == 2


def test_preallocated_zeros_are_truncated() -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=LogConfig(preallocate=True, segment_bytes=5000))
    append(log)
    assert disk.file_size(log.active_segment.path) == 5000

    log = open_log(disk)

    assert log.log_end_offset == 1
    assert disk.file_size(log.active_segment.path) == log.size_bytes


def test_space_left_beyond_the_end_by_a_crash_is_freed_by_the_roll() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    path, size = log.active_segment.path, log.size_bytes
    disk.files[path].allocated_bytes = 1 << 20

    log = open_log(disk)
    assert (log.log_end_offset, log.size_bytes) == (1, size)
    log.roll(now_ms=NOW_MS)

    assert disk.file_size(path) == size
    assert not disk.files[path].allocated_bytes


def test_leftovers_of_a_deletion_are_removed_and_unknown_files_are_reported_and_kept() -> None:
    disk = MemoryDisk()
    filled(disk).close(now_ms=NOW_MS)
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000009.index.deleted",
        "00000000000000000003.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000777.index",
        "notes.txt",
        "123.log",
    ):
        disk.write_file(DIRECTORY / name, b"x", sync=True)

    log = open_log(disk, config=CONFIG, clean_shutdown=True)

    left = files(disk)
    assert not [name for name in left if name.endswith((".deleted", ".cleaned", ".tmp"))]
    assert "00000000000000000777.index" not in left
    assert {"notes.txt", "123.log"} <= set(left)
    assert len(log.notes) == 3
    assert any("notes.txt is not a file of a log" in note for note in log.notes)


def cleaned_from(log: PartitionLog, disk: MemoryDisk, *, count: int) -> tuple[list[Segment], list[Segment]]:
    """Return a `.cleaned` segment with the last record of the first `count` segments, and those segments."""
    old = log.segments[:count]
    last = old[-1].find_end()[0] - 1
    new = Segment.create(disk, DIRECTORY, old[0].base_offset, CONFIG, now_ms=NOW_MS, suffix=".cleaned")
    batch = build_batch([(b"k", b"last", NOW_MS, ())], base_offset=last, partition_leader_epoch=0)
    new.append([batch], len(batch))
    new.index_batch(last, NOW_MS, 0, CONFIG.index_interval_bytes)
    new.seal()
    return [new], old


def test_cleaned_segments_replace_the_old_ones() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    new, old = cleaned_from(log, disk, count=2)
    after = log.segments[2].base_offset

    log.replace_segments(new, old)

    assert log.segments[0] is new[0]
    assert [record.offset for record in records_of_log(log)][:2] == [after - 1, after]
    assert {path.name for path in log.take_deleted_paths()} >= {"00000000000000000000.log.deleted"}
    log.check_invariants()


def test_a_swap_file_beside_a_cleaned_file_has_no_effect() -> None:
    # Apache Kafka writes several new segments at once; after a crash some of them may be renamed.
    disk = MemoryDisk()
    log = filled(disk)
    before = [record.offset for record in records_of_log(log)]
    log.close(now_ms=NOW_MS)
    first, second = (segment.base_offset for segment in log.segments[:2])
    disk.write_file(DIRECTORY / f"{first:020d}.log.cleaned", b"half", sync=True)
    disk.write_file(DIRECTORY / f"{second:020d}.log.swap", bytes(batch_of(1, base_offset=second)), sync=True)

    log = open_log(disk, config=CONFIG)

    assert [record.offset for record in records_of_log(log)] == before
    assert not [name for name in files(disk) if name.endswith((".swap", ".cleaned"))]


def test_a_snapshot_from_beyond_the_torn_end_is_removed() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.close(now_ms=NOW_MS)
    end, last = log.log_end_offset, log.segments[-1].base_offset
    assert f"{end:020d}.snapshot" in files(disk)
    del disk.files[DIRECTORY / f"{last:020d}.log"].content[-1:]

    log = open_log(disk, config=CONFIG)

    assert log.log_end_offset < end
    assert max(name for name in files(disk) if name.endswith(".snapshot")) <= f"{log.log_end_offset:020d}~"


def test_a_replacement_that_stops_at_any_step_leaves_the_old_or_the_new_segments() -> None:
    step = 0
    outcomes: set[bool] = set()
    while True:
        step += 1
        disk = MemoryDisk()
        log = filled(disk)
        log.flush(now_ms=NOW_MS)
        before = [record.offset for record in records_of_log(log)]
        new, old = cleaned_from(log, disk, count=2)
        kept = [offset for offset in before if offset >= log.segments[2].base_offset - 1]
        disk.fail_at = disk.steps + step
        try:
            log.replace_segments(new, old)
        except Exception:
            disk.repair()
        else:
            break

        log = open_log(disk, config=replace(CONFIG, cleanup_policy=("compact",)))

        offsets = [record.offset for record in records_of_log(log)]
        assert offsets in (before, kept)
        outcomes.add(offsets == kept)
    assert outcomes == {True, False}


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_a_torn_flushed_segment_does_not_remove_later_ones(clean_shutdown: bool) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.close(now_ms=NOW_MS)
    victim, end = log.segments[1], log.log_end_offset
    disk.remove(victim.offset_index.path)
    del disk.files[victim.path].content[-10:]

    log = open_log(disk, config=CONFIG, clean_shutdown=clean_shutdown, recovery_point=end)

    assert log.log_end_offset == end
    assert any("bytes after the last whole batch were removed" in note for note in log.notes)
    lost = set(range(end)) - {record.offset for record in records_of_log(log)}
    assert lost and max(lost) == log.segments[2].base_offset - 1


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_the_loss_of_flushed_records_is_reported(clean_shutdown: bool) -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.close(now_ms=NOW_MS)
    end, last = log.log_end_offset, log.segments[-1]
    disk.files[last.path].content.clear()

    again = open_log(disk, config=CONFIG, clean_shutdown=clean_shutdown, recovery_point=end)

    assert again.log_end_offset < end
    assert any("are lost" in note and str(end) in note for note in again.notes)


def test_a_log_that_ends_before_its_start_starts_afresh() -> None:
    disk = MemoryDisk()
    filled(disk)

    log = open_log(disk, config=CONFIG, log_start_offset=10_000)

    assert (log.log_start_offset, log.log_end_offset) == (10_000, 10_000)
    assert append(log).base_offset == 10_000


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize(("left", "compacted_to", "end"), [(2, 0, 2), (0, 0, 0), (2, 1, 5), (0, 1, 5)])
def test_a_hole_left_by_a_power_cut_ends_the_log_but_holes_of_compaction_do_not(
    policy: str, left: int, compacted_to: int, end: int
) -> None:
    disk = MemoryDisk()
    config = LogConfig(cleanup_policy=(policy,))
    log = open_log(disk, config=config)
    for _ in range(4):
        append(log)
    first = log.active_segment.path
    log.roll(now_ms=NOW_MS)
    append(log)
    del disk.files[first].content[left * len(batch_of()) :]

    assert open_log(disk, config=config, compacted_to=compacted_to).log_end_offset == end


@pytest.mark.parametrize("gap", [1_000, 2**32])
def test_a_follower_of_a_compacted_log_has_no_hole_between_its_segments(gap: int) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    log.update_config(LogConfig(segment_bytes=100))

    log.append_as_follower(batch_of(base_offset=gap), now_ms=NOW_MS)

    (first, second), is_near = log.segments, gap < 2**31
    assert (first.base_offset, second.base_offset) == (0, 1 if is_near else gap)
    # A batch too far for the index of the old segment is fetched once more.
    assert open_log(disk).log_end_offset == (gap + 1 if is_near else 1)


def test_a_directory_is_created_with_an_empty_log_file() -> None:
    disk = MemoryDisk()

    log = open_log(disk)

    assert files(disk) == {"00000000000000000000.log": b""}
    log.close(now_ms=NOW_MS)
    assert set(files(disk)) == {"00000000000000000000.log"}


def test_flushed_aborted_transactions_survive_a_power_cut_after_a_roll() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 2, 0, is_transactional=True)
    end_transaction(log, 2, ControlType.ABORT)
    log.flush(now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)

    disk.lose_power()

    again = open_log(disk, recovery_point=2)
    again.update_high_watermark(2)
    read = again.read(0, 10_000, isolation=FetchIsolation.TXN_COMMITTED, minimum_one_batch=True)
    assert read.aborted_transactions == [AbortedTransaction(2, 0, 1, 2)]


def test_aborted_transactions_listed_by_recovery_survive_the_next_power_cut() -> None:
    """They are below the recovery point and, after a roll, not in the segment that is always read again."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1, 0, is_transactional=True)
    end_transaction(log, 1, ControlType.ABORT)
    log.flush(now_ms=NOW_MS)
    for _ in range(2):
        disk.lose_power()
        log = open_log(disk, recovery_point=2)
        log.roll(now_ms=NOW_MS)
    log.update_high_watermark(2)

    info = log.read(0, 10**6, isolation=FetchIsolation.TXN_COMMITTED, minimum_one_batch=True)

    assert [row.first_offset for row in info.aborted_transactions or []] == [0]
