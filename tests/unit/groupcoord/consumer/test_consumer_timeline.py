"""The timeline of a consumer group: each cause of a new epoch, its member, and the end of the rebalance."""

from ottla.groupcoord.consumer.consumer_group_state import ConsumerGroupState
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.timeline import Cause, Event, Rebalance
from tests.unit.groupcoord.consumer.consumer_world import Client, ConsumerWorld, settle
from tests.unit.groupcoord.group_world import START_MS


def rebalances(world: ConsumerWorld) -> tuple[Rebalance, ...]:
    return world.group().timeline.last()


def causes(world: ConsumerWorld) -> list[tuple[Cause, str]]:
    """Return the causes of the last rebalance, with their clients."""
    return [(event.cause, event.member_id) for event in rebalances(world)[-1].events]


def stable_pair(world: ConsumerWorld) -> tuple[Client, Client]:
    first, second = Client(world, "m1", "a"), Client(world, "m2", "a")
    for client in (first, second):
        client.join()
    settle([first, second])
    assert world.group().state is ConsumerGroupState.STABLE
    return first, second


# ---- causes ----------------------------------------------------------------------------------------------


def test_the_rebalance_of_the_first_member_ends_at_once() -> None:
    world = ConsumerWorld()

    world.join("m1", "a", client_id="app")

    (ended,) = rebalances(world)
    assert ended.events == (Event(Cause.MEMBER_JOINED, START_MS, "m1", "app"),)
    assert (ended.began_ms, ended.ended_ms) == (START_MS, START_MS)
    assert (ended.generation_before, ended.generation_after, ended.members) == (1, 2, 1)


def test_a_rebalance_is_over_when_the_last_partition_was_handed_over() -> None:
    world = ConsumerWorld()
    first, second = Client(world, "m1", "a"), Client(world, "m2", "a")
    first.join()
    world.groups.advance(1_000)

    second.join()
    running = rebalances(world)[-1]
    world.groups.advance(5_000)
    first.heartbeat()
    assert world.group().timeline.is_running
    world.groups.advance(2_000)
    second.heartbeat()

    assert (running.ended_ms, running.generation_before, running.generation_after) == (None, 2, None)
    ended = rebalances(world)[-1]
    assert causes(world) == [(Cause.MEMBER_JOINED, "m2")]
    assert ended.ended_ms is not None and ended.ended_ms - ended.began_ms == 7_000
    assert (ended.generation_after, ended.members) == (3, 2)


def test_the_timeline_names_a_member_that_left() -> None:
    world = ConsumerWorld()
    first, _ = stable_pair(world)

    world.stay("m2", -1)
    assert world.group().timeline.is_running
    first.heartbeat()

    assert causes(world) == [(Cause.MEMBER_LEFT, "m2")]
    assert not world.group().timeline.is_running


def test_the_last_member_that_leaves_ends_the_rebalance_at_once() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")

    world.stay("m1", -1)

    ended = rebalances(world)[-1]
    assert (ended.generation_before, ended.generation_after, ended.members) == (2, 3, 0)


def test_the_timeline_names_a_member_whose_session_expired() -> None:
    world = ConsumerWorld()
    stable_pair(world)
    world.groups.advance(44_000)
    world.stay("m1", 3)

    world.groups.advance(1_000)

    assert causes(world) == [(Cause.SESSION_EXPIRED, "m2")]


def test_the_timeline_names_a_member_that_kept_partitions_that_it_had_to_give_up() -> None:
    world = ConsumerWorld(
        CoordinatorConfig(group_consumer_session_timeout_ms=300_000, group_consumer_assignment_interval_ms=0)
    )
    world.join("m1", "a")
    world.join("m2", "a")
    world.stay("m1", 2)

    world.groups.advance(60_000)

    assert causes(world) == [(Cause.MEMBER_JOINED, "m2"), (Cause.REVOCATION_TIMED_OUT, "m1")]


def test_the_timeline_names_a_member_that_reads_other_topics() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")

    world.stay("m1", 2, names=["a", "b"])

    assert causes(world) == [(Cause.SUBSCRIPTION_CHANGED, "m1")]


def test_topics_that_grew_or_are_gone_are_named() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", "b")
    world.stay("m1", 2)

    world.set_topics({"a": 5})
    world.stay("m1", 2, owned={"a": [0, 1, 2, 3]})

    ended = rebalances(world)[-1]
    assert ended.events == (Event(Cause.TOPICS_CHANGED, world.groups.now_ms, reason="a, b"),)


def test_an_expression_that_matches_other_topics_is_named() -> None:
    world = ConsumerWorld()
    world.join("m1", regex="[ab]")

    assert causes(world) == [(Cause.REGEX_CHANGED, "")]
    assert rebalances(world)[-1].events[0].reason == "[ab]"
    world.stay("m1", 1)
    assert not world.group().timeline.is_running


def test_the_timeline_names_an_instance_that_comes_back_with_other_topics() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    world.stay("m1", -2, instance="i1")

    world.join("m2", "b", instance="i1")

    assert causes(world) == [(Cause.STATIC_REPLACED, "m2")]


# ---- changes that are no rebalance -----------------------------------------------------------------------


def test_an_instance_that_comes_back_unchanged_is_no_rebalance() -> None:
    world = ConsumerWorld()
    world.join("m1", "a", instance="i1")
    before = rebalances(world)

    world.stay("m1", -2, instance="i1")
    world.join("m2", "a", instance="i1")

    assert rebalances(world) == before


def test_another_client_or_rack_is_no_cause() -> None:
    world = ConsumerWorld()
    world.join("m1", "a")
    before = rebalances(world)

    world.stay("m1", 2, rack="east", client_id="other")

    assert rebalances(world) == before


def test_a_new_coordinator_begins_with_an_empty_timeline() -> None:
    world = ConsumerWorld()
    stable_pair(world)

    world.restart()

    assert rebalances(world) == ()
    world.stay("m2", -1)
    assert causes(world) == [(Cause.MEMBER_LEFT, "m2")]
