"""Join, sync, heartbeat and leave of classic groups, as in Apache Kafka's coordinator."""

import pytest

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import load_classic_group
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import Heartbeat, JoinGroup, MemberIdentity, Protocol, SyncGroup
from ottla.groupcoord.classic.member_results import JoinGroupResult
from ottla.groupcoord.classic.rebalance import session_key
from ottla.groupcoord.coordinator_config import (
    MAX_MEMBER_BYTES_PER_SHARD,
    MAX_PENDING_MEMBERS,
    MAX_PROTOCOLS,
    CoordinatorConfig,
)
from ottla.groupcoord.effects import Refuse, Reply
from ottla.groupcoord.group_records import GroupMetadataRecord, GroupMetadataValue, MemberMetadata
from ottla.groupcoord.member_bytes import MEMBER_BYTES
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.group_world import GroupWorld

NO_DELAY = CoordinatorConfig(group_initial_rebalance_delay_ms=0)


# ---- joining ---------------------------------------------------------------------------------------------


def test_a_new_dynamic_member_first_gets_its_id_kip_394() -> None:
    world = GroupWorld()

    joined = world.joined(world.join(member_id_required=True, client_id="app"))
    joins = world.join(joined.member_id, member_id_required=True)
    world.advance(3_000)

    assert (joined.error, joined.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-u1")
    assert world.joined(joins).error is ErrorCode.NONE
    assert world.joined(joins).member_id == joined.member_id


def test_a_pending_member_that_does_not_come_back_is_forgotten_with_its_group() -> None:
    world = GroupWorld()
    world.join(member_id_required=True, session_ms=10_000)
    assert world.coordinator.shard.classic_group("g") is not None

    world.advance(10_000)

    assert world.coordinator.shard.classic_group("g") is None
    assert world.log == []


def test_a_rebalance_waits_for_pending_members() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1)
    pending = world.joined(world.join(member_id_required=True)).member_id
    rejoined = world.join(leader)

    assert rejoined in world.waiting()
    world.join(pending)

    assert {each.member_id for each in world.joined(rejoined).members} == {leader, pending}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": [(str(n), b"") for n in range(MAX_PROTOCOLS + 1)]}, ErrorCode.INVALID_REQUEST),
        ({"protocols": [("range", bytes(2_000_000))]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_rejected_join_leaves_nothing_behind(fields: dict[str, object], error: ErrorCode) -> None:
    world = GroupWorld()

    answer = world.answers[world.join(**fields)]  # type: ignore[arg-type]

    assert answer.error is error  # type: ignore[union-attr]
    assert world.coordinator.shard.groups == {}


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocols": [("other", b"")]}, {"protocols": ()}]
)
def test_members_must_share_type_and_a_protocol(fields: dict[str, object]) -> None:
    world = GroupWorld()
    world.stable_group(1)

    token = world.join(**fields)  # type: ignore[arg-type]

    assert world.joined(token).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_any_protocol_type_can_have_groups() -> None:
    world = GroupWorld()

    world.stable_group(2, protocol_type="connect", protocols=[("sessioned", b"\0\1")])

    assert world.state() is GroupState.STABLE


def test_the_protocol_with_the_most_votes_among_those_that_all_offer_wins() -> None:
    world = GroupWorld()
    offers = [["a", "b", "c"], ["b", "c"], ["c", "b", "x"]]

    tokens = [world.join(protocols=[(name, name.encode()) for name in offer]) for offer in offers]
    world.advance(9_000)

    leader = world.joined(tokens[0])
    assert leader.protocol_name == "b"
    assert [member.metadata for member in leader.members] == [b"b"] * 3


def test_only_the_leader_learns_the_members() -> None:
    world = GroupWorld()
    tokens = [world.join() for _ in range(3)]
    world.advance(10_000)

    answers = [world.joined(token) for token in tokens]

    assert [len(answer.members) for answer in answers] == [3, 0, 0]
    assert {answer.leader for answer in answers} == {answers[0].member_id}
    assert {answer.generation_id for answer in answers} == {1}


def test_the_initial_rebalance_is_delayed_and_extended_by_new_members_kip_134() -> None:
    world = GroupWorld()
    first = world.join()
    world.advance(2_999)
    second = world.join()

    world.advance(2)
    assert first in world.waiting()
    world.advance(3_000)

    assert world.joined(first).generation_id == world.joined(second).generation_id == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    world = GroupWorld()
    first = world.join(rebalance_ms=7_000)
    for _ in range(6):
        world.advance(1_500)
        world.join(rebalance_ms=7_000)

    assert world.joined(first).generation_id == 1


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)

    world.join(leader)
    assert world.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(follower)

    assert world.joined(again).generation_id == 2


def test_a_follower_that_joins_again_unchanged_gets_the_generation() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)

    answer = world.joined(world.join(follower))

    assert (answer.generation_id, answer.leader, answer.members) == (1, leader, ())
    assert world.state() is GroupState.STABLE


def test_a_follower_that_joins_again_with_other_metadata_starts_a_rebalance() -> None:
    world = GroupWorld()
    _, follower = world.stable_group(2)

    token = world.join(follower, protocols=[("range", b"new")])

    assert token in world.waiting()
    assert world.state() is GroupState.PREPARING_REBALANCE


def test_a_repeated_join_gets_its_answer_again_while_the_assignment_is_awaited() -> None:
    world = GroupWorld(NO_DELAY)
    token = world.join()
    world.advance(1)
    member_id = world.joined(token).member_id

    again = world.joined(world.join(member_id))

    assert (again.generation_id, len(again.members)) == (1, 1)


def test_the_older_of_two_waiting_joins_of_a_member_is_answered() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)
    older = world.join(leader)

    newer = world.join(leader)

    assert world.joined(older).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert newer in world.waiting()
    world.join(follower)
    assert world.joined(newer).generation_id == 2


def test_members_that_do_not_rejoin_in_time_are_removed() -> None:
    world = GroupWorld()
    leader, _ = world.stable_group(2, rebalance_ms=8_000, session_ms=10_000)
    token = world.join(leader, rebalance_ms=8_000)

    world.advance(8_000)

    assert [each.member_id for each in world.joined(token).members] == [leader]


def test_another_leader_is_elected_when_the_leader_does_not_rejoin() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2, rebalance_ms=8_000)
    token = world.join(follower, protocols=[("range", b"new")], rebalance_ms=8_000)

    world.advance(8_000)

    assert world.joined(token).leader == follower
    assert leader not in world.coordinator.shard.groups["g"].members


def test_a_full_group_rejects_new_members_group_max_size() -> None:
    world = GroupWorld(CoordinatorConfig(group_max_size=2))
    members = world.stable_group(2)

    refused = world.joined(world.join())

    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert world.joined(world.join(members[1])).error is ErrorCode.NONE


def test_the_last_to_rejoin_are_removed_when_the_limit_was_lowered() -> None:
    world = GroupWorld()
    members = world.stable_group(3)
    world.config = CoordinatorConfig(group_max_size=2)

    world.restart()
    assert world.state() is GroupState.PREPARING_REBALANCE
    tokens = [world.join(member_id) for member_id in members]

    assert world.joined(tokens[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.joined(tokens[0]).generation_id == 2


def test_pending_members_are_bounded() -> None:
    world = GroupWorld()
    world.join(member_id_required=True)
    group = world.coordinator.shard.classic_group("g")
    assert group is not None
    (session,) = (timer for key, timer in world.timers.items() if key.purpose == "session")
    for number in range(MAX_PENDING_MEMBERS):
        group.add_pending_member(f"p{number}")
        world.timers[session_key(group, f"p{number}")] = session

    answer = world.joined(world.join(member_id_required=True))

    assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_metadata_of_all_members_of_a_shard_is_bounded() -> None:
    world = GroupWorld(NO_DELAY)
    room = MAX_MEMBER_BYTES_PER_SHARD * 3 // 4 // (1_000_005 + MEMBER_BYTES)

    def join(group_id: str, member_id: str = "") -> JoinGroupResult | Refuse:
        token = world.join(member_id, group_id=group_id, protocols=[("range", bytes(1_000_000))])
        world.advance(0)
        answer = world.answers[token]
        assert isinstance(answer, JoinGroupResult | Refuse)
        return answer

    first, *others = [join(f"g{number}") for number in range(room)]
    assert isinstance(first, JoinGroupResult)
    assert {answer.error for answer in others} == {ErrorCode.NONE}

    assert join("one too many").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert join("g0", first.member_id).error is ErrorCode.NONE, "a member may join again"
    world.leave(first.member_id, group_id="g0")
    assert join("g0").error is ErrorCode.NONE


def test_pending_members_are_bounded_over_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    room = (2 * MEMBER_BYTES + 100) * 8 // 7  # new members may take seven eighths of it
    monkeypatch.setattr("ottla.groupcoord.member_bytes.MAX_MEMBER_BYTES_PER_SHARD", room)
    world = GroupWorld()
    tokens = [
        world.join(group_id=f"g{number}", member_id_required=True, session_ms=10_000) for number in range(3)
    ]
    joined = world.joined(tokens[1])

    refused = world.answers[tokens[2]]

    assert isinstance(refused, Refuse) and refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(world.coordinator.shard.groups) == ["g0", "g1"]
    again = world.join(joined.member_id, group_id="g1", member_id_required=True)
    world.advance(10_000)
    assert world.joined(again).error is ErrorCode.NONE, "a client that was given an id may join with it"
    assert world.joined(world.join(group_id="g2", member_id_required=True)).member_id


def test_a_new_member_whose_client_is_gone_is_removed() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1, rebalance_ms=1_000_000, session_ms=1_800_000)
    token = world.join(rebalance_ms=1_000_000)

    world.advance(5 * 60_000)

    assert world.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(world.coordinator.shard.groups["g"].members) == [leader]


def test_a_protocol_that_is_offered_twice_counts_once() -> None:
    world = GroupWorld()

    world.stable_group(2, protocols=[("range", b"1"), ("range", b"2")])

    assert world.state() is GroupState.STABLE


# ---- syncing ---------------------------------------------------------------------------------------------


def completing_group(world: GroupWorld, size: int = 2) -> list[str]:
    tokens = [world.join() for _ in range(size)]
    world.advance(3_000 * size + 1)
    assert world.state() is GroupState.COMPLETING_REBALANCE
    return [world.joined(token).member_id for token in tokens]


def test_followers_wait_for_the_leaders_assignment() -> None:
    world = GroupWorld()
    leader, follower = completing_group(world)
    waits = world.sync(follower, 1)
    assert waits in world.waiting()

    leads = world.sync(leader, 1, [(leader, b"L"), (follower, b"F"), ("unknown", b"X")])

    assert world.synced(leads).assignment == b"L"
    assert world.synced(waits).assignment == b"F"
    assert world.synced(waits).protocol_name == "range"
    assert len(world.log) == 1


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    world = GroupWorld()
    leader, follower = completing_group(world)

    world.sync(leader, 1, [(leader, b"L")])

    assert world.synced(world.sync(follower, 1)).assignment == b""


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
    ],
)
def test_a_sync_must_name_member_generation_and_protocol(fields: dict[str, object], error: ErrorCode) -> None:
    world = GroupWorld()
    _, follower = world.stable_group(2)
    arguments = {"member_id": follower, "generation_id": 1, **fields}

    assert world.synced(world.sync(**arguments)).error is error  # type: ignore[arg-type]


def test_a_sync_while_members_join_is_rebalance_in_progress() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)
    world.join(leader)

    assert world.synced(world.sync(follower, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_waiting_syncs_are_answered_when_a_member_joins_before_the_assignment() -> None:
    world = GroupWorld()
    _, follower = completing_group(world)
    waits = world.sync(follower, 1)

    world.join()

    assert world.synced(waits).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_removed() -> None:
    world = GroupWorld()
    tokens = [world.join(rebalance_ms=8_000, session_ms=1_000_000) for _ in range(2)]
    world.advance(6_001)
    leader, silent = (world.joined(token).member_id for token in tokens)
    world.sync(leader, 1)

    world.advance(8_000)

    assert world.state() is GroupState.PREPARING_REBALANCE
    assert silent not in world.coordinator.shard.groups["g"].members


def test_an_assignment_too_large_for_the_log_fails_for_all_and_starts_a_rebalance() -> None:
    world = GroupWorld(CoordinatorConfig(max_batch_bytes=10_000))
    leader, follower = completing_group(world)
    waits = world.sync(follower, 1)

    leads = world.sync(leader, 1, [(leader, bytes(10_000))])

    assert world.synced(waits).error is world.synced(leads).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.state() is GroupState.PREPARING_REBALANCE
    assert world.log == []


def test_replies_that_depend_on_an_append_stand_after_it() -> None:
    world = GroupWorld()
    leader, follower = completing_group(world)
    world.sync(follower, 1)

    effects = world.handle(SyncGroup(token=world.token(), group_id="g", generation_id=1, member_id=leader))

    kinds = [type(effect).__name__ for effect in effects]
    assert kinds.index("Append") < kinds.index("Reply")


def test_a_reply_that_shows_committed_state_says_so() -> None:
    world = GroupWorld()
    _, follower = world.stable_group(2)

    effects = world.handle(SyncGroup(token=world.token(), group_id="g", generation_id=1, member_id=follower))

    assert [effect.shows_state for effect in effects if isinstance(effect, Reply)] == [True]


# ---- heartbeats and sessions -------------------------------------------------------------------------------


def test_trap_22_a_heartbeat_is_told_of_a_rebalance_only_while_members_join() -> None:
    world = GroupWorld()
    leader, follower = completing_group(world)

    assert world.heartbeat(follower, 1) is ErrorCode.NONE
    world.sync(leader, 1)
    assert world.heartbeat(follower, 1) is ErrorCode.NONE
    world.join(leader)
    assert world.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_heartbeat_must_name_member_and_generation(fields: dict[str, object], error: ErrorCode) -> None:
    world = GroupWorld()
    _, follower = world.stable_group(2)
    arguments = {"member_id": follower, "generation_id": 1, **fields}

    assert world.heartbeat(**arguments) is error  # type: ignore[arg-type]


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    world = GroupWorld()
    leader, _ = world.stable_group(2, session_ms=10_000)
    for _ in range(4):
        world.advance(4_000)
        code = world.heartbeat(leader, 1)

    assert code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.joined(world.join(leader)).generation_id == 2


def test_members_that_wait_are_not_timed_out() -> None:
    world = GroupWorld()
    leader, _ = world.stable_group(2, session_ms=6_000, rebalance_ms=60_000)
    token = world.join(leader, rebalance_ms=60_000, session_ms=6_000)

    world.advance(7_000)

    assert [each.member_id for each in world.joined(token).members] == [leader]


def test_a_leader_that_dies_before_its_assignment_is_replaced() -> None:
    world = GroupWorld()
    _, follower = completing_group(world)
    waits = world.sync(follower, 1)

    world.advance(10_000)

    assert world.synced(waits).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.joined(world.join(follower)).leader == follower


# ---- leaving ----------------------------------------------------------------------------------------------


def test_when_a_member_leaves_the_others_rebalance() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)

    assert world.leave(leader) == [ErrorCode.NONE]

    assert world.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.joined(world.join(follower)).leader == follower


def test_when_the_last_member_leaves_the_group_is_empty_and_keeps_its_generation() -> None:
    world = GroupWorld()
    members = world.stable_group(2)

    assert world.leave(*members) == [ErrorCode.NONE, ErrorCode.NONE]

    assert world.state() is GroupState.EMPTY
    world.restart()
    token = world.join()
    world.advance(3_000)
    assert world.joined(token).generation_id == 3


def test_each_member_of_a_batch_leaves_for_itself() -> None:
    world = GroupWorld()
    leader, _ = world.stable_group(2)
    pending = world.joined(world.join(member_id_required=True)).member_id

    errors = world.leave("nobody", leader, pending, MemberIdentity("", "no-instance"), "")

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [unknown, ErrorCode.NONE, ErrorCode.NONE, unknown, unknown]
    assert world.state() is GroupState.PREPARING_REBALANCE


def test_a_leave_of_an_unknown_group_is_rejected_for_each_member() -> None:
    assert GroupWorld().leave("m") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    world = GroupWorld()
    leader, follower = completing_group(world)
    waits = world.sync(follower, 1)

    world.leave(follower)

    assert world.synced(waits).error is ErrorCode.UNKNOWN_MEMBER_ID
    joins = world.join(leader)
    assert world.joined(joins).generation_id == 2


def test_a_first_join_is_answered_when_its_member_is_removed() -> None:
    world = GroupWorld()
    token = world.join(instance="i")

    world.leave(MemberIdentity("", "i"))

    assert world.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(3_000)
    assert world.state() is GroupState.EMPTY


# ---- static members (KIP-345) ------------------------------------------------------------------------------


def test_a_static_member_that_returns_takes_its_place_without_a_rebalance() -> None:
    world = GroupWorld()
    leader, follower = world.static_group("a", "b", member_id_required=True)

    answer = world.joined(world.join(instance="b", member_id_required=True))

    assert answer.error is ErrorCode.NONE and answer.generation_id == 1
    assert answer.member_id != follower and answer.member_id.startswith("b-")
    assert world.state() is GroupState.STABLE
    assert world.synced(world.sync(answer.member_id, 1)).assignment == follower.encode()
    assert world.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_leader_that_returns_skips_the_assignment_kip_814() -> None:
    world = GroupWorld()
    world.static_group("a", "b", member_id_required=True)

    answer = world.joined(world.join(instance="a"))

    assert answer.skip_assignment and answer.leader == answer.member_id
    assert len(answer.members) == 2


def test_a_leader_that_returns_with_an_old_client_gets_its_former_id_as_the_leader() -> None:
    world = GroupWorld()
    leader, _ = world.static_group("a", "b", member_id_required=True)

    answer = world.joined(world.join(instance="a", can_skip_assignment=False))

    assert not answer.skip_assignment and answer.members == ()
    assert answer.leader == leader != answer.member_id


def test_the_former_member_of_an_instance_is_fenced() -> None:
    world = GroupWorld()
    _, former = world.static_group("a", "b", member_id_required=True)
    world.join(instance="b")
    fenced = ErrorCode.FENCED_INSTANCE_ID

    assert world.heartbeat(former, 1, instance="b") is fenced
    assert world.synced(world.sync(former, 1, instance="b")).error is fenced
    assert world.joined(world.join(former, instance="b")).error is fenced
    assert world.leave(MemberIdentity(former, "b")) == [fenced]


def test_a_waiting_former_member_of_an_instance_is_fenced_at_once() -> None:
    world = GroupWorld()
    first = world.join(instance="a")

    second = world.join(instance="a")
    world.advance(6_000)

    assert world.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    assert world.joined(second).generation_id == 1


def test_a_static_member_that_returned_is_not_timed_out_while_it_waits() -> None:
    world = GroupWorld()
    (leader,) = world.stable_group(1, session_ms=1_000_000, rebalance_ms=60_000)
    world.join(instance="a")

    token = world.join(instance="a", session_ms=10_000)
    world.advance(30_000)

    assert token in world.waiting()
    world.join(leader)
    assert world.joined(token).generation_id == 2


def test_a_static_member_that_returns_while_the_assignment_is_made_starts_a_rebalance() -> None:
    world = GroupWorld()
    tokens = [world.join(instance=each) for each in "ab"]
    world.advance(6_001)
    leader = world.joined(tokens[0]).member_id

    world.join(instance="b")

    assert world.state() is GroupState.PREPARING_REBALANCE
    assert world.joined(world.join(leader, instance="a")).generation_id == 2


def test_a_static_member_with_other_protocols_starts_a_rebalance() -> None:
    world = GroupWorld()
    both = [("range", b""), ("sticky", b"")]
    tokens = [world.join(instance=each, protocols=both) for each in "ab"]
    world.advance(6_001)
    leader, follower = (world.joined(token).member_id for token in tokens)
    world.sync(leader, 1)
    world.sync(follower, 1)

    world.join(instance="b", protocols=[("sticky", b"")])

    assert world.state() is GroupState.PREPARING_REBALANCE


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    world = GroupWorld()
    leader, away = world.static_group("a", "b", member_id_required=True)
    token = world.join(leader, instance="a")

    world.advance(9_999)
    assert away in world.coordinator.shard.groups["g"].members and token in world.waiting()
    world.advance(1)

    assert away not in world.coordinator.shard.groups["g"].members
    assert world.joined(token).generation_id == 2


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    world = GroupWorld()
    world.static_group("a", "b", member_id_required=True)

    assert world.leave(MemberIdentity("", "b")) == [ErrorCode.NONE]

    assert list(world.coordinator.shard.groups["g"].static_members) == ["a"]


def test_static_members_survive_a_restart_of_the_coordinator() -> None:
    world = GroupWorld()
    leader, follower = world.static_group("a", "b", member_id_required=True)

    world.restart()

    assert world.heartbeat(leader, 1, instance="a") is ErrorCode.NONE
    assert world.joined(world.join(instance="b")).generation_id == 1
    assert world.heartbeat(follower, 1, instance="b") is ErrorCode.FENCED_INSTANCE_ID


# ---- restart ----------------------------------------------------------------------------------------------


def test_a_stable_group_survives_a_restart() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)

    world.restart()

    assert world.heartbeat(leader, 1) is ErrorCode.NONE
    assert world.synced(world.sync(follower, 1)).assignment == follower.encode()


def test_loaded_members_have_their_session_timeout_to_send_a_heartbeat() -> None:
    world = GroupWorld()
    world.stable_group(2, session_ms=10_000)
    world.restart()

    world.advance(9_999)
    assert world.state() is GroupState.STABLE
    world.advance(60_001)

    assert world.state() is GroupState.EMPTY


def test_waiting_requests_are_answered_when_the_shard_stops() -> None:
    world = GroupWorld()
    leader, _ = world.stable_group(2)
    token = world.join(leader)

    world.restart()

    answer = world.answers[token]
    assert isinstance(answer, Refuse) and answer.error is ErrorCode.NOT_COORDINATOR
    assert world.waiting() == set()


def test_commands_of_clients_do_not_create_unknown_groups() -> None:
    world = GroupWorld()

    world.handle(Heartbeat(token=world.token(), group_id="x", generation_id=1, member_id="m"))
    world.handle(
        JoinGroup(
            token=world.token(),
            group_id="x",
            member_id="m",
            protocol_type="consumer",
            protocols=[Protocol("range", b"")],
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
        )
    )

    assert world.coordinator.shard.groups == {}


def test_a_record_that_contradicts_itself_is_loaded_as_far_as_it_makes_sense() -> None:
    world = GroupWorld()
    members = [
        MemberMetadata(member_id=member_id, group_instance_id=instance, session_timeout=10_000)
        for member_id, instance in [("a", "i"), ("b", "i"), ("b", None), ("c", None)]
    ]
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", leader="ghost", members=members)
    world.log.append(GroupMetadataRecord("g", value))

    world.restart()

    group = world.coordinator.shard.groups["g"]
    assert set(group.members) == {"b", "c"}
    assert group.leader_id in group.members


def test_members_without_a_protocol_type_are_loaded_from_several_records() -> None:
    """No client can write such records, but any program may have written the log; the node must not fail."""
    group = ClassicGroup("g")
    a, b = (
        MemberMetadata(member_id=member_id, session_timeout=10_000, rebalance_timeout=10_000)
        for member_id in "ab"
    )

    for members in ([a], [a, b]):
        load_classic_group(group, GroupMetadataValue(protocol="range", members=members))

    assert set(group.members) == {"a", "b"}
