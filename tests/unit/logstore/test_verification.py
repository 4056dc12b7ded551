"""The verification of a transaction's first batch by its coordinator (KIP-890), and markers (KAFKA-19999).

A marker that ends the transaction meanwhile voids the verification.
"""

from typing import Any

import pytest

from ottla.logstore import verification
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.partition_log import AppendOrigin, AppendResult, FetchIsolation, PartitionLog
from ottla.logstore.record import ControlType
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.verification import Guard, Verifications
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.unit.logstore.log_maker import NOW_MS, append, batch_of, end_transaction, open_log
from tests.unit.logstore.log_maker import send as send_verified

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, OUT_OF_ORDER = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
PRODUCER = 7


@pytest.fixture
def log() -> PartitionLog:
    log = open_log(MemoryDisk())
    append(log)  # a log that never held a record would accept any sequence
    return log


def begin(log: PartitionLog, sequence: int = 0, *, epoch: int = 0, bumps: bool = False) -> Guard | None:
    return log.begin_verification(PRODUCER, epoch, sequence, bumps_epoch=bumps, now_ms=NOW_MS)


def send(log: PartitionLog, sequence: int, guard: Guard | None, **options: Any) -> AppendResult:
    return send_verified(log, PRODUCER, sequence, is_transactional=True, guard=guard, **options)


def refusal_of_send(log: PartitionLog, *arguments: Any, **options: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        send(log, *arguments, **options)
    log.check_invariants()
    return refused.value.code


def markers_in(log: PartitionLog) -> int:
    content = log.read(0, 10**6, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice.read()
    return sum(header.is_control for _, header in iterate_headers(content))


# Verifying.


def test_no_verification_is_needed_if_the_transaction_is_open(log: PartitionLog) -> None:
    guard = begin(log)
    assert guard is not None
    send(log, 0, guard)

    assert begin(log, 1) is None
    assert send(log, 1, None).base_offset == 2
    assert log._verifications.find(PRODUCER, 0) is None  # the guard was used


def test_an_open_transaction_of_an_older_epoch_does_not_verify_a_newer_one(log: PartitionLog) -> None:
    send(log, 0, begin(log))

    assert begin(log, 0, epoch=1) is not None
    assert refusal_of_send(log, 0, None, producer_epoch=1) is INVALID_TXN_STATE
    assert not log.has_ongoing_transaction(PRODUCER, 1)


def test_a_fenced_producer_is_rejected_before_the_coordinator_is_asked(log: PartitionLog) -> None:
    end_transaction(log, PRODUCER, ABORT, epoch=3)

    with pytest.raises(KafkaError) as refused:
        begin(log, epoch=2)

    assert refused.value.code is INVALID_PRODUCER_EPOCH


def test_verifications_of_one_epoch_share_the_guard_and_the_lowest_sequence_goes_first(
    log: PartitionLog,
) -> None:
    later, earlier = begin(log, 5), begin(log, 3)
    assert later is earlier

    assert refusal_of_send(log, 5, later) is OUT_OF_ORDER

    assert send(log, 3, earlier, count=2).base_offset == 1
    assert send(log, 5, later).base_offset == 3


def test_each_epoch_of_a_producer_has_its_own_guard(log: PartitionLog) -> None:
    """The coordinator rejects a client with an invented epoch, which must leave no trace here."""
    made_up = begin(log, epoch=32767)
    guard = begin(log, epoch=1)

    assert refusal_of_send(log, 0, guard, producer_epoch=32767) is INVALID_TXN_STATE
    assert send(log, 0, guard, producer_epoch=1).base_offset == 1
    end_transaction(log, PRODUCER, COMMIT, epoch=1)
    assert send(log, 1, begin(log, 1, epoch=1), producer_epoch=1).base_offset == 3
    assert refusal_of_send(log, 0, made_up, producer_epoch=32767) is INVALID_TXN_STATE


def test_data_of_a_newer_epoch_voids_the_guard_of_an_older_one(log: PartitionLog) -> None:
    old, new = begin(log, epoch=1), begin(log, epoch=2)

    assert send(log, 0, new, producer_epoch=2).base_offset == 1

    assert refusal_of_send(log, 0, old, producer_epoch=1) is INVALID_PRODUCER_EPOCH
    assert log._verifications.find(PRODUCER, 1) is None


# Appending.


def test_the_first_batch_of_a_transaction_needs_its_own_guard(log: PartitionLog) -> None:
    other = log.begin_verification(8, 0, 0, bumps_epoch=False, now_ms=NOW_MS)
    guard = begin(log)

    assert refusal_of_send(log, 0, None) is INVALID_TXN_STATE
    assert refusal_of_send(log, 0, other) is INVALID_TXN_STATE
    assert send(log, 0, guard).base_offset == 1


def test_a_coordinators_batch_needs_a_guard_too(log: PartitionLog) -> None:
    def commit_offsets(guard: Guard | None) -> AppendResult:
        batch = batch_of(1, producer_id=PRODUCER, producer_epoch=0, is_transactional=True)
        return log.append_as_leader(
            batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, guard=guard
        )

    guard = begin(log, -1)

    with pytest.raises(KafkaError) as refused:
        commit_offsets(None)
    assert refused.value.code is INVALID_TXN_STATE
    assert commit_offsets(guard).base_offset == 1
    assert commit_offsets(None).base_offset == 2


def test_a_guard_is_used_once(log: PartitionLog) -> None:
    guard = begin(log)
    send(log, 0, guard)
    end_transaction(log, PRODUCER, COMMIT)

    assert refusal_of_send(log, 1, guard) is INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_during_the_verification_voids_it(log: PartitionLog, version: int) -> None:
    """KAFKA-12671: the batch came late, and its transaction was aborted meanwhile."""
    guard = begin(log, bumps=version == 2)

    end_transaction(log, PRODUCER, ABORT, epoch=0 if version == 0 else 1, version=version)

    expected = INVALID_TXN_STATE if version == 0 else INVALID_PRODUCER_EPOCH
    assert refusal_of_send(log, 0, guard) is expected
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset


@pytest.mark.parametrize(
    "next_epoch", [1, 2], ids=["of the same client", "of a client that took over a prepared transaction"]
)
def test_a_marker_keeps_the_guard_of_the_next_epoch(log: PartitionLog, next_epoch: int) -> None:
    send(log, 0, begin(log, bumps=True))
    guard = begin(log, 0, epoch=next_epoch, bumps=True)

    end_transaction(log, PRODUCER, COMMIT, epoch=1, version=2)

    assert send(log, 0, guard, producer_epoch=next_epoch).base_offset == 3


def test_a_marker_copied_from_the_leader_voids_a_guard_too(log: PartitionLog) -> None:
    """This replica may become leader again before the coordinator has answered."""
    guard = begin(log)
    leader = open_log(MemoryDisk())
    append(leader)
    end_transaction(leader, PRODUCER, ABORT)

    copied = leader.read(1, 10**6, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice.read()
    log.append_as_follower(copied)

    assert refusal_of_send(log, 0, guard) is INVALID_TXN_STATE


def test_a_log_that_starts_afresh_at_another_offset_voids_all_guards(log: PartitionLog) -> None:
    """A follower that was far behind becomes leader again: it may never have had the marker."""
    guard = begin(log)

    log.truncate_fully_and_start_at(500, now_ms=NOW_MS)

    assert refusal_of_send(log, 0, guard) is INVALID_TXN_STATE


def test_a_follower_needs_no_guard(log: PartitionLog) -> None:
    send(log, 0, begin(log))
    content = log.read(0, 10**6, isolation=FetchIsolation.LOG_END, minimum_one_batch=True).slice.read()
    follower = open_log(MemoryDisk())

    follower.append_as_follower(content)

    assert follower.has_ongoing_transaction(PRODUCER, 0)
    assert send(follower, 1, None).base_offset == 2  # as a leader it continues the open transaction


@pytest.mark.parametrize(("bumps", "code"), [(True, OUT_OF_ORDER), (False, None)])
def test_a_transaction_with_its_own_epoch_begins_at_sequence_0(
    log: PartitionLog, bumps: bool, code: ErrorCode | None
) -> None:
    guard = begin(log, 3, bumps=bumps)

    if code is None:
        assert send(log, 3, guard).base_offset == 1
    else:
        assert refusal_of_send(log, 3, guard) is code


def test_a_duplicate_is_recognised_without_a_guard(log: PartitionLog) -> None:
    first = send(log, 0, begin(log))
    end_transaction(log, PRODUCER, COMMIT)

    again = send(log, 0, None)

    assert again.duplicate and again.base_offset == first.base_offset


def test_a_late_copy_of_an_earlier_batch_does_not_block_the_next_one(log: PartitionLog) -> None:
    """Kafka keeps its sequence as the lowest that waits, and rejects the next batch."""
    send(log, 0, begin(log))
    end_transaction(log, PRODUCER, COMMIT)
    late, following = begin(log, 0), begin(log, 1)

    assert send(log, 0, late).duplicate
    assert send(log, 1, following).base_offset == 3


def test_a_batch_outside_the_open_transaction_is_rejected(log: PartitionLog) -> None:
    send(log, 0, begin(log))

    with pytest.raises(KafkaError) as refused:
        send_verified(log, PRODUCER, 1)

    assert refused.value.code is INVALID_TXN_STATE


def test_guards_expire_with_producers_and_their_number_is_bounded(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "MAX_GUARDS", 2)
    begun = [log.begin_verification(one, 0, 0, bumps_epoch=False, now_ms=NOW_MS + one) for one in (1, 2, 3)]
    verifications: Verifications = log._verifications

    assert [verifications.find(one, 0) for one in (1, 2, 3)] == [None, *begun[1:]]
    sum(log.remove_expired_producers(NOW_MS + 102, 100))
    assert [verifications.find(one, 0) for one in (1, 2, 3)] == [None, None, begun[2]]


def test_an_unknown_producer_may_begin_an_empty_log_with_any_sequence() -> None:
    """It may have written to a deleted topic of the same name."""
    log = open_log(MemoryDisk())

    assert [send_verified(log, PRODUCER, sequence).base_offset for sequence in (4, 5)] == [0, 1]


# Ending.


@pytest.mark.parametrize(
    ("version", "is_open", "epoch", "outcome"),
    [
        (0, True, 4, INVALID_PRODUCER_EPOCH),
        (0, True, 5, "written"),
        (0, False, 5, "written"),
        (1, False, 5, "written"),
        (0, True, 6, "written"),
        (2, True, 4, INVALID_PRODUCER_EPOCH),
        (2, False, 4, INVALID_PRODUCER_EPOCH),
        (2, True, 5, INVALID_PRODUCER_EPOCH),
        (2, False, 5, "again"),
        (2, True, 6, "written"),
        (2, False, 6, "written"),
    ],
)
def test_a_marker_is_checked_by_epoch_and_transaction_version(
    log: PartitionLog, version: int, is_open: bool, epoch: int, outcome: ErrorCode | str
) -> None:
    send(log, 0, begin(log, epoch=5), producer_epoch=5)
    if not is_open:
        end_transaction(log, PRODUCER, COMMIT, epoch=5)
    end, markers = log.log_end_offset, markers_in(log)

    if isinstance(outcome, ErrorCode):
        with pytest.raises(KafkaError) as refused:
            end_transaction(log, PRODUCER, ABORT, epoch=epoch, version=version)
        assert refused.value.code is outcome
        assert log.log_end_offset == end
        return
    result = end_transaction(log, PRODUCER, ABORT, epoch=epoch, version=version)

    assert result.duplicate == (outcome == "again")
    assert markers_in(log) == markers + (outcome == "written")
    assert result.last_offset == log.log_end_offset - 1
    log.check_invariants()


def test_a_marker_of_the_largest_epoch_ends_its_transaction_and_is_recognised_again(
    log: PartitionLog,
) -> None:
    """KAFKA-20090: a transaction of epoch 32767 is aborted without an epoch bump."""
    send(log, 0, begin(log, epoch=32767), producer_epoch=32767)

    first = end_transaction(log, PRODUCER, ABORT, epoch=32767, version=2)
    again = end_transaction(log, PRODUCER, ABORT, epoch=32767, version=2)

    assert (first.duplicate, again.duplicate) == (False, True)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset


def test_a_marker_fences_a_producer_that_is_unknown_to_the_log(log: PartitionLog) -> None:
    end_transaction(log, PRODUCER, ABORT, epoch=3, version=2)

    with pytest.raises(KafkaError) as refused:
        begin(log, epoch=2)
    assert refused.value.code is INVALID_PRODUCER_EPOCH
    guard = begin(log, 1, epoch=3, bumps=True)
    assert refusal_of_send(log, 1, guard, producer_epoch=3) is OUT_OF_ORDER
    assert send(log, 0, begin(log, 0, epoch=3, bumps=True), producer_epoch=3).base_offset == 2


def test_a_coordinator_that_was_replaced_cannot_end_a_transaction(log: PartitionLog) -> None:
    send(log, 0, begin(log))
    end_transaction(log, PRODUCER, COMMIT, coordinator_epoch=9)

    for version, epoch in ((0, 0), (2, 0), (2, 1)):
        with pytest.raises(KafkaError) as refused:
            end_transaction(log, PRODUCER, ABORT, epoch=epoch, version=version, coordinator_epoch=8)
        assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_an_aborted_transaction_is_listed_and_releases_the_last_stable_offset(log: PartitionLog) -> None:
    send(log, 0, begin(log), count=3)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 1

    end_transaction(log, PRODUCER, ABORT, epoch=1, version=2)

    assert log.last_stable_offset == 1  # until the marker is replicated
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 5
    info = log.read(0, 10**6, isolation=FetchIsolation.TXN_COMMITTED, minimum_one_batch=True)
    (row,) = info.aborted_transactions or []
    assert (row.producer_id, row.first_offset, row.last_offset) == (PRODUCER, 1, 4)
    log.check_invariants()
