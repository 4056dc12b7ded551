"""ConsumerGroupHeartbeat: its checks, its effects on the group, its records and its answers."""

from collections.abc import Mapping

import pytest

from ottla.groupcoord.admin_commands import DescribeConsumerGroups
from ottla.groupcoord.classic.member_commands import MemberIdentity
from ottla.groupcoord.consumer import regular_expressions
from ottla.groupcoord.consumer.consumer_commands import RegexesResolved
from ottla.groupcoord.consumer.consumer_group_state import ConsumerGroupState
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupMetadataRecord,
)
from ottla.groupcoord.consumer.consumer_results import (
    ConsumerGroupHeartbeatResult,
    DescribeConsumerGroupsResult,
)
from ottla.groupcoord.consumer.executor_tasks import ResolveRegexes
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.consumer.regular_expressions import is_wanted
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse, TimerKey
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetToCommit
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.consumer.consumer_world import REBALANCE_MS, Client, ConsumerWorld, settle
from tests.unit.groupcoord.topic_ids import partitions_in, topic_id, topic_name

JOIN: Mapping[str, object] = {"names": ["a"], "owned": {}, "rebalance_ms": REBALANCE_MS}


# ---- the request -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "message"),
    [
        ("m", 0, {**JOIN, "group_id": ""}, "GroupId can't be empty."),
        ("m", 0, {**JOIN, "group_id": " \t"}, "GroupId can't be empty."),
        ("m", 0, {**JOIN, "instance": ""}, "InstanceId can't be empty."),
        ("m", 0, {**JOIN, "rack": ""}, "RackId can't be empty."),
        ("", 0, JOIN, "MemberId can't be empty."),
        ("", 1, {"member_id_required": False}, "MemberId can't be empty."),
        ("", -1, {"member_id_required": False}, "MemberId can't be empty."),
        ("m", 0, {**JOIN, "rebalance_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ("m", 0, {**JOIN, "owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ("m", 0, {**JOIN, "owned": {"a": [0]}}, "TopicPartitions must be empty when (re-)joining."),
        (
            "m",
            0,
            {**JOIN, "names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ("m", -2, {}, "InstanceId can't be null."),
        ("m", -3, {}, "MemberEpoch is invalid."),
    ],
)
def test_requests_that_no_group_could_take_are_rejected(
    member_id: str, epoch: int, fields: dict[str, object], message: str
) -> None:
    answer = ConsumerWorld().heartbeat(member_id, epoch, **fields)  # type: ignore[arg-type]

    assert isinstance(answer, Refuse)
    assert (answer.error, answer.detail) == (ErrorCode.INVALID_REQUEST, message)


def test_an_unknown_assignor_is_rejected() -> None:
    answer = ConsumerWorld().heartbeat("m", 0, **JOIN, assignor="mine")  # type: ignore[arg-type]

    assert isinstance(answer, Refuse)
    assert answer.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.detail == "ServerAssignor mine is not supported. Supported assignors: uniform, range."


def test_a_malformed_expression_leaves_nothing_behind() -> None:
    world = ConsumerWorld()

    error = world.refused("m", 0, **{**JOIN, "names": None}, regex="a{1001}")

    assert error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not world.groups.log and not world.groups.coordinator.shard.groups


def test_before_version_1_the_coordinator_gives_the_id() -> None:
    answer = ConsumerWorld().join("", "a", member_id_required=False)

    assert answer.member_id == "u1"


def test_only_a_member_that_joins_creates_a_group() -> None:
    world = ConsumerWorld()

    assert world.refused("m", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.refused("m", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert not world.groups.coordinator.shard.groups


def test_a_full_group_takes_no_new_members() -> None:
    world = ConsumerWorld(CoordinatorConfig(group_consumer_max_size=1))
    world.join("m1", "a")

    assert world.refused("m2", 0, **JOIN) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("m1", "a").member_epoch == 2


# ---- epochs ------------------------------------------------------------------------------------------------


def test_a_member_that_joins_gets_its_target_at_once() -> None:
    world = ConsumerWorld()

    answer = world.join("m1", "a")

    assert answer == ConsumerGroupHeartbeatResult(
        member_id="m1", member_epoch=2, heartbeat_interval_ms=5_000, assignment=answer.assignment
    )
    assert partitions_in(answer) == {"a": [0, 1, 2, 3]}
    assert world.written(0) == "5 3 7 6 8"
    assert world.group().state is ConsumerGroupState.STABLE


def test_a_group_without_topics_to_read_is_made_all_the_same() -> None:
    world = ConsumerWorld()

    assert partitions_in(world.join("m1", "nothing")) == {}
    assert world.written(0) == "5 3 7 6 8"
    assert world.group().group_epoch == 2


def test_a_member_that_joins_again_with_epoch_0_keeps_its_partitions() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    since = len(world.groups.log)

    answer = world.join("m1", "a")

    assert (answer.member_epoch, partitions_in(answer)) == (2, {"a": [0, 1, 2, 3]})
    assert world.written(since) == ""


def test_another_epoch_than_the_present_or_previous_one_is_fenced() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    world.join("m2", "a")
    world.stay("m1", 2, owned={"a": [0, 1, 2, 3]})
    assert world.stay("m1", 2, owned={"a": [0, 1]}).member_epoch == 3  # m2 waited for 2 and 3

    assert world.refused("m1", 4) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.stay("m1", 2, owned={"a": [0]}).member_epoch == 3
    assert world.refused("m1", 2) is ErrorCode.FENCED_MEMBER_EPOCH  # it does not report its partitions
    assert world.refused("m1", 2, owned={"a": [0, 3]}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.refused("m1", 2, owned={"b": [0]}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.refused("who", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_message_for_a_fenced_epoch_is_kafkas() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")

    answer = world.heartbeat("m1", 7)

    assert isinstance(answer, Refuse)
    assert answer.detail == (
        "The consumer group member has a greater member epoch (7) than the one known by the group "
        "coordinator (2). The member must abandon all its partitions and rejoin."
    )


# ---- what a heartbeat changes ------------------------------------------------------------------------------


def test_a_heartbeat_with_nothing_new_writes_nothing_and_returns_no_partitions() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    since = len(world.groups.log)

    answer = world.stay("m1", 2)

    assert answer.assignment is None and answer.member_epoch == 2
    assert world.written(since) == ""


def test_a_full_request_gets_all_partitions() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")

    full = world.stay("m1", 2, names=["a"], owned={"a": [0]}, rebalance_ms=REBALANCE_MS)

    assert partitions_in(full) == {"a": [0, 1, 2, 3]}
    assert world.stay("m1", 2, names=["a"], rebalance_ms=REBALANCE_MS).assignment is None
    assert world.stay("m1", 2, owned={"a": [0]}, rebalance_ms=REBALANCE_MS).assignment is None


def test_another_rack_or_client_is_written_without_a_new_epoch() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    since = len(world.groups.log)

    assert world.stay("m1", 2, rack="r2", client_id="c2").member_epoch == 2

    assert world.written(since) == "5"
    assert world.group().group_epoch == 2


def test_other_topics_are_a_new_epoch_and_the_old_ones_have_to_be_given_up() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    since = len(world.groups.log)

    answer = world.stay("m1", 2, names=["b"])

    assert (answer.member_epoch, partitions_in(answer)) == (2, {})
    assert world.written(since) == "5 3 7 6 8"
    assert world.group().members["m1"].state is MemberState.UNREVOKED_PARTITIONS
    assert world.group().state is ConsumerGroupState.RECONCILING
    since = len(world.groups.log)
    done = world.stay("m1", 2, owned={})
    assert (done.member_epoch, partitions_in(done)) == (3, {"b": [0, 1]})
    assert world.written(since) == "8"


def test_a_second_member_waits_for_the_first_to_give_up_its_half() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    since = len(world.groups.log)

    second = world.join("m2", "a")

    assert (second.member_epoch, partitions_in(second)) == (3, {})
    assert world.written(since) == "5 3 7 7 6 8"
    assert world.group().members["m2"].state is MemberState.UNRELEASED_PARTITIONS
    revoke = world.stay("m1", 2)
    assert (revoke.member_epoch, partitions_in(revoke)) == (2, {"a": [0, 1]})
    assert world.stay("m2", 3).assignment is None
    assert world.stay("m1", 2, owned={"a": [0, 1, 2, 3]}).member_epoch == 2  # not yet
    freed = world.stay("m1", 2, owned={"a": [0, 1]})
    assert (freed.member_epoch, freed.assignment) == (3, None)
    given = world.stay("m2", 3, owned={})
    assert (given.member_epoch, partitions_in(given)) == (3, {"a": [2, 3]})
    assert world.group().state is ConsumerGroupState.STABLE


def test_partitions_that_a_member_has_to_give_up_are_described_as_its_own_until_it_did() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    world.join("m2", "a")
    world.stay("m1", 2)

    answer = world.groups.ask(DescribeConsumerGroups(token=world.groups.token(), group_ids=["g"]))

    assert isinstance(answer, DescribeConsumerGroupsResult)
    first = next(one for one in answer.groups[0].members if one.member.member_id == "m1")
    assert [list(topic.partitions) for topic in first.assigned] == [[0, 1, 2, 3]]
    assert [list(topic.partitions) for topic in first.target] == [[0, 1]]


def test_partitions_that_stay_keep_the_epoch_in_which_they_came() -> None:
    world = ConsumerWorld()
    first, second = Client(world, "m1", "a"), Client(world, "m2", "a")
    first.join()
    second.join()
    settle([first, second])

    assert world.group().members["m1"].assigned == {topic_id("a"): {0: 2, 1: 2}}
    assert world.group().members["m2"].assigned == {topic_id("a"): {2: 3, 3: 3}}


# ---- the assignment interval (KIP-1263) --------------------------------------------------------------------


def test_a_second_change_within_the_interval_waits_for_its_target() -> None:
    world = ConsumerWorld(CoordinatorConfig())
    world.join("m1", "a")
    since = len(world.groups.log)

    second = world.join("m2", "a")

    assert (second.member_epoch, partitions_in(second)) == (2, {})
    assert world.written(since) == "5 3 8"
    assert (world.group().group_epoch, world.group().assignment_epoch) == (3, 2)
    assert world.group().state is ConsumerGroupState.ASSIGNING
    since = len(world.groups.log)
    world.groups.advance(1_000)
    assert world.written(since) == "7 7 6"
    assert partitions_in(world.stay("m1", 2)) == {"a": [0, 1]}


def test_a_clock_that_was_set_back_puts_no_target_off() -> None:
    world = ConsumerWorld(CoordinatorConfig(), {"a": 4, "ab": 1})
    world.groups.now_ms += 3_600_000
    world.join("m1", "a")
    world.join("m2", regex="ab")
    world.groups.now_ms -= 3_600_000

    world.join("m3", "a")
    assert world.group().assignment_epoch == world.group().group_epoch
    world.join("m4", regex="a.*")
    assert "a.*" in world.group().regexes


def test_a_target_that_was_put_off_is_for_the_topics_of_its_epoch() -> None:
    """A topic that goes and comes back is noticed, as at a new coordinator whose metadata is older."""
    world = ConsumerWorld(CoordinatorConfig())
    world.join("m1", "a", "b")
    world.join("m2", "a", "b")
    since = len(world.groups.log)

    world.set_topics({"a": 4})
    world.groups.advance(1_000)
    assert world.written(since) == "3 7 7 6"
    world.set_topics({"a": 4, "b": 2})
    world.stay("m1", 2)
    world.groups.advance(1_000)

    targets = world.group().targets.values()
    assert {number for target in targets for number in target.get(topic_id("b"), ())} == {0, 1}


def test_a_heartbeat_after_the_interval_makes_the_target_if_the_timer_did_not() -> None:
    world = ConsumerWorld(CoordinatorConfig())
    world.join("m1", "a")
    world.join("m2", "a")
    del world.groups.timers[TimerKey("assign", "g")]
    world.groups.now_ms += 1_000

    assert partitions_in(world.stay("m1", 2)) == {"a": [0, 1]}
    assert world.group().assignment_epoch == 3


# ---- timers ------------------------------------------------------------------------------------------------


def test_a_silent_member_is_removed_after_its_session() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    world.join("m2", "a")
    world.groups.advance(44_000)
    world.stay("m1", 2)
    since = len(world.groups.log)

    world.groups.advance(1_000)

    assert world.written(since) == "8t 7t 5t 3"
    assert world.refused("m2", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group().group_epoch == 4
    assert partitions_in(world.stay("m1", 2, owned={"a": [0, 1]})) is not None


def test_a_member_that_does_not_give_up_partitions_in_time_is_removed() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    world.join("m2", "a")
    world.stay("m1", 2)
    for _ in range(6):
        world.groups.advance(9_000)
        assert world.stay("m1", 2, owned={"a": [0, 1, 2, 3]}).member_epoch == 2
        world.stay("m2", 3)

    world.groups.advance(6_000)

    assert world.refused("m1", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert partitions_in(world.stay("m2", 3)) == {"a": [0, 1, 2, 3]}


def test_the_time_to_give_up_ends_when_it_is_done() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    world.join("m2", "a")
    world.stay("m1", 2)
    assert TimerKey("rebalance", "g", "m1") in world.groups.timers

    world.stay("m1", 2, owned={"a": [0, 1]})

    assert TimerKey("rebalance", "g", "m1") not in world.groups.timers


def test_a_new_coordinator_has_the_whole_state_and_gives_every_member_time() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    world.join("m2", "a")
    world.stay("m1", 2)
    before = world.group()

    world.restart()

    after = world.group()
    assert (after.members, after.targets) == (before.members, before.targets)
    assert (after.group_epoch, after.assignment_epoch, after.metadata_hash) == (3, 3, before.metadata_hash)
    assert world.groups.timers.keys() >= {
        TimerKey("session", "g", "m1"),
        TimerKey("session", "g", "m2"),
        TimerKey("rebalance", "g", "m1"),
    }
    assert world.stay("m1", 2, owned={"a": [0, 1]}).member_epoch == 3
    world.groups.advance(45_000)
    assert world.group().is_empty


def test_a_new_coordinator_makes_the_target_that_was_put_off() -> None:
    world = ConsumerWorld(CoordinatorConfig())
    world.join("m1", "a")
    world.join("m2", "a")
    world.restart()

    world.groups.advance(1_000)

    assert world.group().assignment_epoch == 3


# ---- static members ----------------------------------------------------------------------------------------


def test_a_static_member_keeps_its_partitions_while_it_is_away() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    since = len(world.groups.log)

    left = world.stay("m1", -2, instance="i1")

    assert left == ConsumerGroupHeartbeatResult(member_id="m1", member_epoch=-2)
    assert world.written(since) == "8"
    away = world.group().members["m1"]
    assert (away.member_epoch, away.assigned) == (-2, {topic_id("a"): dict.fromkeys(range(4), 0)})
    since = len(world.groups.log)
    back = world.join("m2", "a", instance="i1")
    assert (back.member_epoch, partitions_in(back)) == (2, {"a": [0, 1, 2, 3]})
    assert world.written(since) == "8t 7t 5t 5 7 8 8"
    assert world.group().members.keys() == {"m2"}
    assert world.group().group_epoch == 2


def test_partitions_that_a_static_member_was_giving_up_are_free_when_it_goes_away() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    world.join("m2", "a")
    world.stay("m1", 2, instance="i1")
    assert world.stay("m2", 3).assignment is None

    world.stay("m1", -2, instance="i1")

    assert partitions_in(world.stay("m2", 3)) == {"a": [2, 3]}


def test_a_static_member_that_comes_back_with_other_topics_starts_a_new_epoch() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    world.stay("m1", -2, instance="i1")
    since = len(world.groups.log)

    back = world.join("m2", "b", instance="i1")

    assert world.written(since) == "8t 7t 5t 5 7 8 5 3 7 6 8"
    assert (back.member_epoch, partitions_in(back)) == (3, {"b": [0, 1]})


def test_an_instance_that_is_present_cannot_be_taken_over() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")

    for member_id in ("m1", "m2"):
        assert world.refused(member_id, 0, **JOIN, instance="i1") is ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.refused("m2", 2, instance="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert world.refused("m2", -2, instance="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert world.refused("m1", 2, instance="i2") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.refused("m1", -1, instance="i2") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_removed_after_its_session() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    world.stay("m1", -2, instance="i1")

    world.groups.advance(45_000)

    assert world.group().is_empty and not world.group().static_members


def test_a_static_member_can_leave_for_good() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    since = len(world.groups.log)

    assert world.stay("m1", -1, instance="i1").member_epoch == -1

    assert world.written(since) == "8t 7t 5t 3"
    assert world.group().is_empty and not world.group().static_members


def test_partitions_of_a_static_member_that_is_away_have_no_other_owner() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    world.stay("m1", -2, instance="i1")

    assert partitions_in(world.join("m2", "a")) == {}
    assert world.group().members["m2"].state is MemberState.UNRELEASED_PARTITIONS


# ---- leaving -----------------------------------------------------------------------------------------------


def test_a_member_that_leaves_is_removed_and_the_others_get_its_partitions() -> None:
    world = ConsumerWorld()
    first, second = Client(world, "m1", "a"), Client(world, "m2", "a")
    first.join()
    second.join()
    settle([first, second])
    since = len(world.groups.log)

    left = world.stay("m2", -1)

    assert left == ConsumerGroupHeartbeatResult(member_id="m2", member_epoch=-1)
    assert world.written(since) == "8t 7t 5t 3"
    assert TimerKey("session", "g", "m2") not in world.groups.timers
    first.heartbeat()
    assert first.owned == {"a": [0, 1, 2, 3]}


def test_the_last_member_that_leaves_leaves_an_empty_group() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    since = len(world.groups.log)

    world.stay("m1", -1)

    assert world.written(since) == "8t 7t 5t 3"
    group = world.group()
    assert (group.state, group.group_epoch, group.assignment_epoch) == (ConsumerGroupState.EMPTY, 3, 2)
    assert group.metadata_hash == 0
    assert world.join("m1", "a").member_epoch == 4


def test_a_client_that_is_no_member_cannot_leave() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")

    assert world.refused("m2", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.refused("m2", -1, group_id="h") is ErrorCode.GROUP_ID_NOT_FOUND


# ---- topics ------------------------------------------------------------------------------------------------


def test_a_topic_that_is_made_later_is_shared_out_at_the_next_heartbeat() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", "later")
    world.stay("m1", 2)

    world.set_topics({"a": 4, "b": 2, "later": 1})

    assert partitions_in(world.stay("m1", 2)) == {"a": [0, 1, 2, 3], "later": [0]}


def test_more_partitions_are_shared_out_and_a_topic_that_is_gone_is_given_up() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", "b")
    world.stay("m1", 2)
    world.set_topics({"a": 5})

    answer = world.stay("m1", 2, owned={"a": [0, 1, 2, 3], "b": [0, 1]})

    assert (answer.member_epoch, partitions_in(answer)) == (2, {"a": [0, 1, 2, 3]})
    done = world.stay("m1", 2, owned={"a": [0, 1, 2, 3]})
    assert (done.member_epoch, partitions_in(done)) == (3, {"a": [0, 1, 2, 3, 4]})


def test_topics_that_no_member_reads_change_nothing() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    world.stay("m1", 2)
    since = len(world.groups.log)

    world.set_topics({"a": 4, "b": 9, "c": 1})
    world.stay("m1", 2)

    assert world.written(since) == ""


# ---- expressions -------------------------------------------------------------------------------------------


def test_a_new_expression_is_matched_in_a_thread_and_shared_out_at_the_next_heartbeat() -> None:
    world = ConsumerWorld(topics={"a": 1, "ab": 1, "b": 1})
    world.holds_tasks = True

    first = world.join("m1", regex="a.*")

    assert (first.member_epoch, partitions_in(first)) == (1, {})
    assert world.written(0) == "5 8"
    since = len(world.groups.log)
    world.release_tasks()
    assert world.written(since) == "16 3"
    answer = world.stay("m1", 1)
    assert (answer.member_epoch, partitions_in(answer)) == (2, {"a": [0], "ab": [0]})


def test_the_same_expression_of_a_second_member_is_not_matched_again() -> None:
    world = ConsumerWorld()
    world.join("m1", regex="a")
    world.holds_tasks = True
    world.groups.now_ms += 60_000

    second = world.join("m2", regex="a")

    assert not world.held
    assert world.group().group_epoch == second.member_epoch == 3


def test_an_expression_is_removed_with_its_last_subscriber() -> None:
    world = ConsumerWorld()
    world.join("m1", regex="a")
    world.stay("m1", 1)
    since = len(world.groups.log)

    world.stay("m1", 2, regex="", names=["b"], owned={})

    assert world.written(since) == "5 16t 3 7 6 8"
    assert not world.group().regexes and not world.group().is_subscribed_to("a")


def test_an_expression_is_removed_with_the_member_that_leaves() -> None:
    world = ConsumerWorld()
    world.join("m1", regex="a")
    since = len(world.groups.log)

    world.stay("m1", -1)

    assert world.written(since) == "8t 7t 5t 16t 3"


def test_new_topics_are_matched_at_the_next_heartbeat_but_not_twice_in_ten_seconds() -> None:
    world = ConsumerWorld(topics={"a1": 1})
    world.join("m1", regex="a.*")
    assert partitions_in(world.stay("m1", 1)) == {"a1": [0]}
    world.set_topics({"a1": 1, "a2": 1})

    world.stay("m1", 2)
    assert world.stay("m1", 2).assignment is None
    world.groups.now_ms += 10_001
    world.stay("m1", 2)

    assert partitions_in(world.stay("m1", 2)) == {"a1": [0], "a2": [0]}


def test_expressions_are_matched_again_when_they_are_old() -> None:
    world = ConsumerWorld()
    world.join("m1", regex="a")
    world.groups.now_ms += 600_000
    world.holds_tasks = True
    world.stay("m1", 1)
    assert not world.held
    world.groups.now_ms += 1

    world.stay("m1", 2)

    assert [effect.task.regexes for effect in world.held] == [("a",)]


def test_only_new_topics_are_matched_if_the_changes_since_then_are_known() -> None:
    world = ConsumerWorld(topics={"a1": 1})
    world.groups.coordinator.shard.recent_topics.restart(world.groups.coordinator.shard.topics.version)
    world.join("m1", regex="a.*")
    world.groups.now_ms += 60_000
    world.holds_tasks = True
    world.set_topics({"a1": 1, "a2": 1})

    world.stay("m1", 1)

    (held,) = world.held
    assert isinstance(held.task, ResolveRegexes)
    assert held.task.known == {"a.*": {"a1"}} and held.task.changed_since == {"a.*": {"a2"}}
    world.release_tasks()
    assert world.group().regexes["a.*"].topics == {"a1", "a2"}


def test_a_new_topic_that_no_expression_matches_computes_no_new_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ConsumerWorld(topics={"a1": 1})
    world.join("m1", regex="a.*")
    world.stay("m1", 1)
    world.groups.now_ms += 60_000
    epoch = world.group().group_epoch
    world.set_topics({"a1": 1, "b1": 1})

    with monkeypatch.context() as patched:
        patched.delattr(regular_expressions, "group_hash")
        world.stay("m1", world.group().members["m1"].member_epoch)

    assert world.group().regexes["a.*"].version == world.groups.coordinator.shard.topics.version
    assert world.group().group_epoch == epoch


def test_an_expression_that_was_given_up_is_tried_again_when_it_is_due() -> None:
    world = ConsumerWorld()
    world.holds_tasks = True
    world.join("m1", regex="a")
    world.join("m2", regex="b")
    task = world.held.pop().task
    assert isinstance(task, ResolveRegexes)
    began_ms = task.began_ms
    world.groups.handle(
        RegexesResolved(
            group_id="g", topics={}, version=1, began_ms=began_ms, given_up=frozenset({"a"}), cpu_ms=1_000
        )
    )

    world.groups.now_ms = began_ms + 20_000  # 5 % of a processor, after one second of CPU time
    world.stay("m2", 1)
    assert not world.held
    world.groups.now_ms += 1
    world.stay("m2", 1)
    assert [effect.task.regexes for effect in world.held] == [("b",)]
    world.release_tasks()
    world.holds_tasks = True
    world.groups.now_ms = began_ms + 600_000
    world.stay("m1", 1)
    assert not world.held
    world.groups.now_ms += 1
    world.stay("m1", world.group().members["m1"].member_epoch)
    assert [effect.task.regexes for effect in world.held] == [("a", "b")]


def test_expressions_match_the_topics_that_their_member_may_see() -> None:
    world = ConsumerWorld()
    world.set_topics({"a1": 1, "a2": 1})
    world.join("m1", regex="a.*", may_describe=lambda name: name == "a1")
    assert world.group().regexes["a.*"].topics == {"a1"}

    world.set_topics({"a1": 1, "a2": 1, "a3": 1})
    world.groups.now_ms += 20_000
    world.stay("m1", world.group().members["m1"].member_epoch, may_describe=lambda name: name != "a1")

    assert world.group().regexes["a.*"].topics == {"a2", "a3"}


def test_an_expression_without_subscribers_gets_no_further_slice() -> None:
    world = ConsumerWorld()
    world.holds_tasks = True
    world.join("m1", regex="a")
    task = world.held[0].task
    assert isinstance(task, ResolveRegexes)
    assert is_wanted(world.groups.coordinator.shard, task)

    world.stay("m1", 1, regex="b")
    assert not is_wanted(world.groups.coordinator.shard, task)
    world.stay("m1", 1, regex="a")
    assert is_wanted(world.groups.coordinator.shard, task)
    world.stay("m1", -1)
    assert not is_wanted(world.groups.coordinator.shard, task)


def test_matches_of_an_expression_without_subscribers_are_dropped() -> None:
    world = ConsumerWorld()
    world.holds_tasks = True
    world.join("m1", regex="a")
    world.stay("m1", 1, regex="", names=["b"])
    since = len(world.groups.log)

    world.release_tasks()

    assert world.written(since) == ""


def test_names_and_expression_are_both_read() -> None:
    world = ConsumerWorld()
    world.join("m1", "b", regex="a")

    assert partitions_in(world.stay("m1", 2)) == {"a": [0, 1, 2, 3], "b": [0, 1]}


# ---- assignors ---------------------------------------------------------------------------------------------


def test_the_assignor_with_most_votes_is_taken() -> None:
    world = ConsumerWorld(topics={"a": 1, "b": 1})

    def last_gets(*assignors: str | None) -> dict[str, list[int]] | None:
        for number, assignor in enumerate(assignors):
            world.join(f"m{number}", "a", "b", assignor=assignor, group_id=str(assignors))
        return {
            topic_name(topic): sorted(partitions)
            for topic, partitions in world.group(str(assignors)).targets["m1"].items()
        }

    assert last_gets(None, None)  # uniform is the default: one topic each
    assert last_gets("range", None) == {}  # range gives both to the first
    assert last_gets("range", "uniform")  # a tie: the order of the configuration


# ---- the other protocol, administrators --------------------------------------------------------------------


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    world = ConsumerWorld()
    world.groups.handle(commit(world, -1, ""))
    since = len(world.groups.log)

    world.join("m1", "a")

    assert world.written(since) == "2t 5 3 7 6 8"
    assert world.groups.coordinator.shard.offsets.get("g", "a", 0) is not None


def commit(world: ConsumerWorld, epoch: int, member_id: str, partition: int = 0) -> OffsetCommit:
    return OffsetCommit(
        token=world.groups.token(),
        group_id="g",
        generation_id=epoch,
        member_id=member_id,
        offsets=[OffsetToCommit("a", partition, 5)],
    )


def committed(world: ConsumerWorld, epoch: int, member_id: str, partition: int = 0) -> ErrorCode:
    command = commit(world, epoch, member_id, partition)
    world.groups.handle(command)
    answer = world.groups.answers[command.token]
    return answer.error if isinstance(answer, Refuse) else ErrorCode.NONE


def test_members_commit_for_partitions_that_they_have_had_since_the_epoch_they_name() -> None:
    world = ConsumerWorld()
    first, second = Client(world, "m1", "a"), Client(world, "m2", "a")
    first.join()
    second.join()
    settle([first, second])  # m1 has 0 and 1 since epoch 2, m2 2 and 3 since epoch 3

    assert committed(world, 3, "m1") is ErrorCode.NONE
    assert committed(world, 2, "m1", 1) is ErrorCode.NONE
    assert committed(world, 2, "m1", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert committed(world, 2, "m2", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert committed(world, 4, "m1") is ErrorCode.STALE_MEMBER_EPOCH
    assert committed(world, -1, "") is ErrorCode.UNKNOWN_MEMBER_ID
    by_older_version = commit(world, 3, "m1")
    world.groups.handle(
        OffsetCommit(
            token=by_older_version.token,
            group_id="g",
            generation_id=3,
            member_id="m1",
            offsets=(),
            unknown_group_is_illegal_generation=True,
        )
    )
    refused = world.groups.answers[by_older_version.token]
    assert isinstance(refused, Refuse) and refused.error is ErrorCode.UNSUPPORTED_VERSION


def test_a_member_that_takes_the_place_of_an_instance_commits_for_its_partitions() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    world.stay("m1", -2, instance="i1")
    world.join("m2", "a", instance="i1")

    assert committed(world, 0, "m2") is ErrorCode.NONE


def test_the_first_records_have_the_epochs_and_a_hash_of_the_metadata() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")

    record = next(one for one in world.groups.log if isinstance(one, ConsumerGroupMetadataRecord))
    current = next(
        one for one in world.groups.log if isinstance(one, ConsumerGroupCurrentMemberAssignmentRecord)
    )

    assert record.value is not None and record.value.epoch == 2 and record.value.metadata_hash != 0
    assert current.value is not None
    assert (current.value.member_epoch, current.value.previous_member_epoch) == (2, 0)


# ---- records that do not fit into a batch ------------------------------------------------------------------


def small_batches(topics: Mapping[str, int] | None = None) -> ConsumerWorld:
    """Return a world whose log takes batches of 4,000 bytes."""
    config = CoordinatorConfig(group_consumer_assignment_interval_ms=0, max_batch_bytes=4_000)
    return ConsumerWorld(config, topics)


def test_a_subscription_that_no_batch_can_hold_is_rejected_with_the_limit() -> None:
    world = small_batches()
    names = [f"{number}".zfill(100) for number in range(50)]

    answer = world.heartbeat("m", 0, **{**JOIN, "names": names})  # type: ignore[arg-type]

    assert isinstance(answer, Refuse)
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert "subscription" in answer.detail and "at most 4000" in answer.detail
    assert world.groups.log == []


def test_a_group_whose_targets_no_batch_can_hold_has_reached_its_maximum_size() -> None:
    world = small_batches({"a": 10})
    for number in range(5):
        world.join(f"m{number}", "a")
    world.set_topics({"a": 2_000})

    answer = world.heartbeat("n", 0, **JOIN)  # type: ignore[arg-type]

    assert isinstance(answer, Refuse)
    assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "at most 4000" in answer.detail


def test_members_whose_tombstones_no_batch_can_hold_leave_in_several() -> None:
    world = small_batches()
    members = [f"{number}".zfill(100) for number in range(20)]
    for member_id in members:
        world.join(member_id, "a", instance=f"i{member_id}")
    epoch, length = world.group().group_epoch, len(world.groups.log)

    left = world.groups.leave(*(MemberIdentity("", f"i{member_id}") for member_id in members[:-1]))

    assert left == [ErrorCode.NONE] * 19
    assert set(world.group().members) == {members[-1]}
    assert world.written(length).split()[0] == "3", "the new epoch comes first"
    assert world.group().group_epoch == epoch + 1
    world.restart()
    assert set(world.group().members) == {members[-1]}
