"""Bits that flip in a log's files while its node is stopped: they are found, or no reader gets wrong data."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.leader_epoch_cache import EpochEndOffset
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.record import ControlType, iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.segment import TimestampAndOffset
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from tests.unit.logstore.log_maker import DIRECTORY, NOW_MS, append, end_transaction, open_log, send
from tests.unit.logstore.test_log_check import checked

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=80)
LOG_END_OFFSET = 46  # the entry in the checkpoint of recovery points


def stopped_log(*, loses_segments: int = 0) -> MemoryDisk:
    """Return a disk with a log that was closed cleanly.

    It has several segments, epochs and producers, and aborted transactions.
    """
    disk = MemoryDisk()
    log = open_log(disk, config=CONFIG)
    for number in range(8):
        append(log, 2, timestamp=NOW_MS + number * 10, epoch=number // 3)
        send(log, 1, number, timestamp=NOW_MS + number * 7, epoch=number // 3)
        send(log, 2, number, is_transactional=True, epoch=number // 3)
        send(log, 3, number, is_transactional=True, epoch=number // 3)
        if number % 2:
            end_transaction(log, 2, ControlType.ABORT)
        if number in (2, 6):
            end_transaction(log, 3, ControlType.ABORT)
    log.update_high_watermark(log.log_end_offset)
    log.delete_segments(log.segments[:loses_segments], now_ms=NOW_MS)
    for path in log.take_deleted_paths():
        disk.remove(path)
    log.close(now_ms=NOW_MS)
    return disk


class Read(NamedTuple):
    """The results that a log returns to its readers."""

    committed: list[tuple[int, bytes | None, int]]
    by_time: list[TimestampAndOffset | None]
    epochs: list[EpochEndOffset]
    sequences: list[int]
    offsets: tuple[int, int, int]


def read_all(log: PartitionLog) -> Read:
    log.update_high_watermark(log.log_end_offset)
    return Read(
        list(committed_records(log)),
        [log.fetch_offset_for_timestamp(NOW_MS + number) for number in range(0, 80, 3)],
        [log.end_offset_for_epoch(epoch) for epoch in range(4)],
        [log.last_sequence(producer, 0) for producer in (1, 2, 3)],
        (log.log_start_offset, log.log_end_offset, log.last_stable_offset),
    )


def committed_records(log: PartitionLog) -> Iterator[tuple[int, bytes | None, int]]:
    """Yield the records that a read_committed consumer sees, reading one batch at a time."""
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        found = log.read(offset, 1, isolation=FetchIsolation.TXN_COMMITTED, minimum_one_batch=True)
        content = found.slice.read()
        ((_, header),) = iterate_headers(content)
        aborted = found.aborted_transactions or []
        is_aborted = header.is_transactional and any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset
            for one in aborted
        )
        if not header.is_control and not is_aborted:
            for record in iterate_records(content):
                yield record.offset, record.value, record.timestamp
        offset = header.next_offset


def opened(contents: dict[Path, bytes]) -> tuple[MemoryDisk, PartitionLog]:
    disk = MemoryDisk()
    for path, content in contents.items():
        disk.make_directory(path.parent)
        disk.write_file(path, content, sync=True)
    log = PartitionLog.open(
        disk=disk,
        directory=DIRECTORY,
        topic_partition=TopicPartition("t", 0),
        topic_id=ZERO_UUID,
        config=CONFIG,
        now_ms=NOW_MS,
        clean_shutdown=True,
        recovery_point=LOG_END_OFFSET,
    )
    return disk, log


@pytest.mark.slow
@pytest.mark.parametrize("loses_segments", [0, 2])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot", "checkpoint", ".log"])
def test_a_bit_that_flips_is_found_or_harmless(suffix: str, loses_segments: int) -> None:
    chance = random.Random(f"{suffix} {loses_segments}")
    stopped = stopped_log(loses_segments=loses_segments)
    contents = {path: bytes(file.content) for path, file in stopped.files.items()}
    right_disk, right_log = opened(contents)
    right = read_all(right_log)
    assert not checked(right_log, right_disk).findings
    assert right.committed and any(right.by_time)
    paths = [path for path in contents if path.name.endswith(suffix) and contents[path]]
    assert paths
    assert right.offsets[1] == LOG_END_OFFSET
    step = {".log": 5, ".snapshot": 9}.get(suffix, 1)
    for path in paths:
        size_bytes = len(contents[path])
        # Every byte of the last batches: a restart may take a damaged one for torn, and truncate it.
        is_last_segment = suffix == ".log" and path == paths[-1]
        sampled = size_bytes - 200 if is_last_segment else size_bytes
        positions = [*range(chance.randrange(step), sampled, step), *range(max(0, sampled), size_bytes)]
        for position in positions:
            flipped = bytearray(contents[path])
            flipped[position] ^= 1 << chance.randrange(8)

            try:
                disk, log = opened({**contents, path: bytes(flipped)})
            except KafkaError:
                continue  # the log is offline, and reports the damage
            if checked(log, disk).findings:
                continue
            assert read_all(log) == right, (path.name, position)
