"""Makers of a log on a disk in memory, and of batches for it."""

from pathlib import Path
from typing import Any

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.leader_epoch_cache import EpochEntry
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import AppendResult, FetchIsolation, PartitionLog
from ottla.logstore.record import (
    ControlType,
    EndTransactionMarker,
    NewRecord,
    Record,
    build_batch,
    iterate_records,
)
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition

DIRECTORY = Path("/data/t-0")
NOW_MS = 1_000_000


def epochs_of(log: PartitionLog) -> tuple[EpochEntry, ...]:
    """Return the leader epochs of a log, each with its first offset."""
    return log._epochs.entries


def open_log(
    disk: MemoryDisk,
    *,
    config: LogConfig | None = None,
    clean_shutdown: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    compacted_to: int = 0,
) -> PartitionLog:
    log = PartitionLog.open(
        disk=disk,
        directory=DIRECTORY,
        topic_partition=TopicPartition("t", 0),
        topic_id=ZERO_UUID,
        config=config or LogConfig(),
        now_ms=NOW_MS,
        clean_shutdown=clean_shutdown,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        compacted_to=compacted_to,
    )
    log.check_invariants()
    return log


def batch_of(count: int = 1, *, timestamp: int = NOW_MS, value: bytes = b"v", **options: Any) -> bytearray:
    rows: list[NewRecord] = [(b"k", value, timestamp, ())] * count
    return build_batch(rows, **options)


def append(log: PartitionLog, count: int = 1, *, epoch: int = 0, **options: Any) -> AppendResult:
    now_ms, guard = options.pop("now_ms", NOW_MS), options.pop("guard", NOT_VERIFIED)
    return log.append_as_leader(batch_of(count, **options), leader_epoch=epoch, now_ms=now_ms, guard=guard)


def send(
    log: PartitionLog, producer_id: int, sequence: int, *, count: int = 1, **options: Any
) -> AppendResult:
    options.setdefault("producer_epoch", 0)
    return append(log, count, producer_id=producer_id, base_sequence=sequence, **options)


def end_transaction(
    log: PartitionLog,
    producer_id: int,
    control_type: ControlType,
    *,
    epoch: int = 0,
    version: int = 0,
    coordinator_epoch: int = 0,
) -> AppendResult:
    return log.append_marker(
        EndTransactionMarker(control_type, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_version=version,
        leader_epoch=max(0, log.latest_epoch),
        now_ms=NOW_MS,
    )


def records_of_log(log: PartitionLog) -> list[Record]:
    """Return all records from the log start on, by reading batch after batch."""
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        content = log.read(offset, 1, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice.read()
        ((_, header),) = iterate_headers(content)
        records += [record for record in iterate_records(content) if record.offset >= offset]
        offset = header.next_offset
    return records


def files(disk: MemoryDisk) -> dict[str, bytes]:
    return {path.name: bytes(inode.content) for path, inode in disk.files.items()}
