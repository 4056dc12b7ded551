"""Offsets committed in transactions: checks, the time from which they count, fetches that wait.

KIP-98 and KIP-447.
"""

from collections.abc import Sequence

import pytest

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.admin_results import DeleteGroupsResult
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Append, Refuse
from ottla.groupcoord.offsets.offset_commands import (
    ForgetTopics,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    Producer,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetFetchResult
from ottla.groupcoord.record_codec import opened
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.group_world import GroupWorld
from tests.unit.groupcoord.offsets.test_offsets import WEEK_MS, commit, fetch

P, Q = Producer(7, 0), Producer(8, 0)


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(CoordinatorConfig(group_initial_rebalance_delay_ms=0))


def commit_in(
    world: GroupWorld,
    producer: Producer = P,
    offset: int = 42,
    *,
    member_id: str = "",
    generation_id: int = -1,
    instance: str | None = None,
    metadata: str = "",
    topics: Sequence[str] = ("t",),
    is_newest: bool = False,
) -> ErrorCode:
    answer = world.ask(
        TxnOffsetCommit(
            token=world.token(),
            group_id="g",
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            offsets=[OffsetToCommit(topic, 0, offset, 7, metadata) for topic in topics],
            producer=producer,
            all_is_illegal_generation=not is_newest,
        )
    )
    if isinstance(answer, Refuse):
        return answer.error
    assert isinstance(answer, OffsetCommitResult)
    return answer.errors[0]


def stable(
    world: GroupWorld, topics: Sequence[tuple[str, Sequence[int]]] | None = None
) -> list[tuple[str, int, int]]:
    """Return topic, offset and error of each partition for a consumer of committed data."""
    answer = world.ask(OffsetFetch(token=world.token(), group_id="g", topics=topics, require_stable=True))
    assert isinstance(answer, OffsetFetchResult)
    return [(topic, each.offset, each.error) for topic, partitions in answer.topics for each in partitions]


def test_offsets_of_a_transaction_count_when_it_is_committed(world: GroupWorld) -> None:
    commit(world, [OffsetToCommit("t", 0, 1)])

    assert commit_in(world, P, 2) is ErrorCode.NONE
    assert fetch(world) == {"t": {0: 1}}
    world.end_transaction(P.producer_id, committed=True)

    assert fetch(world) == {"t": {0: 2}}
    world.restart()
    assert fetch(world) == {"t": {0: 2}}


def test_offsets_of_an_aborted_transaction_never_count(world: GroupWorld) -> None:
    commit_in(world, P, 2)

    world.end_transaction(P.producer_id, committed=False)

    assert fetch(world) == {}
    world.restart()
    assert fetch(world) == {}


def test_an_open_transaction_is_open_after_a_restart(world: GroupWorld) -> None:
    commit_in(world, P, 2)

    world.restart()

    assert stable(world, [("t", [0])]) == [("t", -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    world.end_transaction(P.producer_id, committed=True)
    assert fetch(world) == {"t": {0: 2}}


def test_a_fetch_of_stable_offsets_waits_for_open_transactions(world: GroupWorld) -> None:
    commit(world, [OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 5)])
    commit_in(world, P, 2, topics=["t", "never committed"])

    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert stable(world, [("t", [0, 1]), ("u", [0]), ("never committed", [0])]) == [
        ("t", -1, unstable),
        ("t", -1, 0),
        ("u", 5, 0),
        ("never committed", -1, unstable),
    ]
    # A fetch of all topics returns those that have committed offsets, as in Kafka.
    assert stable(world) == [("t", -1, unstable), ("u", 5, 0)]
    assert fetch(world) == {"t": {0: 1}, "u": {0: 5}}


def test_a_plain_commit_supersedes_an_older_write_of_an_open_transaction(
    world: GroupWorld,
) -> None:
    commit_in(world, P, 2)
    commit(world, [OffsetToCommit("t", 0, 3)])

    assert stable(world) == [("t", -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    world.end_transaction(P.producer_id, committed=True)

    assert fetch(world) == {"t": {0: 3}} and stable(world) == [("t", 3, 0)]


@pytest.mark.parametrize("first", [P, Q])
@pytest.mark.parametrize("restarts", [False, True])
def test_of_two_transactions_the_later_write_counts(
    world: GroupWorld, first: Producer, restarts: bool
) -> None:
    commit_in(world, P, 2)
    commit_in(world, Q, 3)

    world.end_transaction(first.producer_id, committed=True)
    if restarts:
        world.restart()
    world.end_transaction((P if first is Q else Q).producer_id, committed=True)

    assert fetch(world) == {"t": {0: 3}}


def test_each_commit_of_a_transaction_is_a_batch_of_that_producer(world: GroupWorld) -> None:
    command = TxnOffsetCommit(
        token=world.token(),
        group_id="g",
        generation_id=-1,
        member_id="",
        offsets=[OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1)],
        producer=P,
    )

    effects = world.handle(command)

    (append,) = [each for each in effects if isinstance(each, Append)]
    (record,) = append.records
    assert append.producer == P and len(opened(record)) == 2


def test_producers_that_name_no_member_may_commit_whatever_the_group_does(world: GroupWorld) -> None:
    token = world.join()
    world.advance(0)
    joined = world.joined(token)

    assert commit_in(world) is ErrorCode.NONE
    # The group waits for its leader's assignment, where a plain commit would be rejected.
    assert commit_in(world, member_id=joined.member_id, generation_id=1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("member_id", "generation_id", "instance", "error"),
    [
        ("unknown", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("member", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ("member", -1, None, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_producers_that_name_a_member_are_checked_against_its_generation(
    world: GroupWorld, member_id: str, generation_id: int, instance: str | None, error: ErrorCode
) -> None:
    token = world.join()
    world.advance(0)
    joined = world.joined(token)
    member_id = joined.member_id if member_id == "member" else member_id

    code = commit_in(world, member_id=member_id, generation_id=generation_id, instance=instance)

    assert code is error and world.log == []


def test_a_group_that_does_not_exist_has_no_generation(world: GroupWorld) -> None:
    """Kafka's validateTransactionalOffsetCommit; GROUP_ID_NOT_FOUND since version 6 only."""
    assert commit_in(world, member_id="m", generation_id=0) is ErrorCode.ILLEGAL_GENERATION
    newest = commit_in(world, member_id="m", generation_id=0, is_newest=True)
    assert newest is ErrorCode.GROUP_ID_NOT_FOUND
    assert commit_in(world) is ErrorCode.NONE
    assert list(world.coordinator.shard.groups) == ["g"]


def test_an_offset_with_too_much_metadata_is_rejected_alone(world: GroupWorld) -> None:
    command = TxnOffsetCommit(
        token=world.token(),
        group_id="g",
        generation_id=-1,
        member_id="",
        offsets=[OffsetToCommit("t", 0, 1, -1, "m" * 4_097), OffsetToCommit("t", 1, 2)],
        producer=P,
    )

    answer = world.ask(command)
    world.end_transaction(P.producer_id, committed=True)

    assert isinstance(answer, OffsetCommitResult)
    assert answer.errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert fetch(world) == {"t": {1: 2}}


def test_deleted_offsets_are_removed_with_their_pending_values(world: GroupWorld) -> None:
    commit_in(world, P, 2)
    world.ask(OffsetDelete(token=world.token(), group_id="g", topics=[("t", [0, 1])]))
    assert len(world.log) == 2

    world.end_transaction(P.producer_id, committed=True)

    assert fetch(world) == {}


def test_a_group_is_deleted_with_its_pending_offsets(world: GroupWorld) -> None:
    commit(world, [OffsetToCommit("t", 0, 1)])
    commit_in(world, P, 2, topics=["t", "u"])

    answer = world.ask(DeleteGroups(token=world.token(), group_ids=["g"]))
    assert isinstance(answer, DeleteGroupsResult) and answer.errors == [("g", ErrorCode.NONE)]
    world.end_transaction(P.producer_id, committed=True)

    assert fetch(world) == {} and not world.coordinator.shard.groups
    world.restart()
    assert not world.coordinator.shard.groups


def test_a_deleted_topic_loses_its_pending_offsets(world: GroupWorld) -> None:
    commit_in(world, P, 2, topics=["t", "u"])

    world.handle(ForgetTopics(topics=frozenset({"t"})))
    world.end_transaction(P.producer_id, committed=True)

    assert fetch(world) == {"u": {0: 2}}


def test_offsets_that_a_transaction_may_still_change_do_not_expire(world: GroupWorld) -> None:
    commit(world, [OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 1)])
    commit_in(world, P, 2)

    world.advance(2 * WEEK_MS)
    assert fetch(world) == {"t": {0: 1}}  # and the group stays, which has an open transaction
    world.end_transaction(P.producer_id, committed=False)
    world.advance(WEEK_MS)

    assert fetch(world) == {} and not world.coordinator.shard.groups


def test_a_commit_in_a_transaction_does_not_renew_the_session(world: GroupWorld) -> None:
    (member_id,) = world.stable_group(1)
    world.advance(9_000)
    commit_in(world, member_id=member_id, generation_id=1)

    world.advance(1_000)

    assert not world.coordinator.shard.groups["g"].members
