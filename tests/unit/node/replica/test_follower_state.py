"""A follower's decisions on its leader's answers, as tables, and its session over thousands of partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.leader_epoch_cache import EpochEndOffset
from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.follower_state import (
    FIRST_BACKOFF_MS,
    MOVES,
    FetchBounds,
    FollowedPartition,
    FollowerFetches,
    Phase,
    Range,
    Reset,
    Step,
    reset_for,
    step_for,
    truncation_offset,
)
from ottla.node.replica.partition import Partition
from ottla.node.wire.messages.fetch import EpochEndOffset as Diverging
from ottla.node.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch

BOUNDS = FetchBounds(max_bytes=10_000, min_bytes=1, partition_max_bytes=1_000, max_wait_ms=500)


def answer(code: ErrorCode = ErrorCode.NONE, *, diverging: int = -1) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=5,
        diverging_epoch=Diverging(epoch=diverging, end_offset=3),
        records=b"",
    )


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (answer(), Step.APPEND),
        (answer(diverging=2), Step.TRUNCATE),
        (answer(ErrorCode.OFFSET_OUT_OF_RANGE), Step.ASK_OFFSETS),
        (answer(ErrorCode.FENCED_LEADER_EPOCH), Step.FAIL),
        (answer(ErrorCode.UNKNOWN_LEADER_EPOCH), Step.RETRY),
        (answer(ErrorCode.NOT_LEADER_OR_FOLLOWER), Step.RETRY),
        (answer(ErrorCode.UNKNOWN_TOPIC_ID), Step.RETRY),
        (answer(ErrorCode.INCONSISTENT_TOPIC_ID), Step.RETRY),
        (answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Step.RETRY),
        (answer(ErrorCode.KAFKA_STORAGE_ERROR), Step.RETRY),
        (answer(ErrorCode.UNKNOWN_SERVER_ERROR), Step.RETRY),
    ],
)
def test_each_answer_demands_its_step(data: PartitionData, step: Step) -> None:
    assert step_for(data) is step


@pytest.mark.parametrize(
    ("leader", "own", "log_end", "expected"),
    [
        # KIP-101: both know the epoch, the leader's ended earlier, or ours did.
        ((4, 80), (4, 100), 100, 80),
        ((4, 80), (4, 70), 100, 70),
        # KIP-279: an epoch that our log never had: cut to the end of the one before it, and ask again.
        ((3, 90), (2, 60), 100, 60),
        # Our log has no epoch as old: only the leader's offset counts.
        ((1, 50), (-1, -1), 100, 50),
        ((1, 150), (-1, -1), 100, 100),
        # The leader's log has no epoch as old: committed records can stay.
        ((-1, -1), (-1, -1), 100, 30),
    ],
)
def test_a_log_that_diverged_is_truncated_at_the_right_offset(
    leader: tuple[int, int], own: tuple[int, int], log_end: int, expected: int
) -> None:
    offset = truncation_offset(
        EpochEndOffset(*leader), EpochEndOffset(*own), log_end_offset=log_end, high_watermark=30
    )

    assert offset == expected


@pytest.mark.parametrize(
    ("leader", "own_end", "expected"),
    [
        (Range(0, 80), 100, Reset(80, starts_empty=False)),
        (Range(200, 300), 100, Reset(200, starts_empty=True)),
        (Range(50, 300), 100, Reset(100, starts_empty=False)),
        (Range(100, 100), 100, Reset(100, starts_empty=False)),
    ],
)
def test_a_log_out_of_range_continues_at_the_right_offset(
    leader: Range, own_end: int, expected: Reset
) -> None:
    assert reset_for(leader, own_end) == expected


Epochs = list[tuple[int, int]]  # (epoch, number of records), epochs increasing


def _ends(epochs: Epochs, epoch: int) -> EpochEndOffset:
    """Return a log's answer for an epoch: the largest epoch at or below it, and its end offset."""
    end, found = 0, EpochEndOffset(-1, -1)
    for one, count in epochs:
        end += count
        if one <= epoch:
            found = EpochEndOffset(one, end)
    if found.leader_epoch < 0 and epochs:
        return EpochEndOffset(epoch, 0)
    return found


_EPOCHS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=6).map(
    lambda pairs: sorted(dict(pairs).items())
)


@given(_EPOCHS, _EPOCHS, _EPOCHS)
def test_truncation_ends_at_the_last_offset_at_which_both_logs_agree(
    common: Epochs, leader_only: Epochs, follower_only: Epochs
) -> None:
    """Logs share a start, and then have records of different epochs; no epoch has two leaders."""
    base = max((epoch for epoch, _ in common), default=-1) + 1
    leader = common + [(base + 2 * epoch, count) for epoch, count in leader_only]
    follower = common + [(base + 2 * epoch + 1, count) for epoch, count in follower_only]
    shared = sum(count for _, count in common)

    for _ in range(50):
        end = sum(count for _, count in follower)
        if not follower:
            break
        requested = follower[-1][0]
        answered = _ends(leader, requested) if leader else EpochEndOffset(requested, 0)
        if answered.leader_epoch == requested and answered.end_offset >= end:
            break
        cut = truncation_offset(
            answered, _ends(follower, answered.leader_epoch), log_end_offset=end, high_watermark=0
        )
        assert cut < end or answered.leader_epoch < requested, "each answer cuts something"
        left, kept = cut, []
        for epoch, count in follower:
            if left > 0:
                kept.append((epoch, min(count, left)))
            left -= count
        follower = kept
    else:
        raise AssertionError("it does not end")

    assert sum(count for _, count in follower) == shared


# ---- the session ---------------------------------------------------------------------------------


@pytest.fixture
def world() -> ReplicaWorld:
    return ReplicaWorld()


def followed(world: ReplicaWorld, partitions: int = 3, epoch: int = 0) -> list[Partition]:
    world.create_topic(
        partitions=partitions, replicas=(NODE_ID, OTHER_ID), leader=OTHER_ID, leader_epoch=epoch
    )
    return [world.partition("t", index) for index in range(partitions)]


def next_request(fetches: FollowerFetches, now_ms: int = 0) -> FetchRequest | None:
    return fetches.next_request(replica_id=NODE_ID, broker_epoch=9, bounds=BOUNDS, now_ms=now_ms)


def wanted(request: FetchRequest | None) -> list[tuple[int, int]]:
    assert request is not None
    return sorted((one.partition, one.fetch_offset) for topic in request.topics for one in topic.partitions)


def forgotten(request: FetchRequest | None) -> list[int]:
    assert request is not None
    return sorted(index for topic in request.forgotten_topics_data for index in topic.partitions)


def grow(partition: Partition) -> None:
    content = batch(1)
    content[0:8] = partition.log.log_end_offset.to_bytes(8, "big")
    partition.append_as_follower(content, high_watermark=0, log_start_offset=0, now_ms=0)


def established(world: ReplicaWorld, partitions: int = 3) -> tuple[FollowerFetches, list[Partition]]:
    fetches, replicas = FollowerFetches(), followed(world, partitions)
    for partition in replicas:
        fetches.add(partition)
    assert next_request(fetches) is not None
    assert fetches.answered(FetchResponse(session_id=77))
    return fetches, replicas


def find(fetches: FollowerFetches, partition: Partition) -> FollowedPartition:
    found = fetches.find((partition.topic_id, partition.topic_partition.partition))
    assert found is not None
    return found


def test_the_first_request_names_everything_and_the_next_only_changes(world: ReplicaWorld) -> None:
    fetches, replicas = FollowerFetches(), followed(world)
    for partition in replicas:
        fetches.add(partition)

    first = next_request(fetches)
    assert first is not None
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (NODE_ID, 9)
    assert wanted(first) == [(0, 0), (1, 0), (2, 0)]
    fetches.answered(FetchResponse(session_id=77))
    grow(replicas[1])
    fetches.touch(find(fetches, replicas[1]))
    second = next_request(fetches)
    assert second is not None

    assert (second.session_id, second.session_epoch) == (77, 1)
    assert wanted(second) == [(1, 1)]
    fetches.answered(FetchResponse(session_id=77))
    third = next_request(fetches)
    assert third is not None
    assert (third.session_epoch, wanted(third)) == (2, [])


def test_a_new_session_after_a_lost_one_names_everything_again(world: ReplicaWorld) -> None:
    fetches, replicas = established(world)
    grow(replicas[2])

    assert not fetches.answered(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    request = next_request(fetches)

    assert request is not None
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert len(wanted(request)) == 3


def test_a_partition_that_changed_since_its_request_is_not_found(world: ReplicaWorld) -> None:
    fetches, replicas = established(world)
    key = (replicas[0].topic_id, 0)

    fetches.touch(find(fetches, replicas[0]))

    assert fetches.find(key) is None
    assert next_request(fetches) is not None
    assert fetches.find(key) is not None


def test_a_new_epoch_of_the_same_leader_is_requested_again(world: ReplicaWorld) -> None:
    fetches, replicas = established(world)

    followed(world, epoch=4)
    assert fetches.add(replicas[0])
    assert not fetches.add(replicas[0]), "once"
    request = next_request(fetches)

    assert request is not None
    assert [one.current_leader_epoch for topic in request.topics for one in topic.partitions] == [4]


def test_a_delayed_partition_is_forgotten_and_comes_back(world: ReplicaWorld) -> None:
    fetches, replicas = established(world)

    fetches.delay(find(fetches, replicas[1]), until_ms=100)
    assert fetches.next_retry_ms() == 100
    request = next_request(fetches, now_ms=50)
    assert (wanted(request), forgotten(request)) == ([], [1])
    fetches.answered(FetchResponse(session_id=77))
    request = next_request(fetches, now_ms=100)

    assert (wanted(request), forgotten(request)) == ([(1, 0)], [])
    assert fetches.next_retry_ms() is None


def test_a_partition_that_goes_while_it_is_delayed_does_not_come_back(world: ReplicaWorld) -> None:
    fetches, replicas = established(world)
    fetches.delay(find(fetches, replicas[1]), until_ms=100)

    fetches.remove((replicas[1].topic_id, 1))

    assert wanted(next_request(fetches, now_ms=200)) == []


def test_a_partition_beyond_its_quota_waits_and_the_others_do_not(world: ReplicaWorld) -> None:
    fetches, replicas = FollowerFetches(), followed(world)
    for partition in replicas:
        fetches.add(partition)

    def request(is_exceeded: bool) -> FetchRequest | None:
        return fetches.next_request(
            replica_id=NODE_ID,
            broker_epoch=9,
            bounds=BOUNDS,
            now_ms=0,
            must_wait=lambda one: is_exceeded and one.partition is replicas[2],
        )

    assert wanted(request(True)) == [(0, 0), (1, 0)]
    fetches.answered(FetchResponse(session_id=77))
    assert wanted(request(True)) == []
    fetches.answered(FetchResponse(session_id=77))
    assert wanted(request(False)) == [(2, 0)]


def test_without_partitions_to_follow_there_is_no_request(world: ReplicaWorld) -> None:
    fetches, replicas = established(world, partitions=1)

    fetches.remove((replicas[0].topic_id, 0))
    assert forgotten(next_request(fetches)) == [0]
    fetches.answered(FetchResponse(session_id=77))

    assert next_request(fetches) is None


def test_pauses_double_up_to_the_limit() -> None:
    world = ReplicaWorld()
    one = FollowedPartition(followed(world, 1)[0])

    pauses = [one.backoff_ms(1_000, 1.0) for _ in range(8)]

    assert pauses == [FIRST_BACKOFF_MS * 2**n for n in range(6)] + [1_000, 1_000]
    assert one.backoff_ms(1_000, 0.0) == 500


FETCHING, LISTING_OFFSETS, DELAYED, FAILED = Phase
LEGAL = {
    *((FETCHING, after) for after in (LISTING_OFFSETS, DELAYED, FAILED)),
    *((LISTING_OFFSETS, after) for after in (FETCHING, DELAYED, FAILED)),
    *((DELAYED, after) for after in (FETCHING, FAILED)),
}


@pytest.mark.parametrize("before", Phase)
@pytest.mark.parametrize("after", Phase)
def test_a_partition_moves_only_as_the_table_says(before: Phase, after: Phase) -> None:
    one = FollowedPartition(followed(ReplicaWorld(), 1)[0])
    one.phase = before

    if before is after or (before, after) in LEGAL:
        one.move(after)
        assert one.phase is after
    else:
        with pytest.raises(AssertionError):
            one.move(after)


def test_the_table_of_moves_is_whole_and_illegal_ones_are_refused() -> None:
    assert {(before, after) for before, states in MOVES.items() for after in states} == LEGAL
    assert set(MOVES) == set(Phase)
    one = FollowedPartition(followed(ReplicaWorld(), 1)[0])
    one.move(Phase.FAILED)

    with pytest.raises(AssertionError):
        one.move(Phase.FETCHING)
