"""The timeline of a group: each cause of a rebalance, the entries that are kept, and their bounds."""

from pathlib import Path

from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import MemberIdentity
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.timeline import MAX_CHARS, MAX_EVENTS, MAX_REBALANCES, Cause, Event, Rebalance, Timeline
from tests.unit.groupcoord.group_world import START_MS, GroupWorld

NO_DELAY = CoordinatorConfig(group_initial_rebalance_delay_ms=0)
READS_A = b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff"
READS_B = b"\0\0\0\0\0\1\0\1b\xff\xff\xff\xff"


def rebalances(world: GroupWorld) -> tuple[Rebalance, ...]:
    group = world.coordinator.shard.classic_group("g")
    assert group is not None
    return group.timeline.last()


def causes(world: GroupWorld) -> list[Cause]:
    """Return the causes of the last rebalance."""
    return [event.cause for event in rebalances(world)[-1].events]


def members_of_events(world: GroupWorld) -> list[str]:
    return [event.member_id for event in rebalances(world)[-1].events]


def settle(world: GroupWorld, *member_ids: str, **fields: object) -> None:
    """Let these members join again and sync, the leader first."""
    tokens = [world.join(member_id, **fields) for member_id in member_ids]  # type: ignore[arg-type]
    joined = [world.joined(token) for token in tokens]
    for each in sorted(joined, key=lambda each: each.member_id == each.leader):
        assigned = [(member.member_id, b"a") for member in each.members]
        world.sync(each.member_id, each.generation_id, assigned)
    assert world.state() is GroupState.STABLE


# ---- causes ----------------------------------------------------------------------------------------------


def test_the_timeline_names_members_that_join_a_new_group() -> None:
    world = GroupWorld(NO_DELAY)

    world.join(client_id="app", reason="hello")
    world.advance(0)
    (running,) = rebalances(world)

    assert running.events == (Event(Cause.MEMBER_JOINED, START_MS, "app-u1", "app", "hello"),)
    assert (running.generation_before, running.generation_after, running.ended_ms) == (0, None, None)


def test_a_rebalance_ends_with_the_assignment() -> None:
    world = GroupWorld()
    world.stable_group(2)

    (ended,) = rebalances(world)

    assert [event.cause for event in ended.events] == [Cause.MEMBER_JOINED] * 2
    assert (ended.generation_before, ended.generation_after, ended.members) == (0, 1, 2)
    assert (ended.began_ms, ended.ended_ms) == (START_MS, START_MS + 6_001)


def test_a_member_that_left_says_why() -> None:
    world = GroupWorld()
    _, follower = world.stable_group(2)

    world.leave(MemberIdentity(follower, None, "closed"))

    assert rebalances(world)[-1].events == (Event(Cause.MEMBER_LEFT, world.now_ms, follower, "c", "closed"),)


def test_the_last_member_that_leaves_ends_the_rebalance_at_once() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1)

    world.leave(member)
    ended = rebalances(world)[-1]

    assert world.state() is GroupState.EMPTY
    assert (ended.generation_before, ended.generation_after, ended.members) == (1, 2, 0)
    assert ended.began_ms == ended.ended_ms


def test_a_pending_member_that_leaves_a_stable_group_disturbs_it_as_in_kafka() -> None:
    world = GroupWorld()
    world.stable_group(1)
    pending = world.joined(world.join(member_id_required=True)).member_id

    world.leave(pending)

    assert world.state() is GroupState.PREPARING_REBALANCE
    assert (causes(world), members_of_events(world)) == ([Cause.MEMBER_LEFT], [pending])


def test_a_pending_member_that_leaves_an_empty_group_is_no_rebalance() -> None:
    world = GroupWorld()
    (member,) = world.stable_group(1)
    world.leave(member)
    pending = world.joined(world.join(member_id_required=True)).member_id

    world.leave(pending)

    assert [each.generation_after for each in rebalances(world)] == [1, 2]


def test_the_timeline_names_an_instance_that_an_administrator_removed() -> None:
    world = GroupWorld(NO_DELAY)
    member = world.join(instance="one")
    world.advance(0)
    settle_alone(world, member)

    world.leave(MemberIdentity("", "one"))

    assert causes(world) == [Cause.MEMBER_REMOVED]


def settle_alone(world: GroupWorld, join: int) -> str:
    joined = world.joined(join)
    world.sync(joined.member_id, joined.generation_id, [(joined.member_id, b"a")])
    return joined.member_id


def test_the_timeline_names_a_member_that_became_silent() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2, session_ms=10_000)
    world.advance(6_000)
    world.heartbeat(leader, 1)

    world.advance(4_000)

    assert (causes(world), members_of_events(world)) == ([Cause.SESSION_EXPIRED], [follower])


def test_the_timeline_names_a_member_that_did_not_join_again_in_time() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2, session_ms=60_000, rebalance_ms=20_000)

    world.join(leader, session_ms=60_000, rebalance_ms=20_000)
    world.advance(20_000)

    assert (causes(world), members_of_events(world)) == (
        [Cause.LEADER_REJOINED, Cause.REBALANCE_TIMED_OUT],
        [leader, follower],
    )


def test_the_timeline_names_a_member_that_did_not_ask_for_its_assignment_in_time() -> None:
    world = GroupWorld(NO_DELAY)
    joins = [world.join(session_ms=60_000, rebalance_ms=20_000) for _ in range(2)]
    world.advance(0)
    leader, follower = (world.joined(each).member_id for each in joins)
    world.sync(leader, 1, [(leader, b"a")])
    assert world.state() is GroupState.STABLE

    world.advance(20_000)

    assert (causes(world), members_of_events(world)) == ([Cause.SYNC_TIMED_OUT], [follower])


def test_the_timeline_names_a_member_that_reads_other_topics() -> None:
    world = GroupWorld()
    for_a, for_b = [("range", READS_A)], [("range", READS_B)]
    leader, follower = world.stable_group(2, protocols=for_a)

    world.join(follower, protocols=for_b)

    assert (causes(world), members_of_events(world)) == ([Cause.SUBSCRIPTION_CHANGED], [follower])
    settle(world, leader, protocols=for_b)
    world.join(leader, protocols=for_a)
    assert (causes(world), members_of_events(world)) == ([Cause.SUBSCRIPTION_CHANGED], [leader])


def test_the_timeline_names_a_member_with_other_metadata_and_the_same_topics() -> None:
    world = GroupWorld()
    _, follower = world.stable_group(2, protocols=[("range", READS_A)])

    world.join(follower, protocols=[("range", READS_A + b"owned")])

    assert (causes(world), members_of_events(world)) == ([Cause.METADATA_CHANGED], [follower])


def test_metadata_of_other_protocol_types_is_not_read_for_topics() -> None:
    world = GroupWorld()
    _, follower = world.stable_group(2, protocols=[("v1", READS_A)], protocol_type="connect")

    world.join(follower, protocols=[("v1", READS_B)], protocol_type="connect")

    assert causes(world) == [Cause.METADATA_CHANGED]


def test_the_timeline_names_a_leader_that_joined_again() -> None:
    world = GroupWorld()
    leader, _ = world.stable_group(2)

    world.join(leader, reason="more partitions")

    assert [(each.cause, each.reason) for each in rebalances(world)[-1].events] == [
        (Cause.LEADER_REJOINED, "more partitions")
    ]


def test_the_timeline_names_a_static_member_that_came_back_with_another_protocol() -> None:
    world = GroupWorld(NO_DELAY)
    settle_alone(world, join_static(world))

    join_static(world, protocols=[("sticky", b""), ("range", b"")])

    assert causes(world) == [Cause.STATIC_REPLACED]


def test_a_static_member_that_takes_its_place_is_no_rebalance() -> None:
    world = GroupWorld(NO_DELAY)
    settle_alone(world, join_static(world))

    join_static(world)

    assert world.state() is GroupState.STABLE
    assert len(rebalances(world)) == 1


def join_static(world: GroupWorld, **fields: object) -> int:
    token = world.join(instance="one", **fields)  # type: ignore[arg-type]
    world.advance(0)
    return token


def test_the_timeline_names_a_group_that_was_loaded_above_the_limit() -> None:
    world = GroupWorld()
    world.stable_group(2)

    world.coordinator.shard.config = world.config = CoordinatorConfig(group_max_size=1)
    world.restart()

    assert causes(world) == [Cause.GROUP_TOO_LARGE]


def test_the_timeline_names_a_member_beyond_a_lowered_limit() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)
    world.config = CoordinatorConfig(group_max_size=1)
    world.restart()

    world.join(leader)
    world.join(follower)

    assert (causes(world), members_of_events(world)) == ([Cause.GROUP_TOO_LARGE] * 2, ["", follower])


def test_the_timeline_names_an_assignment_that_the_log_would_not_take() -> None:
    world = GroupWorld(CoordinatorConfig(max_batch_bytes=10_000))
    (leader,) = world.stable_group(1)
    join = world.join(leader)

    world.sync(leader, world.joined(join).generation_id, [(leader, bytes(10_000))])

    assert causes(world) == [Cause.LEADER_REJOINED, Cause.ASSIGNMENT_TOO_LARGE]


def test_every_cause_is_tested() -> None:
    files = ("test_timeline.py", "consumer/test_consumer_timeline.py", "consumer/test_migration.py")
    tests = "".join((Path(__file__).parent / name).read_text() for name in files)
    assert [cause for cause in Cause if f"Cause.{cause.name}" not in tests] == []


# ---- entries and bounds ----------------------------------------------------------------------------------


def test_events_during_a_rebalance_belong_to_it() -> None:
    world = GroupWorld()
    leader, follower = world.stable_group(2)

    new = world.join()
    world.leave(follower)
    world.join(leader)
    world.sync(world.joined(new).member_id, 2)
    world.sync(leader, 2)

    assert causes(world) == [Cause.MEMBER_JOINED, Cause.MEMBER_LEFT]
    assert [each.generation_after for each in rebalances(world)] == [1, 2]


def test_the_first_events_are_kept_and_the_others_counted() -> None:
    timeline = Timeline()

    for number in range(MAX_EVENTS + 3):
        timeline.note(Event(Cause.MEMBER_JOINED, number), generation_id=4)
    timeline.end(100, generation_id=5, members=11)
    (ended,) = timeline.last()

    assert [event.at_ms for event in ended.events] == list(range(MAX_EVENTS))
    assert ended.events_left_out == 3


def test_only_the_last_rebalances_are_kept_and_the_running_one_stands_last() -> None:
    timeline = Timeline()

    for number in range(MAX_REBALANCES + 2):
        timeline.note(Event(Cause.MEMBER_LEFT, number), generation_id=number)
        timeline.end(number, number + 1, members=1)
    timeline.note(Event(Cause.MEMBER_JOINED, 99), generation_id=99)

    assert [each.generation_before for each in timeline.last()] == [*range(2, MAX_REBALANCES + 2), 99]
    assert timeline.last()[-1].ended_ms is None


def test_texts_of_clients_are_cut() -> None:
    timeline = Timeline()

    timeline.note(Event(Cause.MEMBER_LEFT, 0, "m", "c" * 30_000, "r" * 30_000), generation_id=1)
    (event,) = timeline.last()[0].events

    assert (len(event.client_id), len(event.reason)) == (MAX_CHARS, MAX_CHARS)


def test_an_end_without_a_beginning_is_ignored() -> None:
    timeline = Timeline()

    timeline.end(0, 1, 1)

    assert timeline.last() == ()


def test_another_coordinator_begins_with_an_empty_timeline() -> None:
    world = GroupWorld()
    world.stable_group(2)

    world.restart()

    assert rebalances(world) == ()
