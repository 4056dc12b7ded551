"""Rules of classic groups beyond the table of states: timers, batches, static members, other types."""

import pytest

from ottla.groupcoord.admin_commands import DescribeGroups
from ottla.groupcoord.admin_results import DescribeGroupsResult
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import load_classic_group
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import MemberIdentity
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.group_records import GroupMetadataValue, MemberMetadata
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetDelete, OffsetToCommit
from ottla.groupcoord.timer_commands import ExpireSync
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.group_world import GroupWorld

NO_DELAY = CoordinatorConfig(group_initial_rebalance_delay_ms=0)


def describe(world: GroupWorld) -> list[tuple[str, str | None]]:
    """Return the members of the group with their instance ids."""
    answer = world.ask(DescribeGroups(token=world.token(), group_ids=["g"]))
    assert isinstance(answer, DescribeGroupsResult)
    return [(each.member_id, each.group_instance_id) for each in answer.groups[0].members]


def generation(world: GroupWorld) -> int:
    group = world.coordinator.shard.classic_group("g")
    assert group is not None
    return group.generation_id


# ---- identities ------------------------------------------------------------------------------------------


def test_a_member_that_names_the_instance_of_another_is_fenced() -> None:
    world = GroupWorld(NO_DELAY)
    one, _ = world.static_group("one", "two")

    claims = world.joined(world.join(one, instance="two"))
    unknown = world.joined(world.join(one, instance="three"))

    assert (claims.error, unknown.error) == (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID)
    assert world.state() is GroupState.STABLE


def test_a_join_is_checked_in_kafkas_order() -> None:
    world = GroupWorld()

    without_group = world.answers[world.join("unknown", group_id="", session_ms=1)]
    short_session = world.joined(world.join("unknown", session_ms=1))

    assert isinstance(without_group, Refuse) and without_group.error is ErrorCode.INVALID_GROUP_ID
    assert short_session.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_the_empty_instance_id_is_an_instance_of_its_own() -> None:
    world = GroupWorld(NO_DELAY)
    static, dynamic = world.static_group("", None)
    world.restart()

    assert sorted(describe(world)) == sorted([(static, ""), (dynamic, None)])
    # Without an id or an instance id it names no member, not even the one whose instance id is empty.
    assert world.leave(MemberIdentity("", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.leave(MemberIdentity("", "")) == [ErrorCode.NONE]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"client_id": "c" * 32_767}, id="client id"),
        pytest.param({"instance": "i" * 32_767}, id="instance id"),
    ],
)
def test_a_member_id_fits_into_a_record_however_long_its_client_is_named(fields: dict[str, str]) -> None:
    world = GroupWorld(NO_DELAY)
    join = world.join(**fields)  # type: ignore[arg-type]
    world.advance(0)
    member_id = world.joined(join).member_id

    world.sync(member_id, 1, [(member_id, b"a")])

    assert world.state() is GroupState.STABLE
    assert len(member_id) < 300
    world.restart()
    assert [each for each, _ in describe(world)] == [member_id]


# ---- leaving ---------------------------------------------------------------------------------------------


def test_members_of_a_leaving_batch_are_checked_one_by_one_and_the_group_rebalances_once() -> None:
    world = GroupWorld(NO_DELAY)
    one, two, three, stays = world.static_group("one", "two", "three", None)

    errors = world.leave(
        MemberIdentity(one, "one"),
        MemberIdentity(two, "three"),
        MemberIdentity("", "nobody"),
        MemberIdentity("", "two"),
        MemberIdentity(three),
        MemberIdentity(three),
    )

    assert errors == [
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert (world.state(), generation(world)) == (GroupState.PREPARING_REBALANCE, 1)
    join = world.join(stays)
    assert world.joined(join).generation_id == 2


def test_the_join_is_complete_when_the_last_pending_member_leaves() -> None:
    world = GroupWorld(NO_DELAY)
    (member,) = world.static_group(None)
    pending = [world.joined(world.join(member_id_required=True)).member_id for _ in range(2)]
    join = world.join(member)

    world.leave(pending[0])
    assert join in world.waiting()
    world.leave(pending[1])

    assert world.joined(join).generation_id == 2


def test_a_group_without_a_completed_join_is_removed_with_its_last_pending_member() -> None:
    world = GroupWorld()
    pending = world.joined(world.join(member_id_required=True)).member_id

    world.leave(pending)

    assert world.coordinator.shard.classic_group("g") is None


def test_an_initial_rebalance_keeps_its_delay_when_pending_members_leave() -> None:
    world = GroupWorld()
    pending = world.joined(world.join(member_id_required=True)).member_id
    join = world.join()

    world.leave(pending)
    assert join in world.waiting()
    world.advance(3_000)

    assert world.joined(join).generation_id == 1


def test_an_initial_rebalance_ends_early_when_a_pending_member_falls_silent_as_in_kafka() -> None:
    world = GroupWorld(CoordinatorConfig(group_initial_rebalance_delay_ms=20_000))
    world.join(member_id_required=True, session_ms=6_000)
    join = world.join()

    world.advance(6_000)

    assert world.joined(join).generation_id == 1


# ---- the initial delay and the rebalance timeout ---------------------------------------------------------


def test_without_a_delay_members_that_come_together_are_one_generation() -> None:
    world = GroupWorld(NO_DELAY)

    joins = [world.join(), world.join()]
    assert world.waiting() == set(joins)
    world.advance(0)

    assert [world.joined(join).generation_id for join in joins] == [1, 1]


def test_only_new_members_extend_the_initial_delay() -> None:
    world = GroupWorld()
    pending = world.joined(world.join(member_id_required=True)).member_id
    world.join(pending)
    world.advance(2_000)
    again = world.join(pending)  # the client joins once more

    world.advance(1_000)

    assert world.joined(again).generation_id == 1


def test_the_initial_delay_is_bounded_by_the_rebalance_timeout_of_the_first_member() -> None:
    world = GroupWorld()
    first = world.join(rebalance_ms=5_000)
    world.advance(2_000)
    world.join(rebalance_ms=60_000)
    world.advance(2_000)
    world.join(rebalance_ms=60_000)

    world.advance(999)
    assert first in world.waiting()
    world.advance(1)

    assert world.joined(first).generation_id == 1


def test_the_rebalance_timeout_of_a_rebalance_is_fixed_when_it_begins() -> None:
    world = GroupWorld(NO_DELAY)
    leader, leaves, _ = world.static_group(None, None, None, rebalance_ms=10_000, session_ms=60_000)

    world.leave(leaves)
    join = world.join(leader, rebalance_ms=300_000, session_ms=60_000)
    world.advance(9_999)
    assert join in world.waiting()
    world.advance(1)

    assert [each.member_id for each in world.joined(join).members] == [leader]


# ---- electing a leader -----------------------------------------------------------------------------------


def test_a_static_leader_that_does_not_rejoin_stays_a_member_and_no_longer_leads() -> None:
    world = GroupWorld(NO_DELAY)
    leader, follower = world.static_group("one", "two", rebalance_ms=10_000, session_ms=60_000)

    join = world.join(
        follower, instance="two", rebalance_ms=10_000, session_ms=60_000, protocols=[("range", b"new")]
    )
    world.advance(10_000)
    joined = world.joined(join)

    assert joined.leader == follower
    assert {each.member_id for each in joined.members} == {leader, follower}


def test_static_members_that_all_stay_away_make_no_generation_until_their_sessions_end() -> None:
    world = GroupWorld(NO_DELAY)
    world.static_group("one", "two", None, rebalance_ms=10_000, session_ms=35_000)
    (dynamic,) = (member for member, instance in describe(world) if instance is None)
    world.leave(dynamic)

    world.advance(10_000)
    assert (world.state(), generation(world)) == (GroupState.PREPARING_REBALANCE, 1)
    world.advance(10_000)
    assert (world.state(), generation(world)) == (GroupState.PREPARING_REBALANCE, 1)
    world.advance(15_000)

    assert (world.state(), generation(world)) == (GroupState.EMPTY, 2)


# ---- waiting for syncs -----------------------------------------------------------------------------------


def test_a_static_member_that_never_syncs_is_removed_with_its_session_timer() -> None:
    world = GroupWorld(NO_DELAY)
    fields = {"rebalance_ms": 10_000, "session_ms": 60_000}
    joins = [world.join(instance=each, **fields) for each in ("one", "two")]  # type: ignore[arg-type]
    world.advance(0)
    one, two = (world.joined(join).member_id for join in joins)
    world.sync(one, 1, [(one, b"a")])

    world.advance(10_000)

    assert world.state() is GroupState.PREPARING_REBALANCE
    assert [key for key in world.timers if key.member_id == two] == []
    assert world.joined(world.join(two, instance="two")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_syncs_after_the_leader_is_not_removed_by_the_sync_timer() -> None:
    world = GroupWorld(NO_DELAY)
    fields = {"rebalance_ms": 10_000, "session_ms": 60_000}
    joins = [world.join(**fields) for _ in range(2)]  # type: ignore[arg-type]
    world.advance(0)
    leader, follower = (world.joined(join).member_id for join in joins)
    world.sync(leader, 1, [(leader, b"a")])

    world.sync(follower, 1)
    world.advance(10_000)
    world.handle(ExpireSync(group_id="g", generation_id=1))  # the timer was in flight

    assert world.state() is GroupState.STABLE


def test_a_session_that_ended_while_its_member_waited_for_the_leader_starts_again() -> None:
    world = GroupWorld(NO_DELAY)
    joins = [world.join(session_ms=session_ms) for session_ms in (60_000, 10_000)]
    world.advance(0)
    leader, follower = (world.joined(join).member_id for join in joins)
    syncing = world.sync(follower, 1)
    world.advance(12_000)
    assert syncing in world.waiting()
    world.sync(leader, 1, [(leader, b"a"), (follower, b"b")])

    world.advance(9_999)
    assert world.state() is GroupState.STABLE
    world.advance(1)

    assert [each for each, _ in describe(world)] == [leader]


def test_a_generation_without_an_assignment_shows_none() -> None:
    world = GroupWorld(NO_DELAY)
    leader, follower = world.static_group(None, None)
    join = world.join(leader)
    shown_while_joining = assignments(world)
    world.join(follower)
    assert world.joined(join).generation_id == 2

    world.join()

    assert world.state() is GroupState.PREPARING_REBALANCE
    assert shown_while_joining == [leader.encode(), follower.encode()]
    assert assignments(world) == [b"", b"", b""]


def assignments(world: GroupWorld) -> list[bytes]:
    answer = world.ask(DescribeGroups(token=world.token(), group_ids=["g"]))
    assert isinstance(answer, DescribeGroupsResult)
    return [each.assignment for each in answer.groups[0].members]


def test_the_sync_timer_of_an_older_generation_is_ignored() -> None:
    world = GroupWorld(NO_DELAY)
    joins = [world.join(), world.join()]
    world.advance(0)
    leader = world.joined(joins[0]).member_id
    world.sync(leader, 1, [(leader, b"a")])

    world.handle(ExpireSync(group_id="g", generation_id=0))

    assert world.state() is GroupState.STABLE
    assert len(describe(world)) == 2


# ---- static members that return --------------------------------------------------------------------------


def test_a_static_leader_that_returned_asks_for_its_assignment_and_gets_the_kept_one() -> None:
    world = GroupWorld(NO_DELAY)
    leader, _ = world.static_group("one", "two")

    joined = world.joined(world.join(instance="one"))
    synced = world.synced(world.sync(joined.member_id, joined.generation_id, instance="one"))

    assert (joined.skip_assignment, joined.leader) == (True, joined.member_id)
    assert synced.assignment == leader.encode()


def test_a_static_member_with_other_protocols_and_the_same_choice_is_written_without_a_rebalance() -> None:
    world = GroupWorld(NO_DELAY)
    both = [("sticky", b""), ("range", b"")]
    joins = [world.join(instance="one", protocols=both), world.join(instance="two")]
    world.advance(0)
    one, two = (world.joined(join).member_id for join in joins)
    world.sync(two, 1)
    world.sync(one, 1, [(one, b"1"), (two, b"2")])
    records = len(world.log)

    joined = world.joined(world.join(instance="one", protocols=[*reversed(both), ("other", b"")]))

    assert (joined.error, joined.generation_id, joined.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert world.state() is GroupState.STABLE
    assert len(world.log) == records + 1


def test_a_former_member_that_waits_for_its_assignment_is_fenced_once() -> None:
    world = GroupWorld(NO_DELAY)
    joins = [world.join(instance=each) for each in ("one", "two")]
    world.advance(0)
    _, follower = (world.joined(join).member_id for join in joins)
    syncing = world.sync(follower, 1, instance="two")

    world.join(instance="two")

    assert world.synced(syncing).error is ErrorCode.FENCED_INSTANCE_ID
    assert world.state() is GroupState.PREPARING_REBALANCE


def test_a_static_member_that_returned_still_has_to_ask_for_its_assignment() -> None:
    world = GroupWorld(NO_DELAY)
    fields = {"rebalance_ms": 10_000, "session_ms": 60_000}
    joins = [world.join(instance=each, **fields) for each in ("one", "two")]  # type: ignore[arg-type]
    world.advance(0)
    leader = world.joined(joins[0]).member_id
    world.sync(leader, 1, [(leader, b"a")], instance="one")

    world.join(instance="two", **fields)  # type: ignore[arg-type]
    world.advance(10_000)

    assert world.state() is GroupState.PREPARING_REBALANCE
    assert [instance for _, instance in describe(world)] == ["one"]


def test_a_static_member_that_returns_with_more_than_the_log_takes_starts_a_rebalance() -> None:
    world = GroupWorld(CoordinatorConfig(group_initial_rebalance_delay_ms=0, max_batch_bytes=10_000))
    world.static_group("one", None, protocols=[("range", bytes(4_000))])
    records = len(world.log)

    world.join(instance="one", protocols=[("range", bytes(9_000))])

    assert world.state() is GroupState.PREPARING_REBALANCE
    assert len(world.log) == records


def test_a_member_is_loaded_from_its_newest_record() -> None:
    group = ClassicGroup("g")
    for client_host, session_timeout_ms in (("/a", 1), ("/b", 2)):
        recorded = MemberMetadata(
            member_id="m", client_host=client_host, session_timeout=session_timeout_ms, rebalance_timeout=1
        )
        value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=[recorded])
        load_classic_group(group, value)

    assert (group.members["m"].client_host, group.members["m"].session_timeout_ms) == ("/b", 2)


# ---- other protocol types --------------------------------------------------------------------------------

# The metadata of a worker of Kafka Connect: version 1 of its own protocol, its address, its offset in the
# topic of configurations, and its connectors and tasks. Schema Registry sends JSON.
CONNECT = [
    ("sessioned", b"\0\2\0\x0chttp://w1:83\0\0\0\0\0\0\0\x07\xff\xff\xff\xff"),
    ("compatible", b"\0\1\0\x0chttp://w1:83\0\0\0\0\0\0\0\x07\xff\xff\xff\xff"),
    ("default", b"\0\0\0\x0chttp://w1:83\0\0\0\0\0\0\0\x07"),
]
SCHEMA_REGISTRY = [
    ("v0", b'{"host":"sr1","port":8081,"master_eligibility":true,"scheme":"http","version":1}')
]


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("connect", CONNECT), ("sr", SCHEMA_REGISTRY)], ids=["connect", "sr"]
)
def test_groups_of_other_types_are_kept_without_reading_their_metadata(
    protocol_type: str, protocols: list[tuple[str, bytes]]
) -> None:
    config = CoordinatorConfig(
        group_initial_rebalance_delay_ms=0, offsets_retention_ms=1, offsets_retention_check_interval_ms=1_000
    )
    world = GroupWorld(config)
    join = world.join(protocols=protocols, protocol_type=protocol_type)
    world.advance(0)
    joined = world.joined(join)
    world.sync(joined.member_id, 1, [(joined.member_id, bytes(range(256)))])
    commit = OffsetCommit(
        token=world.token(),
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        offsets=[OffsetToCommit("t", 0, 5)],
    )
    world.handle(commit)

    world.restart()
    deleted = world.ask(OffsetDelete(token=world.token(), group_id="g", topics=[("t", [0])]))
    world.advance(5_000)
    synced = world.synced(world.sync(joined.member_id, 1))

    assert (joined.protocol_type, joined.protocol_name) == (protocol_type, protocols[0][0])
    assert [each.metadata for each in joined.members] == [protocols[0][1]]
    assert synced.assignment == bytes(range(256))
    assert isinstance(deleted, Refuse) and deleted.error is ErrorCode.NON_EMPTY_GROUP
    assert world.coordinator.shard.offsets.get("g", "t", 0) is not None
