"""The `.snapshot` files of a log: their content, and their removal."""

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.record import ControlType
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.unit.logstore.log_maker import NOW_MS, append, end_transaction, files, open_log, send


def snapshots(disk: MemoryDisk) -> list[int]:
    """Return the offsets of the snapshots on the disk."""
    return sorted(int(name[:20]) for name in files(disk) if name.endswith(".snapshot"))


def with_deleted_open_transaction(disk: MemoryDisk) -> PartitionLog:
    log = open_log(disk)
    send(log, 1, 0, is_transactional=True)
    log.roll(now_ms=NOW_MS)
    append(log)
    log.update_high_watermark(2)
    log.flush(now_ms=NOW_MS)
    log.delete_segments(log.segments[:1], now_ms=NOW_MS)
    return log


def test_a_flush_makes_snapshots_durable() -> None:
    disk = MemoryDisk()
    log = with_deleted_open_transaction(disk)
    append(log)
    log.roll(now_ms=NOW_MS)
    synced: set[str] = set()
    disk.watch = lambda operation, path: synced.add(path.name) if operation == "sync" else None

    log.flush(now_ms=NOW_MS)

    assert f"{3:020d}.snapshot" in synced
    log = open_log(disk, recovery_point=3, log_start_offset=1)
    assert log.notes == [] and log.has_ongoing_transaction(1, 0)


def test_a_snapshot_is_deleted_with_its_segment() -> None:
    disk = MemoryDisk()
    log = with_deleted_open_transaction(disk)
    log.roll(now_ms=NOW_MS)
    assert snapshots(disk) == [1, 2]
    append(log)
    log.update_high_watermark(3)

    log.delete_segments(log.segments[:1], now_ms=NOW_MS)

    assert snapshots(disk) == [2]
    gone = [path.name for path in log.take_deleted_paths()]
    assert f"{1:020d}.snapshot.deleted" in gone


def test_only_the_newest_snapshot_of_a_close_is_kept() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, 1, sequence)
        log.close(now_ms=NOW_MS)
        log = open_log(disk, clean_shutdown=True)

    assert snapshots(disk) == [3]


def test_a_snapshot_from_before_the_log_is_ignored() -> None:
    """The batches after the snapshot are gone: the log was dropped, and restarted at a higher offset."""
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1, 7)
    log.roll(now_ms=NOW_MS)
    before = files(disk)[f"{1:020d}.snapshot"]
    log.truncate_fully_and_start_at(9, now_ms=NOW_MS)
    disk.write_file(log.directory / f"{1:020d}.snapshot", before, sync=True)

    log = open_log(disk, log_start_offset=9)

    assert log.producer_id_count == 0
    assert send(log, 1, 0).base_offset == 9


def test_a_snapshot_has_the_epoch_of_the_coordinator_that_ended_a_transaction() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, 1, 0, is_transactional=True)
    end_transaction(log, 1, ControlType.COMMIT, coordinator_epoch=4)
    log.close(now_ms=NOW_MS)

    log = open_log(disk, clean_shutdown=True)

    with pytest.raises(KafkaError) as refused:
        end_transaction(log, 1, ControlType.ABORT, coordinator_epoch=3)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
