"""The log check finds damage in the files of a log, down to a single bit anywhere."""

import random
from collections.abc import Collection
from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_check import FileKind, LogCheck, check_of, rebuilt_indexes, write_indexes
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.record import ControlType
from tests.unit.logstore.log_maker import (
    NOW_MS,
    append,
    end_transaction,
    files,
    open_log,
    records_of_log,
    send,
)
from tests.unit.logstore.test_cleaned_transactions import PRODUCERS, TransactionalWorld

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=80)
CHECKED_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def filled(disk: MemoryDisk, config: LogConfig = CONFIG) -> PartitionLog:
    """Return a log of some thirty batches in several segments and epochs, with aborted transactions."""
    log = open_log(disk, config=config)
    for number in range(10):
        append(log, 2, timestamp=NOW_MS + number * 10, epoch=number // 4)
        send(log, 1, number, timestamp=NOW_MS + number * 7, epoch=number // 4)
        send(log, 2, number, is_transactional=True, epoch=number // 4)
        send(log, 3, number, is_transactional=True, epoch=number // 4)
        if number % 2:
            end_transaction(log, 2, ControlType.ABORT)
        if number % 5 == 3:
            end_transaction(log, 3, ControlType.ABORT)
    log.update_high_watermark(log.log_end_offset)
    return log


def checked(log: PartitionLog, disk: MemoryDisk, *, offsets: Collection[int] | None = None) -> LogCheck:
    """Return the finished check of a log, or of its segments with these offsets."""
    check = check_of(log, disk, offsets=offsets)
    for _ in check.steps():
        pass
    return check


def flip(disk: MemoryDisk, path: Path, bit: int) -> None:
    content = disk.files[path].content
    content[bit // 8] ^= 1 << bit % 8
    disk.forget(path)


def closed_files(log: PartitionLog, disk: MemoryDisk) -> list[Path]:
    """Return the files that the check reads; the active segment's offset and time index are in memory."""
    active = log.active_segment
    in_memory = (active.offset_index.path, active.time_index.path)
    return sorted(path for path in disk.files if path.suffix in CHECKED_SUFFIXES and path not in in_memory)


def test_a_healthy_log_has_no_findings() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    assert len(log.segments) > 3
    assert any(path.suffix == ".txnindex" for path in closed_files(log, disk))

    check = check_of(log, disk)
    read = sum(check.steps())

    assert check.findings == []
    assert check.is_current
    assert read >= log.size_bytes


@pytest.mark.parametrize("seed", range(6))
def test_any_flipped_bit_in_any_file_is_found(seed: int) -> None:
    chance = random.Random(seed)
    disk = MemoryDisk()
    log = filled(disk)
    for path in closed_files(log, disk):
        size_bits = 8 * len(disk.files[path].content)
        for bit in chance.sample(range(size_bits), min(size_bits, 12)):
            flip(disk, path, bit)

            findings = checked(log, disk).findings

            assert findings, (path, bit // 8, bit % 8)
            found = findings[0]
            if path.suffix == ".log":
                assert (found.kind, found.path) == (FileKind.LOG, path)
                assert found.position <= bit // 8, "the damage is not before the bit"
            else:
                assert [one.path for one in findings] == [path]
            flip(disk, path, bit)
    assert checked(log, disk).findings == []


def test_every_flipped_bit_of_the_headers_is_found() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    segment = log.segments[1]
    for position, _ in list(segment.headers()):
        for bit in range(position * 8, (position + 61) * 8):
            flip(disk, segment.path, bit)
            check = checked(log, disk, offsets=[segment.base_offset])
            (found,) = [one for one in check.findings if one.kind is FileKind.LOG]
            assert found.path == segment.path
            assert found.position == position, (bit - position * 8, found)
            flip(disk, segment.path, bit)


def test_a_wrong_index_is_rebuilt_as_it_was() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    good = files(disk)
    records = records_of_log(log)
    paths = [path for path in closed_files(log, disk) if path.suffix != ".log"]
    paths = [path for path in paths if path != log.active_segment.transaction_index.path]
    for path in paths:
        flip(disk, path, 8 * (len(disk.files[path].content) - 1))
        check = checked(log, disk)
        (found,) = check.findings

        write_indexes(rebuilt_indexes(check, found.segment, CONFIG.index_interval_bytes), disk)

        assert checked(log, disk).findings == []
        assert files(disk) == good
    log.check_invariants()
    assert records_of_log(log) == records


def test_a_missing_index_and_a_truncated_file_are_found() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    disk.remove(log.segments[0].offset_index.path)
    disk.open(log.segments[1].path).truncate(log.segments[1].size_bytes - 1)

    index, short = checked(log, disk).findings

    assert (index.kind, index.segment) == (FileKind.OFFSET_INDEX, log.segments[0])
    assert (short.kind, short.segment) == (FileKind.LOG, log.segments[1])


def test_truncating_the_log_or_deleting_segments_voids_the_check() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    check = checked(log, disk)
    append(log, 2, epoch=9)
    assert check.is_current, "batches that were added since are not checked"

    log.truncate_to(log.log_end_offset - 1, now_ms=NOW_MS)

    later = checked(log, disk)
    log.delete_segments(log.segments[:1], now_ms=NOW_MS)

    assert (check.is_current, later.is_current) == (False, False)


def test_a_log_that_lost_its_oldest_segments_is_healthy() -> None:
    disk = MemoryDisk()
    log = filled(disk)
    log.delete_segments(log.segments[:2], now_ms=NOW_MS)
    assert checked(log, disk).findings == []


@pytest.mark.parametrize("seed", range(6))
def test_a_compacted_log_with_transactions_is_healthy_after_each_round(seed: int) -> None:
    chance, world = random.Random(seed), TransactionalWorld()
    for _ in range(12):
        for _ in range(chance.randrange(1, 6)):
            key, value = chance.choice([b"a", b"b", b"c"]), chance.choice([None, b"1", b"long" * 9])
            if chance.random() < 0.4:
                world.append((key, value))
            else:
                world.add(chance.choice(PRODUCERS), (key, value))
        if chance.random() < 0.6:
            world.end_transaction(chance.choice(PRODUCERS), chance.choice(list(ControlType)[:2]))
        if chance.random() < 0.7:
            world.log.roll(now_ms=world.now_ms)
        world.run()
        world.now_ms += 600
        if chance.random() < 0.2:
            world.start()

        found = checked(world.log, world.disk).findings

        assert found == [], [str(one) for one in found]
