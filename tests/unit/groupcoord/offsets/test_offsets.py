"""Committed offsets: commit, fetch, delete, expiry, by the rules of Apache Kafka."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ottla.groupcoord.admin_commands import DeleteGroups, DescribeGroups, ListGroups
from ottla.groupcoord.admin_results import (
    DeleteGroupsResult,
    DescribeGroupsResult,
    ListedGroup,
    ListGroupsResult,
)
from ottla.groupcoord.classic.consumer_protocol import subscribed_topics
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.coordinator_config import KEEPS_OFFSETS, CoordinatorConfig, default_group_config
from ottla.groupcoord.effects import Append, Refuse, Reply
from ottla.groupcoord.group_records import GroupMetadataRecord
from ottla.groupcoord.offsets.offset_commands import (
    ForgetTopics,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
)
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetDeleteResult, OffsetFetchResult
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.group_world import GroupWorld

DAY_MS = 24 * 60 * 60_000
HOUR_MS, WEEK_MS = 60 * 60_000, 7 * DAY_MS


def subscription(*topics: str) -> bytes:
    """Return a ConsumerProtocolSubscription of version 0."""
    names = b"".join(len(topic.encode()).to_bytes(2) + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"


def commit(
    world: GroupWorld,
    offsets: Sequence[OffsetToCommit] = (OffsetToCommit("t", 0, 42, 7, "note"),),
    *,
    member_id: str = "",
    generation_id: int = -1,
    instance: str | None = None,
    group_id: str = "g",
    retention_ms: int = -1,
    old_client: bool = False,
) -> ErrorCode:
    answer = world.ask(
        OffsetCommit(
            token=world.token(),
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            offsets=offsets,
            unknown_group_is_illegal_generation=old_client,
        )
    )
    if isinstance(answer, Refuse):
        return answer.error
    assert isinstance(answer, OffsetCommitResult)
    return next((error for error in answer.errors if error), ErrorCode.NONE)


def fetch(
    world: GroupWorld, topics: Sequence[tuple[str, Sequence[int]]] | None = None, group_id: str = "g"
) -> dict[str, dict[int, int]]:
    answer = world.ask(OffsetFetch(token=world.token(), group_id=group_id, topics=topics))
    assert isinstance(answer, OffsetFetchResult)
    return {
        topic: {each.partition: each.offset for each in partitions} for topic, partitions in answer.topics
    }


# ---- commit and fetch ------------------------------------------------------------------------------------


def test_a_commit_from_outside_makes_a_group_without_a_type() -> None:
    world = GroupWorld()

    assert commit(world) is ErrorCode.NONE

    answer = world.ask(OffsetFetch(token=world.token(), group_id="g", topics=[("t", [0, 1]), ("u", [5])]))
    assert isinstance(answer, OffsetFetchResult)
    assert answer.topics == [
        ("t", [(0, 42, 7, "note", ErrorCode.NONE), (1, -1, -1, "", ErrorCode.NONE)]),
        ("u", [(5, -1, -1, "", ErrorCode.NONE)]),
    ]
    assert world.state() is GroupState.EMPTY


def test_a_fetch_of_all_topics_returns_only_the_offsets_of_its_group() -> None:
    world = GroupWorld()
    commit(world, [OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 2), OffsetToCommit("u", 0, -3)])

    assert fetch(world) == {"t": {0: 1, 1: 2}, "u": {0: -3}}
    assert fetch(world, group_id="other") == {}


def test_offsets_survive_a_restart() -> None:
    world = GroupWorld()
    commit(world, [OffsetToCommit("t", 0, 1)])
    commit(world, [OffsetToCommit("t", 0, 2)])

    world.restart()

    assert fetch(world) == {"t": {0: 2}}
    assert world.coordinator.shard.offsets.count == 1


def test_the_last_of_two_offsets_for_one_partition_counts() -> None:
    world = GroupWorld()

    commit(world, [OffsetToCommit("t", 0, 9), OffsetToCommit("t", 0, 4)])

    assert fetch(world) == {"t": {0: 4}}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 1, "member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0, "member_id": "leader"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1, "member_id": "leader"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 1, "member_id": "leader", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 1, "member_id": "leader"}, ErrorCode.NONE),
    ],
)
def test_trap_24_only_members_of_the_generation_commit_while_a_group_has_members(
    fields: dict[str, object], error: ErrorCode
) -> None:
    world = GroupWorld()
    leader, _ = world.stable_group(2)
    if fields.get("member_id") == "leader":
        fields = {**fields, "member_id": leader}

    assert commit(world, **fields) is error  # type: ignore[arg-type]
    assert fetch(world) == ({} if error else {"t": {0: 42}})


def test_trap_22_commits_are_accepted_while_members_join_and_not_while_the_assignment_is_awaited() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1)
    token = world.join()
    assert world.state() is GroupState.PREPARING_REBALANCE

    while_preparing = commit(world, member_id=leader, generation_id=1)
    world.join(leader)
    assert world.joined(token).generation_id == 2
    while_completing = commit(world, member_id=leader, generation_id=2)

    assert while_preparing is ErrorCode.NONE
    assert while_completing is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("old_client", "error"), [(True, ErrorCode.ILLEGAL_GENERATION), (False, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_an_unknown_group_cannot_commit(old_client: bool, error: ErrorCode) -> None:
    world = GroupWorld()

    assert commit(world, member_id="m", generation_id=1, old_client=old_client) is error


def test_a_commit_renews_the_session() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1, session_ms=10_000)

    for _ in range(5):
        world.advance(6_000)
        assert commit(world, member_id=leader, generation_id=1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4096, ErrorCode.NONE),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\U0001f600" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("é" * 4096, ErrorCode.NONE),
    ],
)
def test_metadata_is_bounded_offset_metadata_max_bytes(metadata: str, error: ErrorCode) -> None:
    assert commit(GroupWorld(), [OffsetToCommit("t", 0, 1, -1, metadata)]) is error


def test_an_offset_with_too_much_metadata_does_not_hinder_the_others() -> None:
    world = GroupWorld()

    commit(world, [OffsetToCommit("t", 0, 1, -1, "x" * 5000), OffsetToCommit("t", 1, 2)])

    assert fetch(world) == {"t": {1: 2}}


def test_a_commit_that_is_larger_than_a_batch_is_rejected_whole() -> None:
    world = GroupWorld(CoordinatorConfig(max_batch_bytes=1_000))

    error = commit(world, [OffsetToCommit("t", n, 1) for n in range(50)])

    assert error is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert world.log == []


def test_the_answer_to_a_commit_follows_its_append() -> None:
    world = GroupWorld()
    command = OffsetCommit(
        token=world.token(), group_id="g", generation_id=-1, member_id="", offsets=[OffsetToCommit("t", 0, 1)]
    )

    effects = world.handle(command)

    assert [type(effect) for effect in effects] == [Append, Reply]


# ---- deletion --------------------------------------------------------------------------------------------


def delete_offsets(
    world: GroupWorld, topics: Sequence[tuple[str, Sequence[int]]]
) -> ErrorCode | dict[str, list[tuple[int, ErrorCode]]]:
    answer = world.ask(OffsetDelete(token=world.token(), group_id="g", topics=topics))
    if isinstance(answer, Refuse):
        return answer.error
    assert isinstance(answer, OffsetDeleteResult)
    return {topic: list(partitions) for topic, partitions in answer.topics}


def test_offsets_of_topics_that_are_read_stay_kip_496() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1, protocols=[("range", subscription("t"))])
    commit(world, [OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 2)], member_id=leader, generation_id=1)

    answer = delete_offsets(world, [("t", [0]), ("u", [0, 1])])

    assert answer == {
        "t": [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)],
        "u": [(0, ErrorCode.NONE), (1, ErrorCode.NONE)],
    }
    assert fetch(world) == {"t": {0: 1}}


def test_offsets_of_members_of_another_protocol_stay() -> None:
    world = GroupWorld()
    world.stable_group(1, protocol_type="connect")

    assert delete_offsets(world, [("t", [0])]) is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    assert delete_offsets(GroupWorld(), [("t", [0])]) is ErrorCode.GROUP_ID_NOT_FOUND


def delete_groups(world: GroupWorld, *group_ids: str) -> list[ErrorCode]:
    answer = world.ask(DeleteGroups(token=world.token(), group_ids=group_ids))
    assert isinstance(answer, DeleteGroupsResult)
    return [error for _, error in answer.errors]


def test_trap_25_empty_groups_are_deleted_with_their_offsets() -> None:
    world = GroupWorld()
    world.stable_group(1)
    commit(world, group_id="h")

    errors = delete_groups(world, "g", "h", "nobody", "h")

    assert errors == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    world.restart()
    assert fetch(world, group_id="h") == {}
    assert sorted(world.coordinator.shard.groups) == ["g"]


def test_the_offsets_of_a_deleted_topic_are_removed() -> None:
    world = GroupWorld()
    commit(world, [OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 2)])

    world.handle(ForgetTopics(topics=frozenset({"t"})))

    assert fetch(world) == {"u": {0: 2}}


# ---- expiry ----------------------------------------------------------------------------------------------


def test_offsets_of_a_group_without_members_expire_after_their_commit() -> None:
    world = GroupWorld()
    commit(world)

    world.advance(WEEK_MS - DAY_MS)
    assert fetch(world) == {"t": {0: 42}}
    world.advance(DAY_MS + 600_000)

    assert fetch(world) == {}
    assert world.coordinator.shard.groups == {}


def test_offsets_of_a_group_that_had_members_expire_after_it_became_empty() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1, session_ms=1_000_000)
    commit(world, member_id=leader, generation_id=1)
    for _ in range(int(WEEK_MS * 1.5) // 900_000):
        world.advance(900_000)
        assert world.heartbeat(leader, 1) is ErrorCode.NONE
    assert fetch(world) == {"t": {0: 42}}
    world.leave(leader)

    world.advance(WEEK_MS - 600_000)
    assert fetch(world) == {"t": {0: 42}}
    world.advance(1_300_000)

    assert fetch(world) == {}
    assert world.log[-1] == GroupMetadataRecord("g", None)


def test_offsets_of_topics_that_consumers_gave_up_expire_in_a_stable_group() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1, session_ms=1_800_000, protocols=[("range", subscription("t"))])
    commit(world, [OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 2)], member_id=leader, generation_id=1)

    for _ in range((WEEK_MS + 1_200_000) // 600_000):
        world.advance(600_000)
        world.heartbeat(leader, 1)

    assert fetch(world) == {"t": {0: 1}}


def test_an_offset_with_a_retention_of_its_own_expires_by_that() -> None:
    world = GroupWorld()
    commit(world, retention_ms=1_000_000)

    world.advance(900_000)
    assert fetch(world) == {"t": {0: 42}}
    world.advance(400_000)

    assert fetch(world) == {}


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63)])
def test_a_retention_beyond_the_largest_timestamp_is_cut_to_it(retention_ms: int) -> None:
    world = GroupWorld()

    commit(world, retention_ms=retention_ms)
    world.advance(HOUR_MS)

    assert fetch(world) == ({"t": {0: 42}} if retention_ms > 0 else {})


@pytest.mark.parametrize(("own_ms", "is_left"), [(KEEPS_OFFSETS, True), (1_000_000, False)])
def test_a_group_may_have_a_retention_of_its_own_or_none(own_ms: int, is_left: bool) -> None:
    world = GroupWorld()
    shard = world.coordinator.shard
    own = replace(default_group_config(shard.config), offsets_retention_ms=own_ms)
    shard.group_config = lambda group_id: own
    commit(world)

    world.advance(900_000)
    assert fetch(world) == {"t": {0: 42}}
    world.advance(700_000 if not is_left else 10 * WEEK_MS)

    assert fetch(world) == ({"t": {0: 42}} if is_left else {})


def test_an_empty_group_without_offsets_is_removed_at_the_next_check() -> None:
    world = GroupWorld()
    world.leave(*world.stable_group(1))
    assert world.state() is GroupState.EMPTY

    world.advance(600_000)

    assert world.coordinator.shard.groups == {}


def test_expiry_goes_on_in_slices_until_all_groups_were_seen() -> None:
    world = GroupWorld(CoordinatorConfig(offsets_retention_ms=HOUR_MS))
    for n in range(30):
        commit(world, [OffsetToCommit("t", each, 1) for each in range(100)], group_id=f"g{n}")

    world.advance(HOUR_MS + 1_200_000)

    assert world.coordinator.shard.offsets.count == 0
    assert world.coordinator.shard.groups == {}


# ---- administrators --------------------------------------------------------------------------------------


def test_groups_are_described_by_state() -> None:
    world = GroupWorld()
    tokens = [world.join(protocols=[("range", b"m")]) for _ in range(2)]
    world.advance(6_001)
    described = [world.ask(DescribeGroups(token=world.token(), group_ids=["g", "x"]))]
    leader, follower = (world.joined(token).member_id for token in tokens)
    world.sync(leader, 1, [(leader, b"A")])
    described.append(world.ask(DescribeGroups(token=world.token(), group_ids=["g"])))

    before, after = described
    assert isinstance(before, DescribeGroupsResult) and isinstance(after, DescribeGroupsResult)
    completing, unknown = before.groups
    assert (unknown.error, unknown.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert (completing.state, completing.protocol_type, completing.protocol_name) == (
        "CompletingRebalance",
        "consumer",
        "",
    )
    assert [member.metadata for member in completing.members] == [b"", b""]
    stable = after.groups[0]
    assert (stable.state, stable.protocol_name) == ("Stable", "range")
    assert stable.members[0] == (leader, None, "c", "/127.0.0.1", b"m", b"A")
    assert stable.members[1] == (follower, None, "c", "/127.0.0.1", b"m", b"")


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ((), (), {"g", "h"}),
        (("stable",), (), {"g"}),
        (("empty", "dead"), (), {"h"}),
        ((), ("classic",), {"g", "h"}),
        ((), ("consumer",), set()),
        (("nonsense",), ("classic",), set()),
    ],
)
def test_groups_are_listed_by_state_and_type(
    states: Sequence[str], types: Sequence[str], listed: set[str]
) -> None:
    world = GroupWorld()
    world.stable_group(1)
    commit(world, group_id="h")

    answer = world.ask(ListGroups(token=world.token(), states=frozenset(states), types=frozenset(types)))

    assert isinstance(answer, ListGroupsResult)
    assert {group.group_id for group in answer.groups} == listed
    if listed == {"h"}:
        assert answer.groups == [ListedGroup("h", "", "Empty", "classic")]


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription("a", "bé"), ["a", "bé"]),
        (subscription(), []),
        (b"\0\3" + subscription("a")[2:] + b"and later fields", ["a"]),
        (b"", None),
        (b"\0\0", None),
        (b"\xff\xff\0\0\0\0", None),
        (b"\0\0\x7f\xff\xff\xff", None),
        (b"\0\0\0\0\0\1\0\5abc", None),
        (b"\0\0\0\0\0\1\xff\xffabc", None),
        (b"\0\0\0\0\0\1\0\1\xff", None),
    ],
)
def test_subscriptions_are_read_where_they_can_be(metadata: bytes, topics: list[str] | None) -> None:
    assert subscribed_topics(metadata) == topics
