"""A share-partition delivers records, applies acknowledgements, and moves its start offset."""

import pytest

from ottla.groupcoord.share_state.share_state_words import StateBatch, StateRead
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_words import (
    AcknowledgementBatch,
    FetchedRecords,
    ShareConfig,
    ShareLimits,
    SharePartitionStatus,
)
from tests.unit.node.share.partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    KEY,
    LOCK_MS,
    NOW_MS,
    REJECT,
    RELEASE,
    RENEW,
    WAITING,
    Partition,
)


def test_accepted_records_move_the_start_offset_when_they_are_written() -> None:
    partition = Partition()
    assert partition.fetch() == [(0, 9, 1)]

    outcome = partition.begin_acknowledge(0, 9, ACCEPT)

    assert outcome.write is not None
    assert outcome.write.batches == [StateBatch(0, 9, ACKNOWLEDGED, 1)]
    assert (outcome.write.state_epoch, outcome.write.leader_epoch) == (3, 7)
    assert (outcome.write.start_offset, outcome.write.delivery_complete_count) == (0, 10)
    assert partition.window == (0, 9)
    assert partition.complete_write(outcome)
    assert partition.window == (10, 10)
    assert partition.states == []


def test_members_get_different_records() -> None:
    partition = Partition()

    assert [partition.fetch(member) for member in ("m1", "m2", "m3")] == [
        [(0, 9, 1)],
        [(10, 19, 1)],
        [(20, 29, 1)],
    ]

    assert partition.core.holder_of(15) == "m2"
    assert partition.core.holder_of(30) is None


@pytest.mark.parametrize(
    ("first", "last", "types", "member", "error"),
    [
        (0, 9, [ACCEPT], "m2", ErrorCode.INVALID_RECORD_STATE),  # another member holds them
        (20, 29, [ACCEPT], "m1", ErrorCode.INVALID_REQUEST),  # not fetched yet
        (5, 25, [ACCEPT], "m1", ErrorCode.INVALID_REQUEST),
        (0, 9, [5], "m1", ErrorCode.INVALID_REQUEST),
        (0, 9, [-1], "m1", ErrorCode.INVALID_REQUEST),
        (0, 9, [ACCEPT, ACCEPT], "m1", ErrorCode.INVALID_REQUEST),
        (0, 9, [], "m1", ErrorCode.INVALID_REQUEST),
        (9, 0, [ACCEPT], "m1", ErrorCode.INVALID_REQUEST),
        (0, 19, [ACCEPT], "m1", ErrorCode.INVALID_RECORD_STATE),  # another member holds half of them
    ],
)
def test_a_rejected_acknowledgement_changes_nothing(
    first: int, last: int, types: list[int], member: str, error: ErrorCode
) -> None:
    partition = Partition()
    partition.fetch("m1")
    partition.fetch("m2")
    before = partition.states

    outcome = partition.begin_acknowledge(first, last, *types, member=member)

    assert (outcome.error, outcome.write) == (error, None)
    assert partition.states == before


def test_a_rejected_batch_takes_back_the_batches_before_it() -> None:
    partition = Partition()
    partition.fetch("m1")
    partition.fetch("m2")

    batches = [AcknowledgementBatch(0, 3, [ACCEPT]), AcknowledgementBatch(12, 12, [ACCEPT])]
    outcome = partition.core.acknowledge("m1", batches, NOW_MS)

    assert outcome.error is ErrorCode.INVALID_RECORD_STATE
    assert partition.states == [(0, 9, ACQUIRED, 1), (10, 19, ACQUIRED, 1)]
    assert partition.core.delivery_complete_count == 0


def test_records_are_acknowledged_singly() -> None:
    partition = Partition()
    partition.fetch()

    types = [ACCEPT, ACCEPT, RELEASE, REJECT, GAP, ACCEPT, ACCEPT, ACCEPT, RELEASE, ACCEPT]
    outcome = partition.begin_acknowledge(0, 9, *types)

    assert outcome.write is not None
    assert outcome.write.batches == [
        StateBatch(0, 1, ACKNOWLEDGED, 1),
        StateBatch(2, 2, AVAILABLE, 1),
        StateBatch(3, 4, ARCHIVED, 1),
        StateBatch(5, 7, ACKNOWLEDGED, 1),
        StateBatch(8, 8, AVAILABLE, 1),
        StateBatch(9, 9, ACKNOWLEDGED, 1),
    ]
    assert partition.complete_write(outcome)
    assert partition.window == (2, 9)
    assert partition.core.delivery_complete_count == 6
    assert partition.core.next_fetch_offset() == 2
    assert partition.fetch() == [(2, 2, 2), (8, 8, 2)]


def test_records_cannot_be_acknowledged_again_during_the_write() -> None:
    partition = Partition()
    partition.fetch()
    outcome = partition.begin_acknowledge(0, 9, RELEASE)

    assert partition.begin_acknowledge(0, 9, ACCEPT).error is ErrorCode.INVALID_RECORD_STATE
    assert partition.core.next_fetch_offset() == 10  # no other member gets them
    assert partition.complete_write(outcome)
    assert partition.core.next_fetch_offset() == 0


def test_records_whose_write_failed_are_held_again() -> None:
    partition = Partition()
    partition.fetch()
    outcome = partition.begin_acknowledge(0, 4, ACCEPT)
    assert partition.core.delivery_complete_count == 5

    partition.complete_write(outcome, is_written=False)

    assert partition.states == [(0, 9, ACQUIRED, 1)]
    assert partition.core.delivery_complete_count == 0
    assert partition.core.next_expiry() == NOW_MS + LOCK_MS
    assert partition.acknowledge(0, 9, ACCEPT)


def test_records_whose_write_failed_are_available_when_their_lock_has_ended() -> None:
    partition = Partition()
    partition.fetch()
    outcome = partition.begin_acknowledge(0, 9, ACCEPT)

    assert partition.wait(LOCK_MS).write is None
    partition.complete_write(outcome, is_written=False)

    assert partition.core.next_expiry() == NOW_MS + LOCK_MS  # at once
    assert partition.wait(0).write is not None
    assert partition.states == [(0, 9, AVAILABLE, 1)]


def test_a_lock_ends_in_time() -> None:
    partition = Partition()
    partition.fetch()
    partition.acknowledge(0, 2, ACCEPT)
    assert partition.core.next_expiry() == NOW_MS + LOCK_MS

    assert partition.wait(LOCK_MS - 1).write is None
    outcome = partition.wait(1)

    assert outcome.write is not None
    assert outcome.write.batches == [StateBatch(3, 9, AVAILABLE, 1)]
    assert partition.fetch("m2") == [(3, 9, 2)]  # before the end of the lock is written
    assert partition.begin_acknowledge(3, 9, ACCEPT).error is ErrorCode.INVALID_RECORD_STATE
    assert not partition.complete_write(outcome, is_written=False)
    assert partition.states[-1] == (3, 9, ACQUIRED, 2)


def test_a_renewed_lock_ends_later() -> None:
    partition = Partition()
    partition.fetch()
    partition.now_ms += 20_000

    assert partition.begin_acknowledge(0, 4, RENEW).write is None

    assert partition.core.next_expiry() == NOW_MS + LOCK_MS
    assert [batch[:2] for batch in partition.wait(10_000).write.batches] == [(5, 9)]  # type: ignore[union-attr]
    assert partition.core.next_expiry() == NOW_MS + 20_000 + LOCK_MS


def test_locks_are_not_renewed_if_the_group_forbids_it() -> None:
    partition = Partition(config=ShareConfig(renew_acknowledge_enable=False))
    partition.fetch()

    assert partition.begin_acknowledge(0, 9, RENEW).error is ErrorCode.INVALID_RECORD_STATE


def test_a_record_is_archived_at_its_delivery_limit() -> None:
    partition = Partition(config=ShareConfig(delivery_count_limit=2))
    assert partition.fetch() == [(0, 9, 1)]
    partition.acknowledge(0, 9, RELEASE)
    assert partition.fetch() == [(0, 9, 2)]

    outcome = partition.begin_acknowledge(0, 9, RELEASE)

    assert outcome.write is not None
    assert outcome.write.batches == [StateBatch(0, 9, ARCHIVED, 2)]
    partition.complete_write(outcome)
    assert partition.window == (10, 10)


def test_a_lock_that_ends_at_the_delivery_limit_archives_its_records() -> None:
    partition = Partition(config=ShareConfig(delivery_count_limit=2))
    partition.fetch()
    partition.wait(LOCK_MS)
    partition.fetch()

    outcome = partition.wait(LOCK_MS)

    assert outcome.write is not None
    assert outcome.write.batches == [StateBatch(0, 9, ARCHIVED, 2)]
    partition.complete_write(outcome)
    assert partition.window == (10, 10)


def test_records_near_the_limit_are_delivered_in_smaller_pieces_and_finally_alone() -> None:
    partition = Partition(config=ShareConfig(delivery_count_limit=5), log=[(0, 99)])
    pieces = []
    for _ in range(4):
        acquired = partition.fetch()
        pieces.append(acquired[-1][1] - acquired[0][0] + 1)
        for first, last, _count in acquired:
            partition.acknowledge(first, last, RELEASE)
        assert partition.core.next_fetch_offset() == 0

    # All 100 records three times, then half of them, and at the last delivery a single one.
    assert pieces == [100, 100, 100, 50]
    assert partition.fetch() == [(0, 0, 5)]
    assert partition.fetch() == [(1, 1, 5)]


def test_a_session_that_ends_releases_its_records() -> None:
    partition = Partition()
    partition.fetch("m1")
    partition.fetch("m2")
    partition.fetch("m1")
    partition.acknowledge(2, 3, ACCEPT)

    outcome = partition.core.release_all("m1")
    partition.check()

    assert outcome.write is not None
    assert [batch[:3] for batch in outcome.write.batches] == [
        (0, 1, AVAILABLE),
        (4, 9, AVAILABLE),
        (20, 29, AVAILABLE),
    ]
    assert partition.complete_write(outcome)
    assert partition.core.next_fetch_offset() == 0
    assert partition.core.release_all("m1").write is None


def test_whole_batches_are_acquired_unless_the_fetch_is_strict() -> None:
    log = [(0, 99), (100, 199)]

    assert Partition(log=log).fetch(max_records=30) == [(0, 99, 1)]

    strict = Partition(log=log)
    assert strict.fetch("m1", max_records=30, is_strict=True) == [(0, 29, 1)]
    assert strict.states == [(0, 29, ACQUIRED, 1), (30, 99, AVAILABLE, 0)]
    assert strict.core.next_fetch_offset() == 30
    assert strict.fetch("m2", max_records=100, is_strict=True, up_to=199) == [(30, 99, 1), (100, 129, 1)]
    assert strict.window == (0, 199)


def test_new_records_are_cut_into_pieces_at_the_start_of_batches() -> None:
    partition = Partition()

    assert partition.fetch(batch_size=25, up_to=99) == [(0, 29, 1), (30, 59, 1), (60, 89, 1), (90, 99, 1)]
    assert partition.core.in_flight_batch_count == 4


def test_the_records_in_flight_are_limited_by_the_locks_of_the_group() -> None:
    partition = Partition(config=ShareConfig(partition_max_record_locks=25))

    assert partition.fetch(up_to=99) == [(0, 29, 1)]  # whole batches

    assert not partition.core.may_acquire()
    assert partition.fetch(up_to=99) == []
    partition.acknowledge(10, 19, RELEASE)
    assert partition.core.may_acquire()
    assert partition.fetch("m2", up_to=99) == [(10, 19, 2)]
    partition.acknowledge(0, 9, ACCEPT)
    assert partition.core.may_acquire()
    assert partition.fetch("m2", max_records=1) == [(30, 39, 1)]


def test_the_state_is_restored_with_its_gaps() -> None:
    partition = Partition(
        start_offset=10,
        batches=[StateBatch(25, 29, ACKNOWLEDGED, 1), StateBatch(15, 19, AVAILABLE, 2)],
    )

    assert partition.window == (10, 29)
    assert partition.core.delivery_complete_count == 5
    # Members held 10 to 14 and 20 to 24 when the leader changed.
    assert partition.core.next_fetch_offset() == 10
    assert partition.fetch("m1") == [(10, 14, 1), (15, 19, 3)]
    assert partition.core.next_fetch_offset() == 20
    assert partition.fetch("m1") == [(20, 24, 1)]
    assert partition.core.next_fetch_offset() == 30
    partition.acknowledge(10, 24, ACCEPT)
    assert partition.window == (30, 30)


def test_a_window_that_was_full_when_the_leader_changed_moves_on() -> None:
    # In Kafka it would stand still for ever: the last batch stays, since there might be a gap after it.
    config = ShareConfig(partition_max_record_locks=20)
    partition = Partition(config=config, batches=[StateBatch(0, 4, AVAILABLE, 1), StateBatch(10, 29, 2, 1)])
    assert partition.fetch("m1") == [(0, 4, 2), (5, 9, 1)]

    partition.acknowledge(0, 9, ACCEPT)

    assert partition.core.may_acquire()
    assert partition.window == (30, 30)


def test_gaps_left_by_compaction_are_skipped() -> None:
    states = [StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(15, 19, ACKNOWLEDGED, 1)]
    partition = Partition(
        batches=[*states, StateBatch(25, 29, AVAILABLE, 1)], log=[(15, 19), (20, 24), (25, 29)]
    )
    assert partition.core.next_fetch_offset() == 5

    assert partition.fetch() == []  # only records that are done with, but the gaps are known now

    assert partition.core.next_fetch_offset() == 20
    assert partition.fetch() == [(20, 24, 1)]
    assert partition.fetch() == [(25, 29, 2)]


@pytest.mark.parametrize(
    "batches",
    [
        [(5, 9, AVAILABLE, 1)],  # before the start
        [(12, 11, AVAILABLE, 1)],
        [(10, 15, AVAILABLE, 1), (15, 19, AVAILABLE, 1)],
        [(10, 15, ACQUIRED, 1)],
        [(10, 15, 77, 1)],
        [(10, 2**63 - 1, AVAILABLE, 1)],
    ],
)
def test_an_invalid_state_is_rejected(batches: list[tuple[int, int, int, int]]) -> None:
    core = SharePartition(KEY, 0, ShareConfig(), ShareLimits())
    state = StateRead(KEY, start_offset=10, batches=tuple(StateBatch(*each) for each in batches))

    with pytest.raises(KafkaError) as refused:
        core.restore(state, 0)

    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert core.status is SharePartitionStatus.FAILED
    assert core.acquire("m1", NOW_MS, FetchedRecords(10, [10], [19]), 10, 10, False) == []


def test_records_that_kafka_was_archiving_are_archived() -> None:
    partition = Partition(batches=[StateBatch(0, 4, 3, 5), StateBatch(5, 9, AVAILABLE, 1)])

    assert partition.window == (5, 9)
    assert partition.fetch() == [(5, 9, 2)]


def test_a_state_that_cannot_be_read_may_be_read_again() -> None:
    core = SharePartition(KEY, 0, ShareConfig(), ShareLimits())

    with pytest.raises(KafkaError) as refused:
        core.restore(StateRead(KEY, ErrorCode.FENCED_LEADER_EPOCH, "older"), 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    core.restore(StateRead(KEY, start_offset=-1), 17)

    assert (core.start_offset, core.next_fetch_offset()) == (17, 17)
    core.fence()
    assert core.acquire("m1", NOW_MS, FetchedRecords(17, [17], [19]), 10, 10, False) == []


def test_records_deleted_from_the_log_are_archived() -> None:
    partition = Partition()
    partition.fetch("m1")
    partition.fetch("m2")
    partition.acknowledge(10, 14, RELEASE, member="m2")

    assert partition.core.move_log_start(13)
    partition.check()

    assert partition.window == (13, 19)
    assert partition.core.next_fetch_offset() == 13
    # Acknowledgements of deleted records have no effect and no error.
    assert partition.begin_acknowledge(0, 9, ACCEPT).error is ErrorCode.NONE
    assert partition.fetch("m3") == [(13, 14, 2)]
    # Deleted records that the member held are archived when its lock ends.
    outcome = partition.wait(LOCK_MS)
    assert outcome.write is not None
    assert outcome.write.batches[0] == StateBatch(0, 9, ARCHIVED, 1)


def test_the_start_offset_never_goes_backwards() -> None:
    partition = Partition()
    partition.fetch()

    assert partition.core.move_log_start(500)
    assert not partition.core.move_log_start(400)
    partition.complete_write(partition.wait(LOCK_MS))

    assert partition.window == (500, 500)
    assert partition.fetch() == [(500, 509, 1)]


def test_records_removed_by_compaction_are_archived() -> None:
    partition = Partition()
    partition.fetch(up_to=29)
    partition.acknowledge(0, 29, RELEASE)
    partition.log = [(25, 29), *partition.log[3:]]

    assert partition.fetch() == [(25, 29, 2)]

    assert partition.window == (25, 29)


def test_aborted_records_are_skipped() -> None:
    partition = Partition()
    partition.never_delivered = [(10, 19), (30, 39)]

    assert partition.fetch(up_to=49) == [(0, 9, 1), (20, 29, 1), (40, 49, 1)]

    partition.acknowledge(0, 9, ACCEPT)
    assert partition.window == (20, 49)


def test_a_window_full_of_aborted_records_moves_on() -> None:
    # In Kafka it would stand still for ever: only an acknowledgement moves the start offset there.
    partition = Partition(config=ShareConfig(partition_max_record_locks=100))
    partition.never_delivered = [(0, 499)]

    for _ in range(50):
        assert partition.fetch() == []

    assert partition.fetch() == [(500, 509, 1)]


def test_released_records_wait_for_their_back_off() -> None:
    config = ShareConfig(retry_backoff_ms=1_000, retry_backoff_max_ms=3_000)
    partition = Partition(config=config)
    waited = []
    for _ in range(3):
        first = partition.fetch()[0][0]
        partition.acknowledge(first, 9, RELEASE)
        assert partition.states[0][:3] == (0, 9, WAITING)
        assert partition.core.next_fetch_offset() == 10  # other records are delivered
        waited.append(partition.core.next_expiry() - partition.now_ms)  # type: ignore[operator]
        assert partition.wait(waited[-1]).write is None
        assert partition.core.next_fetch_offset() == 0

    assert waited == [1_000, 2_000, 3_000]


def test_a_gap_without_room_for_it_is_fetched_when_there_is_room() -> None:
    released = [StateBatch(each, each, AVAILABLE, each % 2 + 1) for each in range(10) if each != 5]
    partition = Partition(limits=ShareLimits(max_states=9), batches=released)

    acquired = partition.fetch(up_to=0)

    assert (acquired[0][0], acquired[-1][1]) == (0, 4)
    assert not partition.core.may_acquire()
    for begin, end, _ in acquired:
        partition.acknowledge(begin, end, ACCEPT)
    assert partition.core.may_acquire() and partition.core.next_fetch_offset() == 5
    assert partition.fetch(up_to=0)[0] == (5, 5, 1)


def test_a_huge_batch_takes_memory_only_for_its_acknowledged_parts() -> None:
    partition = Partition(log=[(0, 10**12)], limits=ShareLimits(max_states=50))
    partition.fetch()

    outcomes = [partition.begin_acknowledge(offset, offset, ACCEPT) for offset in range(1, 200, 2)]

    assert {outcome.error for outcome in outcomes} == {ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE}
    assert len(partition.states) <= 50
    # Moves that add no range still work, so the number can fall again.
    for outcome in outcomes:
        if outcome.write is not None:
            partition.complete_write(outcome)
    for first, last, state, _ in partition.states:
        if state == ACQUIRED:
            partition.acknowledge(first, last, ACCEPT if first else RELEASE)
    assert partition.core.may_acquire()
    assert partition.fetch() == [(0, 0, 2)]


def test_no_new_records_are_acquired_when_there_are_too_many_states() -> None:
    partition = Partition(limits=ShareLimits(max_states=3))
    for _ in range(3):
        assert partition.fetch()
    partition.acknowledge(10, 19, RELEASE)

    assert partition.core.may_acquire()
    assert partition.fetch("m2") == [(10, 19, 2)]
    assert not partition.core.may_acquire()
    assert partition.fetch("m2") == []


def test_a_record_at_its_last_delivery_is_delivered_alone() -> None:
    partition = Partition(config=ShareConfig(delivery_count_limit=3))
    partition.fetch("m1")
    partition.acknowledge(5, 9, RELEASE, member="m1")
    assert partition.fetch("m2") == [(5, 9, 2)]
    partition.acknowledge(5, 9, RELEASE, member="m2")
    partition.acknowledge(0, 4, RELEASE, member="m1")

    assert partition.fetch("m2") == [(0, 4, 2)]
    assert partition.fetch("m2") == [(5, 5, 3)]


def test_a_gap_begins_at_the_start_of_the_log() -> None:
    states = [StateBatch(0, 9, AVAILABLE, 1), StateBatch(20, 29, AVAILABLE, 1)]
    partition = Partition(batches=states, log=[(0, 29)])
    assert partition.fetch("m1", max_records=10) == [(0, 9, 2)]

    partition.core.move_log_start(15)

    assert partition.core.next_fetch_offset() == 15
    assert partition.fetch("m2") == [(15, 19, 1), (20, 29, 2)]


def test_a_lower_limit_archives_records_with_more_deliveries() -> None:
    partition = Partition(config=ShareConfig(delivery_count_limit=5))
    for _ in range(3):
        partition.fetch()
        partition.acknowledge(0, 9, RELEASE)

    partition.core.config = ShareConfig(delivery_count_limit=2)

    assert partition.fetch() == [(0, 1, 4)]
    outcome = partition.begin_acknowledge(0, 1, RELEASE)
    assert outcome.write is not None
    assert outcome.write.batches == [StateBatch(0, 1, ARCHIVED, 4)]


@pytest.mark.parametrize(("first", "last"), [(-(2**63), -1), (-5, 3), (0, 2**63 - 1), (2**63 - 1, 2**63 - 1)])
def test_impossible_offsets_are_rejected(first: int, last: int) -> None:
    partition = Partition(start_offset=20)
    partition.fetch()
    before = partition.states

    outcome = partition.begin_acknowledge(first, last, ACCEPT)

    assert outcome.error is not ErrorCode.NONE or last < 20
    assert (outcome.write, partition.states) == (None, before)


def test_a_member_with_an_empty_id_holds_records() -> None:
    partition = Partition()
    partition.fetch("")

    assert partition.core.holder_of(3) == ""
    assert partition.acknowledge(0, 9, ACCEPT, member="")


def test_records_deleted_while_they_were_released_stay_archived() -> None:
    partition = Partition()
    partition.fetch()
    outcome = partition.begin_acknowledge(0, 9, RELEASE)
    partition.core.move_log_start(5)
    partition.check()

    partition.complete_write(outcome, is_written=False)

    assert partition.states == [(0, 4, ARCHIVED, 1), (5, 9, ACQUIRED, 1)]
    assert partition.acknowledge(5, 9, ACCEPT)
    assert partition.window == (10, 10)


def test_members_without_records_are_removed_when_there_are_many() -> None:
    """A member that drops a partition from its session before it leaves is not removed when it does."""
    partition = Partition()
    partition.fetch("first")

    for number in range(90):
        ((first, last, _),) = partition.fetch(f"m{number}")
        partition.acknowledge(first, last, ACCEPT, member=f"m{number}")

    assert sum(partition.core.may_hold(f"m{number}") for number in range(90)) < 70
    assert partition.core.may_hold("first")
