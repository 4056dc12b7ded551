"""The group's own settings, which hold from its next heartbeat on."""

from dataclasses import replace

from ottla.groupcoord.coordinator_config import CoordinatorConfig, GroupConfig, default_group_config
from ottla.groupcoord.effects import TimerKey
from tests.unit.groupcoord.consumer.consumer_world import ConsumerWorld
from tests.unit.groupcoord.topic_ids import partitions_in

DEFAULTS = default_group_config(CoordinatorConfig())


class Settings:
    """Settings that can be changed for the group "g"; all other groups have the defaults."""

    def __init__(self, world: ConsumerWorld) -> None:
        self.own = DEFAULTS
        world.groups.coordinator.shard.group_config = self

    def __call__(self, group_id: str) -> GroupConfig:
        return self.own if group_id == "g" else DEFAULTS


def test_the_interval_and_the_session_change_with_the_next_heartbeat() -> None:
    world = ConsumerWorld()
    settings = Settings(world)
    joined = world.join("m1", "a")
    assert joined.heartbeat_interval_ms == 5_000
    settings.own = replace(DEFAULTS, consumer_heartbeat_interval_ms=7_000, consumer_session_timeout_ms=50_000)
    session = TimerKey("session", "g", "m1")
    began_ms = world.groups.now_ms

    before_ms = world.groups.timers[session][0]
    answer = world.stay("m1", joined.member_epoch)

    assert (before_ms, world.groups.timers[session][0]) == (began_ms + 45_000, began_ms + 50_000)
    assert answer.heartbeat_interval_ms == 7_000
    assert world.join("other", "a", group_id="h").heartbeat_interval_ms == 5_000
    settings.own = DEFAULTS
    assert world.stay("m1", joined.member_epoch).heartbeat_interval_ms == 5_000
    assert world.groups.timers[session][0] == began_ms + 45_000


def test_a_group_may_be_assigned_without_a_pause_or_after_a_longer_one() -> None:
    world = ConsumerWorld(CoordinatorConfig())
    settings = Settings(world)
    settings.own = replace(DEFAULTS, consumer_assignment_interval_ms=0)
    joined = world.join("m1", "a")
    world.join("m2", "a")
    epoch = world.group().group_epoch
    assert world.group().assignment_epoch == epoch
    settings.own = replace(DEFAULTS, consumer_assignment_interval_ms=9_000)

    world.join("m3", "a")

    assert (world.group().assignment_epoch, world.group().group_epoch) == (epoch, epoch + 1)
    world.groups.advance(8_999)
    assert world.group().assignment_epoch == epoch
    world.groups.advance(1)
    assert world.group().assignment_epoch == epoch + 1
    assert partitions_in(world.stay("m1", joined.member_epoch)) is not None
