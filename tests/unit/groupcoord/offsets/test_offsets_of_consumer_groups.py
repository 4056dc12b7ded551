"""Offsets of consumer groups (KIP-848): in transactions, fetched by members, deleted and expired.

The answers are those of Apache Kafka 4.3.1; commits of members are in test_consumer_group_heartbeat.
"""

import pytest

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.admin_results import DeleteGroupsResult
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.offsets.offset_commands import OffsetFetch, OffsetToCommit, Producer, TxnOffsetCommit
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetFetchResult
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.consumer.consumer_world import Client, ConsumerWorld
from tests.unit.groupcoord.consumer.test_migration import mixed
from tests.unit.groupcoord.offsets.test_offsets import commit, delete_offsets, fetch
from tests.unit.groupcoord.offsets.test_transactional_offsets import P, commit_in
from tests.unit.groupcoord.topic_ids import topic_id

OTHER_ID = b"another topic id"


@pytest.fixture
def world() -> ConsumerWorld:
    """Return a world with a group "g" of one member "m1", which reads "a"; its epoch is 2."""
    world = ConsumerWorld()
    assert world.join("m1", "a").member_epoch == 2
    return world


def commit_alone(
    world: ConsumerWorld, topic: str = "a", offset: int = 42, topic_id_: bytes = bytes(16)
) -> None:
    """Commit as the only member, or from outside a group without members."""
    members = world.group().members if world.groups.coordinator.shard.consumer_group("g") else {}
    identity = {"member_id": "m1", "generation_id": members["m1"].member_epoch} if members else {}
    offsets = [OffsetToCommit(topic, 0, offset, topic_id=topic_id_)]
    assert commit(world.groups, offsets, **identity) is ErrorCode.NONE  # type: ignore[arg-type]


def fetched(world: ConsumerWorld, member_id: str | None, epoch: int, **fields: object) -> ErrorCode:
    command = OffsetFetch(
        token=world.groups.token(),
        group_id="g",
        topics=[("a", [0])],
        member_id=member_id,
        member_epoch=epoch,
        **fields,  # type: ignore[arg-type]
    )
    answer = world.groups.ask(command)
    return answer.error if isinstance(answer, Refuse) else ErrorCode.NONE


# ---- OffsetFetch since version 9 ---------------------------------------------------------------------------

STALE, UNKNOWN = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (None, -2, ErrorCode.NONE),
        (None, 2, UNKNOWN),
        ("", -1, UNKNOWN),
        ("", 2, UNKNOWN),
        ("m1", 2, ErrorCode.NONE),
        ("m1", 1, STALE),
        ("m1", 3, STALE),
        ("m1", -1, STALE),
        ("nobody", 2, UNKNOWN),
    ],
)
def test_members_fetch_in_their_epoch(
    world: ConsumerWorld, member_id: str | None, epoch: int, error: ErrorCode
) -> None:
    assert fetched(world, member_id, epoch) is error


def test_members_of_the_classic_protocol_fetch_in_their_generation() -> None:
    world, anna, _ = mixed()

    assert fetched(world, anna.member_id, anna.generation) is ErrorCode.NONE
    assert fetched(world, anna.member_id, anna.generation + 1) is ErrorCode.ILLEGAL_GENERATION


def test_groups_that_are_no_consumer_groups_do_not_check_the_member_of_a_fetch() -> None:
    world = ConsumerWorld()

    assert fetched(world, "nobody", 9) is ErrorCode.NONE
    commit(world.groups)
    assert fetched(world, "nobody", 9) is ErrorCode.NONE


def test_a_fetch_by_topic_id_returns_no_offset_of_another_topic_of_that_name(world: ConsumerWorld) -> None:
    def shown(committed_for: bytes, wanted: bytes) -> int:
        commit_alone(world, topic_id_=committed_for)
        command = OffsetFetch(
            token=world.groups.token(), group_id="g", topics=[("a", [0])], topic_ids={"a": wanted}
        )
        answer = world.groups.ask(command)
        assert isinstance(answer, OffsetFetchResult)
        return answer.topics[0][1][0].offset

    assert shown(topic_id("a"), topic_id("a")) == 42
    assert shown(topic_id("a"), OTHER_ID) == -1
    assert shown(bytes(16), OTHER_ID) == 42  # of a commit that named no topic id
    assert fetch(world.groups, [("a", [0])]) == {"a": {0: 42}}  # by name it is the same offset


# ---- transactions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("", -1, ErrorCode.NONE),  # old producers name no member
        ("m1", 2, ErrorCode.NONE),
        ("m1", 3, ErrorCode.ILLEGAL_GENERATION),
        ("m1", 1, ErrorCode.ILLEGAL_GENERATION),
        ("m1", -1, ErrorCode.ILLEGAL_GENERATION),
        ("", -2, UNKNOWN),
        ("", 2, UNKNOWN),
        ("nobody", 2, UNKNOWN),
    ],
)
@pytest.mark.parametrize("is_newest", [False, True])
def test_producers_commit_for_members_of_the_epoch(
    world: ConsumerWorld, member_id: str, epoch: int, error: ErrorCode, is_newest: bool
) -> None:
    if is_newest and error is ErrorCode.ILLEGAL_GENERATION:
        error = ErrorCode.STALE_MEMBER_EPOCH  # KIP-1319

    result = commit_in(
        world.groups, member_id=member_id, generation_id=epoch, topics=("a",), is_newest=is_newest
    )

    assert result is error
    assert fetch(world.groups) == {}
    world.groups.end_transaction(P.producer_id, committed=True)
    world.restart()
    assert fetch(world.groups) == ({"a": {0: 42}} if error is ErrorCode.NONE else {})


def test_producers_commit_in_an_older_epoch_for_partitions_the_member_has_had_since_then() -> None:
    world = ConsumerWorld()
    first, second = Client(world, "m1", "a"), Client(world, "m2", "a")
    for one in (first, second, first, second, first, second):
        one.join() if one.epoch == 0 else one.heartbeat()
    assert (first.epoch, first.owned, second.owned) == (3, {"a": [0, 1]}, {"a": [2, 3]})

    def in_epoch(epoch: int, partition: int) -> ErrorCode:
        command = TxnOffsetCommit(
            token=world.groups.token(),
            group_id="g",
            generation_id=epoch,
            member_id="m1",
            offsets=[OffsetToCommit("a", partition, 5)],
            producer=Producer(7, 0),
            all_is_illegal_generation=True,
        )
        answer = world.groups.ask(command)
        if isinstance(answer, Refuse):
            return answer.error
        assert isinstance(answer, OffsetCommitResult)
        return answer.errors[0]

    assert in_epoch(2, 0) is ErrorCode.NONE
    assert in_epoch(3, 1) is ErrorCode.NONE
    assert in_epoch(2, 2) is ErrorCode.ILLEGAL_GENERATION  # it is another member's now
    assert in_epoch(1, 0) is ErrorCode.ILLEGAL_GENERATION


def test_an_empty_consumer_group_takes_transactions_of_any_producer(world: ConsumerWorld) -> None:
    world.stay("m1", -1)

    assert commit_in(world.groups, member_id="nobody", generation_id=-1) is ErrorCode.NONE
    assert commit_in(world.groups, member_id="nobody", generation_id=2) is UNKNOWN


# ---- deletion ----------------------------------------------------------------------------------------------


def test_offsets_of_topics_that_no_member_reads_may_be_deleted_while_there_are_members(
    world: ConsumerWorld,
) -> None:
    commit_alone(world, "a")
    commit_alone(world, "b")
    assert commit_in(world.groups, topics=("c",)) is ErrorCode.NONE

    answer = delete_offsets(world.groups, [("a", [0]), ("b", [0]), ("c", [0])])

    assert answer == {
        "a": [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)],
        "b": [(0, ErrorCode.NONE)],
        "c": [(0, ErrorCode.NONE)],
    }
    world.groups.end_transaction(P.producer_id, committed=True)
    world.restart()
    assert fetch(world.groups) == {"a": {0: 42}}


def test_a_topic_that_an_expression_matches_is_read() -> None:
    world = ConsumerWorld()
    world.join("m1", regex="a.*")
    world.stay("m1", world.group().members["m1"].member_epoch)  # the topics of its expression are known now
    commit_alone(world, "a")
    commit_alone(world, "b")

    assert delete_offsets(world.groups, [("a", [0]), ("b", [0])]) == {
        "a": [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)],
        "b": [(0, ErrorCode.NONE)],
    }
    assert fetch(world.groups) == {"a": {0: 42}}


def deleted(world: ConsumerWorld) -> ErrorCode:
    answer = world.groups.ask(DeleteGroups(token=world.groups.token(), group_ids=("g",)))
    assert isinstance(answer, DeleteGroupsResult)
    return answer.errors[0][1]


def test_a_consumer_group_is_deleted_with_all_its_records_and_its_pending_offsets(
    world: ConsumerWorld,
) -> None:
    commit_alone(world)
    assert deleted(world) is ErrorCode.NON_EMPTY_GROUP
    world.stay("m1", -1)
    assert commit_in(world.groups, topics=("b",)) is ErrorCode.NONE
    since = len(world.groups.log)

    assert deleted(world) is ErrorCode.NONE

    assert world.written(since) == "1t 1t 6t 4t 3t"
    world.groups.end_transaction(P.producer_id, committed=True)
    world.restart()
    assert not world.groups.coordinator.shard.groups and fetch(world.groups) == {}
    assert deleted(world) is ErrorCode.GROUP_ID_NOT_FOUND


# ---- expiry ------------------------------------------------------------------------------------------------


SHORT = CoordinatorConfig(
    group_consumer_assignment_interval_ms=0,
    offsets_retention_ms=100_000,
    offsets_retention_check_interval_ms=10_000,
)


def advance_with_heartbeats(world: ConsumerWorld, milliseconds: int) -> None:
    """Advance the clock, with a heartbeat of "m1" every 20 seconds."""
    for _ in range(milliseconds // 20_000):
        world.groups.advance(20_000)
        world.stay("m1", 2)


def test_offsets_of_topics_that_no_member_reads_expire_after_their_commit() -> None:
    world = ConsumerWorld(SHORT)
    world.join("m1", "a")
    commit_alone(world, "a")
    commit_alone(world, "b")

    advance_with_heartbeats(world, 80_000)
    before = fetch(world.groups)
    advance_with_heartbeats(world, 40_000)

    assert before == {"a": {0: 42}, "b": {0: 42}}
    assert fetch(world.groups) == {"a": {0: 42}}


def test_offsets_of_an_empty_consumer_group_expire_after_their_commit_and_the_group_with_them() -> None:
    world = ConsumerWorld(SHORT)
    world.join("m1", "a")
    commit_alone(world, "a")
    advance_with_heartbeats(world, 80_000)
    commit_alone(world, "b")
    world.stay("m1", -1)
    since = len(world.groups.log)

    world.groups.advance(40_000)
    assert fetch(world.groups) == {"b": {0: 42}} and world.group().is_empty
    world.groups.advance(60_000)

    assert world.written(since) == "1t 1t 6t 4t 3t"
    world.restart()
    assert not world.groups.coordinator.shard.groups


def test_offsets_of_a_consumer_group_that_a_transaction_may_still_change_do_not_expire() -> None:
    world = ConsumerWorld(SHORT)
    world.join("m1", "a")
    commit_alone(world, "b")
    world.stay("m1", -1)
    assert commit_in(world.groups, topics=("b",)) is ErrorCode.NONE

    world.groups.advance(200_000)
    assert fetch(world.groups) == {"b": {0: 42}} and world.group().is_empty
    world.groups.end_transaction(P.producer_id, committed=False)
    world.groups.advance(20_000)

    assert fetch(world.groups) == {} and not world.groups.coordinator.shard.groups


def test_an_empty_consumer_group_without_offsets_is_removed_at_the_next_check() -> None:
    world = ConsumerWorld(SHORT)
    world.join("m1", "a")
    world.groups.advance(30_000)
    assert world.group().members  # not while it has a member
    world.stay("m1", -1)

    world.groups.advance(10_000)

    assert not world.groups.coordinator.shard.groups
