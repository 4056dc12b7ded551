"""The last five batches of a producer are recognised as duplicates, whatever happened to the log."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.logstore import duplicate_window
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import AppendResult, PartitionLog
from ottla.logstore.record import ControlType
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.unit.logstore.log_maker import NOW_MS, append, end_transaction, open_log, send

PRODUCER = 7
SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=150)


def refusal_of(log: PartitionLog, sequence: int, **options: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        send(log, PRODUCER, sequence, **options)
    return refused.value.code


def reopened(log: PartitionLog, disk: MemoryDisk, *, is_clean: bool = True, **options: Any) -> PartitionLog:
    if is_clean:
        log.close(now_ms=NOW_MS)
    return open_log(disk, clean_shutdown=is_clean, recovery_point=log.recovery_point, **options)


def led_again_after_truncation(log: PartitionLog, disk: MemoryDisk) -> PartitionLog:
    """Truncate the unreplicated tail, as a follower does; the state comes from the snapshot of a roll."""
    log.roll(now_ms=NOW_MS)
    end = log.log_end_offset
    append(log)
    log.truncate_to(end, now_ms=NOW_MS)
    return log


def crashed(log: PartitionLog, disk: MemoryDisk) -> PartitionLog:
    log.roll(now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    return reopened(log, disk, is_clean=False)


@pytest.mark.parametrize("forget", [reopened, led_again_after_truncation, crashed])
@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("config", [LogConfig(), SMALL])
def test_each_of_the_last_five_batches_is_recognised_after_the_state_was_reloaded(
    forget: Callable[[PartitionLog, MemoryDisk], PartitionLog], is_transactional: bool, config: LogConfig
) -> None:
    disk = MemoryDisk()
    log = open_log(disk, config=config)
    sent: list[AppendResult] = []
    for number in range(8):
        sent.append(
            send(log, PRODUCER, 2 * number, count=2, is_transactional=is_transactional, value=b"v" * 100)
        )
        for _ in range(3):
            append(log, value=b"other" * 20)
        send(log, 8, number)
    log = forget(log, disk)

    for number in (3, 7, 5, 4, 6):
        again = send(log, PRODUCER, 2 * number, count=2, is_transactional=is_transactional)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (sent[number].base_offset, sent[number].last_offset)
    assert refusal_of(log, 4, count=2, is_transactional=is_transactional) is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert not send(log, PRODUCER, 16, is_transactional=is_transactional).duplicate
    log.check_invariants()


def crashed_before_a_roll(log: PartitionLog, disk: MemoryDisk) -> PartitionLog:
    log.flush(now_ms=NOW_MS)
    return reopened(log, disk, is_clean=False, log_start_offset=log.log_start_offset)


def restarted(log: PartitionLog, disk: MemoryDisk) -> PartitionLog:
    return reopened(log, disk, log_start_offset=log.log_start_offset)


def led_by_another_after_truncation(log: PartitionLog, disk: MemoryDisk) -> PartitionLog:
    end = log.log_end_offset
    append(log)
    log.truncate_to(end, now_ms=NOW_MS)
    return log


@pytest.mark.parametrize("forget", [crashed_before_a_roll, restarted, led_by_another_after_truncation])
@pytest.mark.parametrize("is_gone", [False, True])
def test_the_last_batch_is_recognised_after_it_was_deleted(
    forget: Callable[[PartitionLog, MemoryDisk], PartitionLog], is_gone: bool
) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, PRODUCER, sequence)
    log.update_high_watermark(log.log_end_offset)
    log.increment_log_start_offset(log.log_end_offset)
    if is_gone:
        log.roll(now_ms=NOW_MS)
        log.delete_segments(log.segments[:-1], now_ms=NOW_MS)
        assert len(log.segments) == 1
    log = forget(log, disk)

    assert send(log, PRODUCER, 2).duplicate
    assert refusal_of(log, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(log, PRODUCER, 3).duplicate
    log.check_invariants()


def test_a_transaction_open_below_the_log_start_holds_back_readers_at_the_start() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, PRODUCER, 0, is_transactional=True)
    append(log, 2)
    log.update_high_watermark(3)
    log.increment_log_start_offset(2)

    log = crashed_before_a_roll(log, disk)
    log.update_high_watermark(3)

    assert log.last_stable_offset == 2
    assert log.has_ongoing_transaction(PRODUCER, 0)
    end_transaction(log, PRODUCER, ControlType.COMMIT)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4
    log.check_invariants()


def test_batches_appended_since_the_restart_count_among_the_five() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(6):
        send(log, PRODUCER, sequence)
    log = reopened(log, disk)
    for sequence in (6, 7):
        send(log, PRODUCER, sequence)

    assert send(log, PRODUCER, 3).duplicate
    assert refusal_of(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_log_is_searched_once_per_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, PRODUCER, sequence)
    log = reopened(log, disk)
    searched: list[int] = []
    real = duplicate_window._earlier_batches

    def watched(producer_id: int, *arguments: Any, **options: Any) -> Any:
        searched.append(producer_id)
        return real(producer_id, *arguments, **options)

    monkeypatch.setattr(duplicate_window, "_earlier_batches", watched)

    for _ in range(3):
        assert refusal_of(log, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, PRODUCER, 0).duplicate
    assert searched == [PRODUCER]


def test_the_log_is_not_searched_for_a_producer_with_one_batch_or_in_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    send(log, PRODUCER, 0)
    send(log, 8, 0)
    send(log, 8, 1)
    log = reopened(log, disk)
    monkeypatch.delattr(duplicate_window, "_earlier_batches")

    assert send(log, PRODUCER, 0).duplicate
    assert refusal_of(log, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(log, 8, 2).duplicate


def test_batches_of_an_older_epoch_are_not_in_the_window() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for epoch, sequence in ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2)):
        send(log, PRODUCER, sequence, producer_epoch=epoch)
    log = reopened(log, disk)

    again = send(log, PRODUCER, 0, producer_epoch=1)

    assert again.duplicate and again.base_offset == 2
    assert refusal_of(log, 1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_between_the_batches_changes_nothing() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, PRODUCER, sequence, is_transactional=True)
        end_transaction(log, PRODUCER, ControlType.COMMIT)
    log = reopened(log, disk)

    again = send(log, PRODUCER, 1, is_transactional=True)

    assert again.duplicate and again.base_offset == 2


def test_a_batch_too_far_back_is_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicate_window, "MAX_SEARCH_BYTES", 3_000)
    monkeypatch.setattr(duplicate_window, "STEP_BYTES", 500)
    disk = MemoryDisk()
    log = open_log(disk, config=SMALL)
    send(log, PRODUCER, 0)
    for _ in range(6):
        append(log, value=b"x" * 800)
    send(log, PRODUCER, 1)
    send(log, PRODUCER, 2)
    log = reopened(log, disk, config=SMALL)

    assert send(log, PRODUCER, 1).duplicate
    assert refusal_of(log, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_in_a_damaged_log_older_batches_are_out_of_order() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, PRODUCER, sequence)
    log = reopened(log, disk)
    content = disk.files[log.active_segment.path].content
    content[8:12] = bytes(4)  # the first batch claims a length of 0

    assert refusal_of(log, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_found_before_the_damage_are_recognised() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, PRODUCER, sequence)
        log.roll(now_ms=NOW_MS)
    log = reopened(log, disk)
    content = disk.files[log.segments[0].path].content
    content[8:12] = bytes(4)  # the batch claims a length of 0

    assert send(log, PRODUCER, 1).duplicate
    assert refusal_of(log, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_disk_error_during_the_search_fails_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, PRODUCER, sequence)
    log = reopened(log, disk)

    def fails(*arguments: Any, **options: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(duplicate_window, "_earlier_batches", fails)

    assert refusal_of(log, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
