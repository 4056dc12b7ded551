"""The broker settings of groups and their offsets, and the limits between them.

Names, defaults and limits are Apache Kafka 4.3.1's; settings that begin with `ottla.` are not in Kafka. The
settings of single groups are in `group_config_def`.
"""

from collections.abc import Mapping
from typing import Final

from ottla.groupcoord.assignors.simple_assignor import SIMPLE
from ottla.groupcoord.coordinator_config import MigrationPolicy
from ottla.logstore.words.config_def import (
    INT_MAX,
    ConfigScope,
    ConfigValue,
    Validator,
    at_least,
    between,
    list_of,
    one_of,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.setting import HIGH, INT, LIST, LONG, SHORT, STRING, setting

# The assignors by the names that members use, and by the names of Kafka's classes.
_KAFKAS_ASSIGNORS: Final = "org.apache.kafka.coordinator.group.assignor."
_ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    f"{_KAFKAS_ASSIGNORS}UniformAssignor": "uniform",
    f"{_KAFKAS_ASSIGNORS}RangeAssignor": "range",
}
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


def _protocols_problem(value: ConfigValue) -> str | None:
    known = list_of(CONSUMER, CLASSIC, "share", "streams", may_be_empty=False).problem_of(value)
    if known is None and isinstance(value, tuple) and CLASSIC not in value:
        return "classic cannot be disabled."
    return known


GROUP_SETTINGS: Final = (
    setting(
        "group.min.session.timeout.ms",
        INT,
        6_000,
        "The minimum session timeout that a member of a classic group may use.",
    ),
    setting(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "The maximum session timeout that a member of a classic group may use.",
    ),
    setting(
        "group.initial.rebalance.delay.ms",
        INT,
        3_000,
        "How long a new, empty group waits for more members before its first rebalance.",
    ),
    setting("group.max.size", INT, INT_MAX, "The maximum number of members of a classic group.", at_least(1)),
    setting(
        "ottla.group.heartbeat.hold.ms",
        INT,
        10_000,
        "How long a member's heartbeat may be held until there is something to tell the "
        "member; 0 answers every heartbeat at once.",
        at_least(0),
    ),
    setting(
        "offset.metadata.max.bytes", INT, 4096, "The maximum size of the metadata of a committed offset."
    ),
    setting(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        "How long an offset commit waits for the replicas of the offsets topic.",
        at_least(1),
    ),
    setting(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long to keep the committed offsets of a group after it has lost all its members.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often to look for expired offsets.",
        at_least(1),
    ),
    setting(
        "offsets.topic.num.partitions",
        INT,
        50,
        "The number of partitions of the offsets topic, which stores offsets and groups; do "
        "not change it once the topic exists.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "The replication factor of the offsets topic. While the cluster has fewer brokers, "
        "the number of brokers is used.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "offsets.topic.segment.bytes",
        INT,
        100 * 1024 * 1024,
        "The segment size of the offsets topic.",
        at_least(1),
    ),
    setting(
        "offsets.topic.compression.codec",
        INT,
        0,
        "The compression of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
    ),
    setting(
        "group.coordinator.rebalance.protocols",
        LIST,
        (CLASSIC, CONSUMER, "streams"),
        "The enabled group protocols. Without consumer, requests of consumer groups (KIP-848) "
        "are rejected with UNSUPPORTED_VERSION. The protocol share has no effect, since the feature "
        "share.version enables share groups; streams is accepted, but not supported.",
        Validator(allowed="[consumer, classic, share, streams]", problem_of=_protocols_problem),
    ),
    setting(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "The session timeout of consumer groups: a member that sends no heartbeat for this "
        "long is removed from the group.",
        at_least(1),
    ),
    setting(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The minimum session timeout that can be set for a consumer group.",
        at_least(1),
    ),
    setting(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The maximum session timeout that can be set for a consumer group.",
        at_least(1),
    ),
    setting(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5_000,
        "The heartbeat interval given to members of consumer groups.",
        at_least(1),
    ),
    setting(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5_000,
        "The minimum heartbeat interval that can be set for a consumer group.",
        at_least(1),
    ),
    setting(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The maximum heartbeat interval that can be set for a consumer group.",
        at_least(1),
    ),
    setting(
        "group.consumer.assignment.interval.ms",
        INT,
        1_000,
        "The minimum time between two assignments of a consumer group.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "The minimum assignment interval that can be set for a consumer group.",
        at_least(0),
    ),
    setting(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        "The maximum assignment interval that can be set for a consumer group.",
        at_least(0),
    ),
    setting(
        "group.consumer.max.size",
        INT,
        INT_MAX,
        "The maximum number of members of a consumer group.",
        at_least(1),
    ),
    setting(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that members of consumer groups can choose from, by name or by the class "
        "name in Kafka; the first one is the default.",
        list_of(*_ASSIGNORS, may_be_empty=False),
    ),
    setting(
        "group.consumer.migration.policy",
        STRING,
        MigrationPolicy.BIDIRECTIONAL.value,
        "How groups with members may change their protocol: upgrade (from classic to consumer), "
        "downgrade (back), bidirectional, or disabled. Groups without members may always change.",
        one_of(*(each.value for each in MigrationPolicy), ignore_case=True),
    ),
    setting(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often to match the regular expressions of consumer groups with the topics "
        "again. New topics are matched at once.",
        at_least(10_000),
        internal=True,
    ),
    setting(
        "group.share.session.timeout.ms",
        INT,
        45_000,
        "The session timeout of share groups: a member that sends no heartbeat for this long is "
        "removed from the group.",
        at_least(1),
    ),
    setting(
        "group.share.min.session.timeout.ms",
        INT,
        45_000,
        "The minimum session timeout that can be set for a share group.",
        at_least(1),
    ),
    setting(
        "group.share.max.session.timeout.ms",
        INT,
        60_000,
        "The maximum session timeout that can be set for a share group.",
        at_least(1),
    ),
    setting(
        "group.share.heartbeat.interval.ms",
        INT,
        5_000,
        "The heartbeat interval given to members of share groups.",
        at_least(1),
    ),
    setting(
        "group.share.min.heartbeat.interval.ms",
        INT,
        5_000,
        "The minimum heartbeat interval that can be set for a share group.",
        at_least(1),
    ),
    setting(
        "group.share.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The maximum heartbeat interval that can be set for a share group.",
        at_least(1),
    ),
    setting(
        "group.share.assignment.interval.ms",
        INT,
        1_000,
        "The minimum time between two assignments of a share group.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "group.share.min.assignment.interval.ms",
        INT,
        0,
        "The minimum assignment interval that can be set for a share group.",
        at_least(0),
    ),
    setting(
        "group.share.max.assignment.interval.ms",
        INT,
        15_000,
        "The maximum assignment interval that can be set for a share group.",
        at_least(0),
    ),
    setting(
        "group.share.max.size",
        INT,
        200,
        "The maximum number of members of a share group.",
        between(1, 1_000),
    ),
    setting(
        "group.share.assignors",
        LIST,
        (SIMPLE,),
        "The assignor of share groups, by name or by the class name in Kafka; simple is the only one.",
        list_of(SIMPLE, f"{_KAFKAS_ASSIGNORS}SimpleAssignor", may_be_empty=False),
    ),
    setting(
        "group.share.initialize.retry.interval.ms",
        INT,
        30_000,
        "How long to wait for the share coordinators before asking them again to initialize the "
        "state of a share group. If offsets.commit.timeout.ms is longer, that is used.",
        at_least(1),
        internal=True,
    ),
)

# A setting, and the settings that are its minimum and its maximum (None: no maximum), checked at the start.
_RANGES: Final = (
    ("group.max.session.timeout.ms", "group.min.session.timeout.ms", None),
    *(
        bounds
        for kind in ("consumer", "share")
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
        for bounds in (
            (f"group.{kind}.max.{what}", f"group.{kind}.min.{what}", None),
            (f"group.{kind}.{what}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"),
        )
    ),
)


def assignor_names(configured: tuple[str, ...]) -> tuple[str, ...]:
    """Return the assignors of `group.consumer.assignors` by the names that members use."""
    return tuple(dict.fromkeys(_ASSIGNORS[name] for name in configured))


def check_group_settings(values: Mapping[str, ConfigValue]) -> None:
    """Raise INVALID_CONFIG, with Kafka's message, for a setting that contradicts others."""
    for name, minimum, maximum in _RANGES:
        if _number(values, name) < _number(values, minimum):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {minimum}")
        if maximum is not None and _number(values, name) > _number(values, maximum):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {maximum}")
    for kind in ("consumer", "share"):
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if _number(values, heartbeat) >= _number(values, session):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{heartbeat} must be less than {session}")
    assignors = values["group.share.assignors"]
    assert isinstance(assignors, tuple)
    if len(assignors) != 1:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}",
        )


def within_limits(values: Mapping[str, ConfigValue], name: str, text: str) -> str:
    """Return the value of a dynamic setting, moved into its limits: they may have changed at a restart."""
    for bounded, minimum, maximum in _RANGES:
        if bounded == name and maximum is not None:
            value = int(text)
            held = min(max(value, _number(values, minimum)), _number(values, maximum))
            return text if held == value else str(held)
    return text


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value
