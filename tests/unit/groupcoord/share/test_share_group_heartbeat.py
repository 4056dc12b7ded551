"""ShareGroupHeartbeat (KIP-932), with the rules and the error texts of Apache Kafka 4.3.1."""

import pytest

from ottla.groupcoord.consumer.executor_tasks import run_task
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.share.share_world import ShareWorld
from tests.unit.groupcoord.topic_ids import partitions_in


def refusal(world: ShareWorld, member: str, epoch: int, names: list[str] | None = None) -> tuple[str, str]:
    answer = world.heartbeat(member, epoch, names)
    assert isinstance(answer, Refuse), answer
    return answer.error.name, answer.detail


# ---- joining -----------------------------------------------------------------------------------------------


def test_the_first_member_gets_nothing_before_there_is_state() -> None:
    world = ShareWorld()

    answer = world.join("m", "a")

    assert (answer.member_epoch, answer.heartbeat_interval_ms, partitions_in(answer)) == (2, 5_000, {})
    assert world.written(0) == "10 11 13 12 14 15 15"  # the last one follows the persister's answer
    assert world.states() == {"initialized": {"a": [0, 1, 2, 3]}}
    assert world.persister.starts() == {"a": {0: -1, 1: -1, 2: -1, 3: -1}}


def test_the_next_heartbeat_assigns_the_partitions_that_were_initialized() -> None:
    world = ShareWorld()
    world.join("m", "a")

    answer = world.stay("m", 2)

    assert (answer.member_epoch, partitions_in(answer)) == (3, {"a": [0, 1, 2, 3]})
    assert partitions_in(world.stay("m", 3)) is None
    assert partitions_in(world.stay("m", 3, "a")) == {"a": [0, 1, 2, 3]}  # a full request gets all partitions


def test_members_share_partitions_when_there_are_more_members_than_partitions() -> None:
    world = ShareWorld(topics={"one": 1})
    epochs = {name: world.join(name, "one").member_epoch for name in ("x", "y", "z")}

    answers = {name: world.stay(name, epoch) for name, epoch in epochs.items()}

    assert [world.group().targets[name] for name in sorted(answers)] == [
        {world.ids["one"]: frozenset({0})} for _ in "xyz"
    ]
    assert {answer.member_epoch for answer in answers.values()} == {world.group().group_epoch}


def test_two_groups_have_states_of_their_own() -> None:
    world = ShareWorld()
    world.join("m", "a", group_id="g")
    world.join("m", "b", group_id="h")

    assert world.persister.starts("g").keys() == {"a"}
    assert world.persister.starts("h").keys() == {"b"}


def test_a_topic_that_is_made_later_is_initialized_and_assigned() -> None:
    world = ShareWorld(topics={"a": 1})
    epoch = world.join("m", "a", "later").member_epoch
    epoch = world.stay("m", epoch).member_epoch
    world.set_topics({"a": 1, "later": 2})

    epoch = world.stay("m", epoch).member_epoch
    answer = world.stay("m", epoch)

    assert partitions_in(answer) == {"a": [0], "later": [0, 1]}


def test_new_partitions_are_initialized_and_the_old_ones_stay() -> None:
    world = ShareWorld(topics={"a": 1})
    epoch = world.stay("m", world.join("m", "a").member_epoch).member_epoch
    world.set_topics({"a": 3})

    epoch = world.stay("m", epoch).member_epoch
    partitions = [request.key.partition for request in world.persister.requests[-1].requests]

    assert partitions == [1, 2]
    assert partitions_in(world.stay("m", epoch)) == {"a": [0, 1, 2]}


def test_a_member_that_joins_again_has_what_it_had() -> None:
    world = ShareWorld()
    epoch = world.stay("m", world.join("m", "a").member_epoch).member_epoch
    length = len(world.groups.log)

    answer = world.join("m", "a")

    assert (answer.member_epoch, partitions_in(answer)) == (epoch, {"a": [0, 1, 2, 3]})
    assert len(world.groups.log) == length


def test_other_topics_are_a_new_epoch_at_once() -> None:
    world = ShareWorld()
    epoch = world.stay("m", world.join("m", "a", "b").member_epoch).member_epoch

    answer = world.stay("m", epoch, "b")

    assert (answer.member_epoch, partitions_in(answer)) == (epoch + 1, {"b": [0, 1]})


def test_a_target_waits_for_the_assignment_interval() -> None:
    world = ShareWorld(CoordinatorConfig(group_share_assignment_interval_ms=1_000))
    world.join("m", "a")

    early = world.stay("m", 2)
    world.groups.advance(1_000)
    late = world.stay("m", 2)

    assert (early.member_epoch, partitions_in(early), world.group().group_epoch) == (2, None, 3)
    assert (late.member_epoch, partitions_in(late)) == (3, {"a": [0, 1, 2, 3]})


def test_a_clock_that_was_set_back_delays_no_target() -> None:
    world = ShareWorld(CoordinatorConfig(group_share_assignment_interval_ms=1_000))
    world.join("m", "a")
    world.groups.now_ms -= 3_600_000

    assert partitions_in(world.stay("m", 2)) == {"a": [0, 1, 2, 3]}


def test_a_large_target_is_made_in_a_thread() -> None:
    config = CoordinatorConfig(group_share_assignment_interval_ms=0, largest_inline_share_target=4)
    world = ShareWorld(config)
    world.holds_tasks = True
    world.join("m", "a")

    waits = world.stay("m", 2)
    again = world.stay("m", 2)
    assert (waits.member_epoch, again.member_epoch, len(world.tasks)) == (2, 2, 1)
    world.holds_tasks = False
    world.groups.handle(run_task(world.tasks.pop(0).task))

    assert partitions_in(world.stay("m", 2)) == {"a": [0, 1, 2, 3]}


def test_a_quiet_group_notices_a_new_topic() -> None:
    world = ShareWorld(topics={"a": 1})
    epoch = world.stay("m", world.join("m", "a", "b").member_epoch).member_epoch
    world.stay("m", epoch)
    assert world.group().is_quiet

    world.set_topics({"a": 1, "b": 1})
    epoch = world.stay("m", epoch).member_epoch

    assert partitions_in(world.stay("m", epoch)) == {"a": [0], "b": [0]}


# ---- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "epoch", "names", "words"),
    [
        ("", 0, ["a"], ""),
        ("m" * 37, 0, ["a"], ""),
        (" ", 0, ["a"], "MemberId can't be empty."),
        ("m", 0, None, "SubscribedTopicNames must be set in first request."),
        ("m", 0, [], "SubscribedTopicNames must be set in first request."),
        ("m", -2, None, "MemberEpoch is invalid."),
    ],
)
def test_requests_that_no_share_group_could_take_are_rejected(
    member: str, epoch: int, names: list[str] | None, words: str
) -> None:
    assert refusal(ShareWorld(), member, epoch, names) == ("INVALID_REQUEST", words)


@pytest.mark.parametrize(("group", "rack", "words"), [("", None, "GroupId"), ("g", " ", "RackId")])
def test_blank_names_are_rejected(group: str, rack: str | None, words: str) -> None:
    answer = ShareWorld().heartbeat("m", 0, ["a"], group_id=group, rack=rack)

    assert isinstance(answer, Refuse) and answer.detail == f"{words} can't be empty."


def test_a_group_that_does_not_exist_is_created_only_by_a_join() -> None:
    world = ShareWorld()

    assert refusal(world, "m", 1) == ("GROUP_ID_NOT_FOUND", "Share group g not found.")
    assert refusal(world, "m", -1) == ("GROUP_ID_NOT_FOUND", "Group g not found.")


def test_a_member_must_be_known_unless_it_joins() -> None:
    world = ShareWorld()
    world.join("m", "a")

    for epoch in (1, -1):
        words = "Member x is not a member of group g."
        assert refusal(world, "x", epoch) == ("UNKNOWN_MEMBER_ID", words)


def test_the_previous_epoch_is_accepted_and_others_are_fenced() -> None:
    world = ShareWorld()
    world.join("m", "a", "b")
    world.stay("m", 2)
    world.stay("m", 3, "b")

    assert world.stay("m", 3).member_epoch == 4  # the previous answer was lost
    assert refusal(world, "m", 5) == (
        "FENCED_MEMBER_EPOCH",
        "The share group member has a greater member epoch (5) than the one known by the group coordinator "
        "(4). The member must abandon all its partitions and rejoin.",
    )
    assert refusal(world, "m", 2) == (
        "FENCED_MEMBER_EPOCH",
        "The share group member has a smaller member epoch (2) than the one known by the group coordinator "
        "(4), and it does not match the previous member epoch (3). The member must abandon all its "
        "partitions and rejoin.",
    )


def test_a_full_group_takes_no_new_members() -> None:
    world = ShareWorld(CoordinatorConfig(group_share_max_size=1))
    world.join("m", "a")

    assert refusal(world, "x", 0, ["a"]) == (
        "GROUP_MAX_SIZE_REACHED",
        "The share group has reached its maximum capacity of 1 members.",
    )
    assert world.join("m", "a").member_epoch == 2


# ---- leaving -----------------------------------------------------------------------------------------------


def test_a_member_that_leaves_is_removed_and_the_others_get_its_partitions() -> None:
    world = ShareWorld(topics={"a": 2})
    for name in ("x", "y"):
        world.join(name, "a")
    epochs = {name: world.stay(name, world.group().members[name].member_epoch).member_epoch for name in "xy"}
    length = len(world.groups.log)

    answer = world.leave("x")
    left = world.stay("y", epochs["y"])

    assert (answer.member_id, answer.member_epoch, partitions_in(answer)) == ("x", -1, None)
    assert world.written(length).startswith("14t 13t 10t 11")
    assert partitions_in(left) == {"a": [0, 1]}


def test_a_silent_member_is_removed_after_its_session() -> None:
    world = ShareWorld()
    world.join("m", "a")
    world.groups.advance(44_999)
    assert world.group().members

    world.groups.advance(1)

    assert (world.group().state.value, world.group().is_empty) == ("Empty", True)
    assert world.refused("m", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_stays_until_it_is_deleted() -> None:
    world = ShareWorld()
    world.join("m", "a")
    world.leave("m")

    world.groups.advance(30 * 24 * 3_600_000)

    assert world.states() == {"initialized": {"a": [0, 1, 2, 3]}}


# ---- restarts ----------------------------------------------------------------------------------------------


def test_a_loaded_group_goes_on_where_it_was() -> None:
    world = ShareWorld()
    epoch = world.stay("m", world.join("m", "a").member_epoch).member_epoch
    before = world.group()

    world.restart()

    after = world.group()
    assert (after.members, after.targets, after.states) == (before.members, before.targets, before.states)
    assert world.stay("m", epoch).member_epoch == epoch
    world.groups.advance(45_000)
    assert world.group().is_empty


def test_states_that_were_being_initialized_at_a_restart_are_requested_again() -> None:
    world = ShareWorld()
    world.holds_jobs = True
    world.join("m", "a")
    world.restart()
    world.holds_jobs = False

    world.stay("m", 2)

    assert partitions_in(world.stay("m", 2)) == {"a": [0, 1, 2, 3]}


def test_each_change_of_a_group_is_counted_once() -> None:
    world = ShareWorld()
    shard = world.groups.coordinator.shard

    world.join("m", "a")
    counted = [shard.share_rebalances]
    epochs = [world.group().group_epoch]
    for epoch in (2, 3, 3):
        world.stay("m", epoch)
        counted.append(shard.share_rebalances)
        epochs.append(world.group().group_epoch)
    world.leave("m")

    assert counted == [epoch - 1 for epoch in epochs], "a group begins at epoch 1"
    assert shard.share_rebalances == world.group().group_epoch - 1 == counted[-1] + 1
