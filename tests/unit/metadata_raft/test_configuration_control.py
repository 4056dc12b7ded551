"""Settings are changed as in KIP-226 and KIP-339."""

import time

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    CreateTopics,
    ResourceChanges,
    ResourceResult,
)
from ottla.metadata_raft.controller_config import (
    MAX_CLIENT_METRICS_SUBSCRIPTIONS,
    MAX_SUBSCRIPTIONS_PER_COMMAND,
    MAX_VALUE_CHARS_PER_COMMAND,
)
from ottla.metadata_raft.records import ConfigResourceType
from tests.unit.metadata_raft.metadata_world import MetadataWorld

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
LOGGER, METRICS = ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld()
    made.submit(CreateTopics(topics=[made.topic("t", configs=[("retention.ms", "5")])]))
    return made


def alter(
    world: MetadataWorld,
    kind: ConfigResourceType,
    name: str,
    *changes: tuple[str, ConfigOperation, str | None],
    replace_all: bool = False,
    validate_only: bool = False,
) -> ResourceResult:
    resource = ResourceChanges(
        resource_type=kind,
        resource_name=name,
        changes=[
            ConfigChange(name=name, operation=operation, value=value) for name, operation, value in changes
        ],
        replace_all=replace_all,
    )
    reply = world.submit(AlterConfigs(resources=[resource], validate_only=validate_only))
    return reply.resources[0]


CHANGES = [
    (TOPIC, "t", ("segment.ms", SET, "60000"), ErrorCode.NONE, {"retention.ms": "5", "segment.ms": "60000"}),
    (TOPIC, "t", ("retention.ms", DELETE, None), ErrorCode.NONE, {}),
    (TOPIC, "t", ("segment.ms", DELETE, None), ErrorCode.NONE, {"retention.ms": "5"}),
    (
        TOPIC,
        "t",
        ("cleanup.policy", APPEND, "compact"),
        ErrorCode.NONE,
        {"retention.ms": "5", "cleanup.policy": "delete,compact"},
    ),
    (
        TOPIC,
        "t",
        ("cleanup.policy", SUBTRACT, "compact"),
        ErrorCode.NONE,
        {"retention.ms": "5", "cleanup.policy": "delete"},
    ),
    (TOPIC, "t", ("retention.ms", APPEND, "6"), ErrorCode.INVALID_CONFIG, {"retention.ms": "5"}),
    (TOPIC, "t", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG, {"retention.ms": "5"}),
    (TOPIC, "t", ("foo", SET, "1"), ErrorCode.INVALID_CONFIG, {"retention.ms": "5"}),
    (TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, {"retention.ms": "5"}),
    (TOPIC, "u", ("retention.ms", SET, "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {}),
    (TOPIC, "a/b", ("retention.ms", SET, "5"), ErrorCode.INVALID_TOPIC_EXCEPTION, {}),
    (BROKER, "0", ("message.max.bytes", SET, "9"), ErrorCode.NONE, {"message.max.bytes": "9"}),
    (BROKER, "", ("message.max.bytes", SET, "9"), ErrorCode.NONE, {"message.max.bytes": "9"}),
    (BROKER, "0", ("num.partitions", SET, "9"), ErrorCode.INVALID_REQUEST, {}),
    (BROKER, "0", ("foo", SET, "9"), ErrorCode.INVALID_CONFIG, {}),
    (BROKER, "0", ("message.max.bytes", SET, "-9"), ErrorCode.INVALID_REQUEST, {}),
    (BROKER, "0", ("message.max.bytes", APPEND, "9"), ErrorCode.INVALID_CONFIG, {}),
    (BROKER, "0", ("num.partitions", DELETE, None), ErrorCode.NONE, {}),
    (BROKER, "0", ("foo", DELETE, None), ErrorCode.NONE, {}),
    (BROKER, "7", ("message.max.bytes", SET, "9"), ErrorCode.BROKER_ID_NOT_REGISTERED, {}),
    (
        GROUP,
        "g",
        ("consumer.session.timeout.ms", SET, "50000"),
        ErrorCode.NONE,
        {"consumer.session.timeout.ms": "50000"},
    ),
    (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_REQUEST, {}),
    (LOGGER, "0", ("root", SET, "DEBUG"), ErrorCode.INVALID_REQUEST, {}),
    (METRICS, "m", ("interval.ms", SET, "5"), ErrorCode.INVALID_REQUEST, {}),
    (METRICS, "m", ("interval.ms", SET, "100"), ErrorCode.NONE, {"interval.ms": "100"}),
    (METRICS, "m", ("metrics", SET, "a.,b."), ErrorCode.NONE, {"metrics": "a.,b."}),
    (METRICS, "m", ("metrics", DELETE, None), ErrorCode.NONE, {}),
    (METRICS, "m", ("metrics", APPEND, "a."), ErrorCode.INVALID_CONFIG, {}),
    (METRICS, "", ("metrics", SET, "a."), ErrorCode.INVALID_REQUEST, {}),
    (METRICS, "m", ("foo", SET, "a."), ErrorCode.INVALID_REQUEST, {}),
]


@pytest.mark.parametrize(("kind", "name", "change", "error", "after"), CHANGES)
def test_a_single_change_succeeds_or_fails(
    world: MetadataWorld,
    kind: ConfigResourceType,
    name: str,
    change: tuple[str, ConfigOperation, str | None],
    error: ErrorCode,
    after: dict[str, str],
) -> None:
    result = alter(world, kind, name, change)

    assert result.error_code == error and (result.error_message is None) == (error is ErrorCode.NONE)
    assert dict(world.image.configs.of(kind, name)) == after


def test_the_number_of_subscriptions_to_client_metrics_is_limited(world: MetadataWorld) -> None:
    for number in range(MAX_CLIENT_METRICS_SUBSCRIPTIONS):
        assert alter(world, METRICS, f"m{number}", ("metrics", SET, "*")).error_code == ErrorCode.NONE

    one_more = alter(world, METRICS, "one-more", ("metrics", SET, "*"))
    changed = alter(world, METRICS, "m0", ("metrics", SET, "a."))
    alter(world, METRICS, "m1", ("metrics", DELETE, None))
    instead = alter(world, METRICS, "one-more", ("metrics", SET, "*"))

    assert one_more.error_code == ErrorCode.POLICY_VIOLATION
    assert (changed.error_code, instead.error_code) == (ErrorCode.NONE, ErrorCode.NONE)


def test_one_request_changes_a_limited_number_of_subscriptions(world: MetadataWorld) -> None:
    resources = [
        ResourceChanges(
            resource_type=METRICS,
            resource_name=f"m{number}",
            changes=[ConfigChange(name="match", operation=SET, value="client_id=a.*")],
        )
        for number in range(MAX_SUBSCRIPTIONS_PER_COMMAND + 1)
    ]

    reply = world.submit(AlterConfigs(resources=resources))

    codes = [one.error_code for one in reply.resources]
    assert codes == [ErrorCode.NONE] * MAX_SUBSCRIPTIONS_PER_COMMAND + [ErrorCode.POLICY_VIOLATION]


def test_the_old_alter_configs_replaces_the_whole_set(world: MetadataWorld) -> None:
    result = alter(world, TOPIC, "t", ("segment.ms", SET, "60000"), replace_all=True)

    assert result.error_code == ErrorCode.NONE
    assert world.image.configs.topic("t") == {"segment.ms": "60000"}


def test_validate_only_changes_nothing(world: MetadataWorld) -> None:
    before = world.image

    assert (
        alter(world, TOPIC, "t", ("segment.ms", SET, "60000"), validate_only=True).error_code
        == ErrorCode.NONE
    )
    assert world.image is before


def test_one_bad_setting_fails_its_resource_and_no_other(world: MetadataWorld) -> None:
    good = ResourceChanges(
        resource_type=BROKER,
        resource_name="",
        changes=[ConfigChange(name="log.retention.ms", operation=SET, value="7")],
    )
    bad = ResourceChanges(
        resource_type=TOPIC,
        resource_name="t",
        changes=[
            ConfigChange(name="segment.ms", operation=SET, value="60000"),
            ConfigChange(name="foo", operation=SET, value="1"),
        ],
    )

    reply = world.submit(AlterConfigs(resources=[bad, good]))

    assert [one.error_code for one in reply.resources] == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert world.image.configs.topic("t") == {"retention.ms": "5"}
    assert world.image.configs.broker(None) == {"log.retention.ms": "7"}


def test_a_resource_or_a_key_that_is_named_twice_is_rejected(world: MetadataWorld) -> None:
    once = ResourceChanges(
        resource_type=TOPIC,
        resource_name="t",
        changes=[ConfigChange(name="segment.ms", operation=SET, value="60000")],
    )

    reply = world.submit(AlterConfigs(resources=[once, once]))
    twice = alter(world, TOPIC, "t", ("segment.ms", SET, "1"), ("segment.ms", SET, "2"))

    assert [one.error_code for one in reply.resources] == [ErrorCode.INVALID_REQUEST] * 2
    assert twice.error_code == ErrorCode.INVALID_REQUEST


def test_setting_a_brokers_value_again_is_recorded_again(world: MetadataWorld) -> None:
    """KAFKA-14136: brokers reload the files that a value names."""
    alter(world, BROKER, "0", ("message.max.bytes", SET, "9"))
    before = world.image.version

    alter(world, BROKER, "0", ("message.max.bytes", SET, "9"))

    assert world.image.version == before + 1


def test_entries_of_a_long_list_are_added_and_removed_in_linear_time(world: MetadataWorld) -> None:
    name = "follower.replication.throttled.replicas"
    some, others = (
        ",".join(f"{number}:{number}" for number in range(first, first + 1_400)) for first in (0, 1_400)
    )
    began = time.thread_time()
    for _ in range(20):
        assert not alter(world, TOPIC, "t", (name, SET, some)).error_code
        assert not alter(world, TOPIC, "t", (name, APPEND, others)).error_code
        assert world.image.configs.topic("t")[name] == f"{some},{others}"
        assert not alter(world, TOPIC, "t", (name, SUBTRACT, some)).error_code

    assert world.image.configs.topic("t")[name] == others
    assert time.thread_time() - began < 3


def test_the_settings_of_one_request_are_limited_in_all(world: MetadataWorld) -> None:
    value = "0:1," * 8_000 + "0:1"
    count = MAX_VALUE_CHARS_PER_COMMAND // len(value) + 1
    configs = [("follower.replication.throttled.replicas", value)]

    created = world.submit(CreateTopics(topics=[world.topic("one", configs=configs)]))
    assert [one.error_code for one in created.topics] == [ErrorCode.NONE]
    with pytest.raises(KafkaError) as refused:
        world.submit(CreateTopics(topics=[world.topic(f"n{one}", configs=configs) for one in range(count)]))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    with pytest.raises(KafkaError) as refused:
        alter(world, TOPIC, "t", *[(f"n{one}", SET, value) for one in range(count)])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
