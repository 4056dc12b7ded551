"""The states of share-partitions: requests to the share coordinators, and their answers."""

from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.share.share_world import ShareWorld
from tests.unit.groupcoord.topic_ids import partitions_in

ALL_OF_A = [0, 1, 2, 3]

# ---- initializing ------------------------------------------------------------------------------------------


def test_states_are_requested_once_while_no_answer_comes() -> None:
    world = ShareWorld()
    world.holds_jobs = True
    world.join("m", "a")

    world.stay("m", 2)
    world.groups.advance(29_999)
    world.stay("m", 2)

    assert len(world.held) == 1
    world.groups.advance(1)
    world.stay("m", 2)
    assert len(world.held) == 2
    assert world.states() == {"initializing": {"a": ALL_OF_A}}


def test_the_retry_interval_is_at_least_the_time_of_a_commit() -> None:
    config = CoordinatorConfig(group_share_initialize_retry_interval_ms=1, offsets_commit_timeout_ms=5_000)

    assert config.share_initialize_retry_interval_ms == 5_000


def test_failed_states_are_requested_again_at_the_next_heartbeat() -> None:
    world = ShareWorld()
    world.persister.fails[("a", 2)] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.join("m", "a")
    assert world.states() == {"initialized": {"a": [0, 1, 3]}}
    world.persister.fails.clear()

    answer = world.stay("m", 2)

    assert partitions_in(answer) == {"a": [0, 1, 3]}
    assert world.states() == {"initialized": {"a": ALL_OF_A}}


def test_states_are_initialized_in_the_epoch_of_the_group() -> None:
    world = ShareWorld()
    world.join("m", "a")

    assert {request.state_epoch for request in world.persister.states.values()} == {2}


def test_states_that_were_initialized_for_a_deleted_group_are_deleted() -> None:
    world = ShareWorld()
    world.holds_jobs = True
    world.join("m", "a")
    late = world.held.pop()
    world.leave("m")
    world.holds_jobs = False
    world.deleted_groups(world.delete_groups("g"))

    world.groups.handle(world.persister.answer(late))

    assert world.persister.states == {}
    assert world.groups.coordinator.shard.group("g") is None


# ---- altering ----------------------------------------------------------------------------------------------


def test_altered_offsets_create_a_group_and_are_its_start_offsets() -> None:
    world = ShareWorld()

    token = world.alter({"a": {0: 5, 3: 7}, "gone": {0: 1}, "b": {2: 1}})

    assert world.altered(token) == {
        "a": {0: "NONE", 3: "NONE"},
        "gone": {0: "UNKNOWN_TOPIC_OR_PARTITION"},
        "b": {2: "UNKNOWN_TOPIC_OR_PARTITION"},
    }
    assert world.persister.starts() == {"a": {0: 5, 3: 7}}
    assert world.states() == {"initialized": {"a": [0, 3]}}


def test_a_join_does_not_initialize_altered_partitions_again() -> None:
    world = ShareWorld()
    world.alter({"a": {0: 5, 3: 7}})

    world.join("m", "a")

    assert world.persister.starts() == {"a": {0: 5, 1: -1, 2: -1, 3: 7}}


def test_partitions_that_could_not_be_altered_are_reported_and_unchanged() -> None:
    world = ShareWorld()
    world.persister.fails[("a", 1)] = ErrorCode.NOT_COORDINATOR

    token = world.alter({"a": {0: 5, 1: 5}})

    assert world.altered(token) == {"a": {0: "NONE", 1: "NOT_COORDINATOR"}}
    assert world.states() == {"initialized": {"a": [0]}}


def test_a_group_with_members_is_not_altered() -> None:
    world = ShareWorld()
    world.join("m", "a")

    assert world.answer(world.alter({"a": {0: 1}})) == Refuse(
        max(world.groups.requested), ErrorCode.NON_EMPTY_GROUP, "The group is not empty."
    )


def test_an_alteration_waits_for_the_share_coordinators_and_is_answered_when_the_coordinator_moves() -> None:
    world = ShareWorld()
    world.holds_jobs = True
    token = world.alter({"a": {0: 5}})
    assert world.answer(token) is None

    world.restart()

    assert world.answer(token) == Refuse(token, ErrorCode.NOT_COORDINATOR)


# ---- deleting offsets --------------------------------------------------------------------------------------


def empty_group_with_states() -> ShareWorld:
    world = ShareWorld()
    world.join("m", "a", "b")
    world.leave("m")
    return world


def test_offsets_of_topics_are_deleted_with_their_state() -> None:
    world = empty_group_with_states()

    token = world.delete_offsets("a", "c")

    assert world.deleted_offsets(token) == {"a": "NONE", "c": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert world.persister.starts().keys() == {"b"}
    assert world.states() == {"initialized": {"b": [0, 1]}}
    assert world.listed() == {"b": [0, 1]}


def test_offsets_that_could_not_be_deleted_are_deleted_by_the_next_request() -> None:
    world = empty_group_with_states()
    world.persister.fails[("a", 3)] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.deleted_offsets(world.delete_offsets("a")) == {"a": "COORDINATOR_LOAD_IN_PROGRESS"}
    assert world.states() == {"initialized": {"b": [0, 1]}, "deleting": {"a": []}}
    world.persister.fails.clear()

    token = world.delete_offsets("a")

    assert world.deleted_offsets(token) == {"a": "NONE"}
    assert world.states() == {"initialized": {"b": [0, 1]}}


def test_partitions_that_are_being_initialized_are_deleted_with_the_others() -> None:
    world = ShareWorld(topics={"a": 1})
    epoch = world.join("m", "a").member_epoch
    world.set_topics({"a": 2})
    world.holds_jobs = True
    world.stay("m", epoch)
    world.leave("m")

    token = world.delete_offsets("a")
    world.release_jobs()

    assert world.deleted_offsets(token) == {"a": "NONE"}
    assert (world.states(), world.persister.starts()) == ({}, {})


def test_a_topic_without_state_has_nothing_to_delete() -> None:
    world = ShareWorld()
    world.join("m", "a")
    world.leave("m")

    assert world.deleted_offsets(world.delete_offsets("b")) == {"b": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_a_join_takes_back_a_topic_that_was_being_deleted() -> None:
    world = empty_group_with_states()
    world.persister.fails[("a", 3)] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.delete_offsets("a")
    world.persister.fails.clear()

    world.join("m", "a")

    assert world.states() == {"initialized": {"a": ALL_OF_A, "b": [0, 1]}}


def test_offsets_are_not_deleted_while_there_are_members_or_no_group() -> None:
    world = ShareWorld()
    missing = world.answer(world.delete_offsets("a"))
    world.join("m", "a")
    full = world.answer(world.delete_offsets("a"))

    assert isinstance(missing, Refuse) and isinstance(full, Refuse)
    assert (missing.error.name, missing.detail) == ("GROUP_ID_NOT_FOUND", "Group g not found.")
    assert (full.error.name, full.detail) == ("NON_EMPTY_GROUP", "The group is not empty.")


# ---- deleting groups ---------------------------------------------------------------------------------------


def test_a_group_is_deleted_with_its_state() -> None:
    world = empty_group_with_states()
    length = len(world.groups.log)

    token = world.delete_groups("g", "h")

    assert world.deleted_groups(token) == {"g": "NONE", "h": "GROUP_ID_NOT_FOUND"}
    assert world.persister.starts() == {}
    assert world.written(length) == "15 12t 15t 11t"
    assert world.groups.coordinator.shard.groups_by_share_state == {}


def test_a_group_whose_state_could_not_be_deleted_stays() -> None:
    world = empty_group_with_states()
    world.persister.fails[("b", 0)] = ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert world.deleted_groups(world.delete_groups("g")) == {"g": "COORDINATOR_NOT_AVAILABLE"}
    assert world.states() == {"deleting": {"a": [], "b": []}}
    world.persister.fails.clear()
    assert world.deleted_groups(world.delete_groups("g")) == {"g": "NONE"}


def test_a_group_that_a_member_joined_meanwhile_stays() -> None:
    world = empty_group_with_states()
    world.holds_jobs = True
    token = world.delete_groups("g")
    world.join("m", "a")

    world.release_jobs()

    assert world.deleted_groups(token) == {"g": "NON_EMPTY_GROUP"}


def test_a_group_with_members_keeps_its_state() -> None:
    world = ShareWorld()
    world.join("m", "a")

    assert world.deleted_groups(world.delete_groups("g")) == {"g": "NON_EMPTY_GROUP"}
    assert world.states() == {"initialized": {"a": ALL_OF_A}}


# ---- deleted topics ----------------------------------------------------------------------------------------


def test_a_deleted_topic_is_forgotten() -> None:
    world = empty_group_with_states()

    world.set_topics({"b": 2})
    world.groups.advance(1)

    assert world.states() == {"initialized": {"b": [0, 1]}}


def test_a_topic_of_the_same_name_begins_without_states() -> None:
    world = ShareWorld()
    epoch = world.stay("m", world.join("m", "a").member_epoch).member_epoch
    world.set_topics({"a": 1, "b": 2}, {"a": b"another topic a-"})
    world.groups.advance(1)

    epoch = world.stay("m", epoch).member_epoch
    answer = world.stay("m", epoch)

    assert [list(one.partitions) for one in answer.assignment or ()] == [[0]]
    assert [one.topic_id for one in answer.assignment or ()] == [b"another topic a-"]


def test_topics_that_were_deleted_without_a_coordinator_are_forgotten_at_the_load() -> None:
    world = empty_group_with_states()
    world.topics = {"b": 2}

    world.restart()
    world.groups.advance(1)

    assert world.states() == {"initialized": {"b": [0, 1]}}


def test_very_many_groups_forget_a_topic_in_turns() -> None:
    world = ShareWorld()
    for number in range(450):
        world.alter({"a": {0: 1}}, group_id=f"g{number}")
    world.set_topics({"b": 2})
    lengths = []

    for _ in range(3):
        before = len(world.groups.log)
        key, (_, _, command) = next(
            one for one in world.groups.timers.items() if one[0].purpose == "share-topics"
        )
        del world.groups.timers[key]
        world.groups.handle(command)
        lengths.append(len(world.groups.log) - before)

    assert lengths == [200, 200, 50]
    assert world.groups.coordinator.shard.groups_by_share_state == {}
