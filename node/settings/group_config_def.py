"""The settings of single groups (ConfigResource GROUP): the table, their limits, and the effective values.

Names, defaults, limits and errors are Apache Kafka's; settings that begin with `ottla.` are not in Kafka. A
value must be within the broker's limits when it is set. If a restart of the broker moves the limits later,
the nearest limit is used. The settings of streams groups are checked and stored, but such groups are not
served.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.groupcoord.coordinator_config import GroupConfig
from ottla.logstore.words.config_def import (
    ConfigDef,
    ConfigKey,
    ConfigScope,
    ConfigType,
    ConfigValue,
    Validator,
    at_least,
    one_of,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.setting import BOOLEAN, INT, LONG, STRING, setting

# The durations that Java reads and that are not negative. The limits of digits keep them in the range of
# Java's seconds.
_DURATION: Final = re.compile(
    r"\+?P(?=.)(\+?\d{1,14}D)?(T(?=.)(\+?\d{1,14}H)?(\+?\d{1,14}M)?(\+?\d{1,14}([.,]\d{0,9})?S)?)?",
    re.IGNORECASE,
)


def _offset_reset_problem(value: ConfigValue) -> str | None:
    if value in ("earliest", "latest"):
        return None
    if isinstance(value, str):
        head, colon, duration = value.partition(":")
        if head == "by_duration" and colon and _DURATION.fullmatch(duration):
            return None
    return "it must be earliest, latest or by_duration:<PnDTnHnMn.nS>."


_OFFSET_RESET: Final = Validator(
    allowed="[earliest, latest, by_duration:<PnDTnHnMn.nS>]", problem_of=_offset_reset_problem
)


def _consumer(name: str, default: int, documentation: str, minimum: int) -> ConfigKey:
    return setting(
        f"consumer.{name}", INT, default, documentation, at_least(minimum), scope=ConfigScope.CLUSTER_WIDE
    )


def _share(
    name: str, type_: ConfigType, default: ConfigValue, documentation: str, validator: Validator | None = None
) -> ConfigKey:
    return setting(f"share.{name}", type_, default, documentation, validator, scope=ConfigScope.CLUSTER_WIDE)


def _not_used(
    kind: str, name: str, type_: ConfigType, default: ConfigValue, validator: Validator | None
) -> ConfigKey:
    return setting(
        f"{kind}.{name}",
        type_,
        default,
        f"Stored but not used: {kind} groups are not supported.",
        validator,
        scope=ConfigScope.CLUSTER_WIDE,
    )


_CONSUMER: Final = (
    _consumer(
        "session.timeout.ms",
        45_000,
        "A member of this consumer group that sends no heartbeat for this long is removed from the group.",
        1,
    ),
    _consumer(
        "heartbeat.interval.ms",
        5_000,
        "The heartbeat interval given to members of this consumer group.",
        1,
    ),
    _consumer(
        "assignment.interval.ms",
        1_000,
        "The minimum time between two assignments of this consumer group.",
        0,
    ),
)
_SHARE: Final = (
    _share(
        "session.timeout.ms",
        INT,
        45_000,
        "A member of this share group that sends no heartbeat for this long is removed from the group.",
        at_least(1),
    ),
    _share(
        "heartbeat.interval.ms",
        INT,
        5_000,
        "The heartbeat interval given to members of this share group.",
        at_least(1),
    ),
    _share(
        "assignment.interval.ms",
        INT,
        1_000,
        "The minimum time between two assignments of this share group.",
        at_least(0),
    ),
    _share(
        "record.lock.duration.ms",
        INT,
        30_000,
        "How long a record that was delivered to a member is locked, so that no other member gets it.",
        at_least(1_000),
    ),
    _share(
        "delivery.count.limit",
        INT,
        5,
        "The maximum number of deliveries of a record that is not acknowledged.",
        at_least(2),
    ),
    _share(
        "partition.max.record.locks",
        INT,
        2_000,
        "The maximum number of records of a partition that members have locked at the same time.",
        at_least(100),
    ),
    _share(
        "auto.offset.reset",
        STRING,
        "latest",
        "Where the group starts in a partition that it has not read yet: earliest, latest, or "
        "by_duration:PnDTnHnMn.nS, which is this duration before now.",
        _OFFSET_RESET,
    ),
    _share(
        "isolation.level",
        STRING,
        "read_uncommitted",
        "With read_committed, records of transactions are delivered only after their commit.",
        one_of("read_committed", "read_uncommitted"),
    ),
    _share(
        "renew.acknowledge.enable",
        BOOLEAN,
        True,
        "If true, members may renew the locks of their records.",
    ),
)
_STREAMS: Final = tuple(
    _not_used("streams", name, INT, default, at_least(minimum))
    for name, default, minimum in (
        ("session.timeout.ms", 45_000, 1),
        ("heartbeat.interval.ms", 5_000, 1),
        ("assignment.interval.ms", 1_000, 0),
        ("num.standby.replicas", 0, 0),
        ("initial.rebalance.delay.ms", 3_000, 0),
    )
)

# Of share groups (KIP-1191).
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
COPIES_RECORDS: Final = "errors.deadletterqueue.copy.record.enable"
_DEAD_LETTERS: Final = (
    setting(
        DEAD_LETTER_TOPIC,
        STRING,
        "",
        "The topic that gets a dead letter for each record of this share group that was rejected, or was "
        "delivered as often as share.delivery.count.limit allows. Empty for none.",
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        COPIES_RECORDS,
        BOOLEAN,
        False,
        "If true, a dead letter has the key, value and headers of the record; otherwise only headers that "
        "describe it.",
        scope=ConfigScope.CLUSTER_WIDE,
    ),
)

OFFSETS_RETENTION: Final = "ottla.offsets.retention.ms"
RETRY_BACKOFF: Final = "ottla.share.retry.backoff.ms"
RETRY_BACKOFF_MAX: Final = "ottla.share.retry.backoff.max.ms"
AS_THE_BROKER: Final = -2
_OWN: Final = (
    setting(
        OFFSETS_RETENTION,
        LONG,
        AS_THE_BROKER,
        "How long to keep committed offsets that no member uses: -1 keeps them forever, -2 "
        "uses offsets.retention.minutes.",
        at_least(AS_THE_BROKER),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        RETRY_BACKOFF,
        INT,
        0,
        "How long a record of a share group that was released, or whose lock expired, waits before it is "
        "available again; the time doubles with each further delivery. 0 makes it available at once.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        RETRY_BACKOFF_MAX,
        INT,
        1_000,
        f"The maximum wait that results from {RETRY_BACKOFF}, however often the record was delivered.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
)

GROUP_CONFIG_DEF: Final = ConfigDef("group", (*_CONSUMER, *_SHARE, *_STREAMS, *_DEAD_LETTERS, *_OWN))


class _Limits(NamedTuple):
    """The broker settings that limit a setting of groups; None is no limit."""

    name: str
    minimum: str | None
    maximum: str | None


# In the order of Kafka's checks: the error names the first limit that is exceeded.
_LIMITS: Final = (
    *(
        _Limits(f"consumer.{what}", f"group.consumer.min.{what}", f"group.consumer.max.{what}")
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
    ),
    *(
        _Limits(f"share.{what}", f"group.share.min.{what}", f"group.share.max.{what}")
        for what in (
            "heartbeat.interval.ms",
            "session.timeout.ms",
            "record.lock.duration.ms",
            "delivery.count.limit",
            "partition.max.record.locks",
            "assignment.interval.ms",
        )
    ),
    *(
        _Limits(f"streams.{what}", f"group.streams.min.{what}", f"group.streams.max.{what}")
        for what in ("heartbeat.interval.ms", "session.timeout.ms")
    ),
    _Limits("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
    _Limits(
        "streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
)
# The settings that the group coordinator uses.
_MEMBERS: Final = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
_LIMITS_OF_MEMBERS: Final = tuple(
    limits
    for limits in _LIMITS
    if limits.name in {f"{kind}.{what}" for kind in ("consumer", "share") for what in _MEMBERS}
)
# The defaults of broker settings that Kafka has and Ottla does not honour.
_LIMITS_NOT_HONOURED: Final = {
    **{
        f"group.streams.{bound}.{what}": value
        for bound, what, value in (
            ("min", "heartbeat.interval.ms", 5_000),
            ("max", "heartbeat.interval.ms", 15_000),
            ("min", "session.timeout.ms", 45_000),
            ("max", "session.timeout.ms", 60_000),
            ("min", "assignment.interval.ms", 0),
            ("max", "assignment.interval.ms", 15_000),
        )
    },
    "group.streams.max.standby.replicas": 2,
}
_WITHOUT_BROKER_SETTING: Final = frozenset(
    {
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
        DEAD_LETTER_TOPIC,
        COPIES_RECORDS,
        OFFSETS_RETENTION,
        RETRY_BACKOFF,
        RETRY_BACKOFF_MAX,
    }
)


def broker_setting_of(name: str) -> str | None:
    """Return the broker setting used for groups without a value of their own; None if there is none."""
    return None if name in _WITHOUT_BROKER_SETTING else f"group.{name}"


def check_group_configs(broker: Mapping[str, ConfigValue], configs: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG, with Kafka's message, if a group may not have `configs` at such a broker."""
    given = {name: GROUP_CONFIG_DEF.parse(name, text) for name, text in configs.items()}
    for limits in _LIMITS:
        value = given.get(limits.name)
        if not isinstance(value, int):
            continue
        low, high = _bounds(broker, limits)
        if low is not None and value < low:
            raise _refused(f"{limits.name} must be greater than or equal to {limits.minimum}")
        if high is not None and value > high:
            raise _refused(f"{limits.name} must be less than or equal to {limits.maximum}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _held(broker, given, session) <= _held(broker, given, heartbeat):
            raise _refused(f"{session} must be greater than {heartbeat}")


def group_config_of(broker: Mapping[str, ConfigValue], configs: Mapping[str, str]) -> GroupConfig:
    """Return the effective settings of a group that has set `configs`, at a broker with these settings."""
    held: dict[str, int] = {}
    for limits in _LIMITS_OF_MEMBERS:
        text = configs.get(limits.name)
        value = broker[f"group.{limits.name}"] if text is None else GROUP_CONFIG_DEF.parse(limits.name, text)
        assert isinstance(value, int)
        low, high = _bounds(broker, limits)
        assert low is not None and high is not None
        held[limits.name] = min(max(value, low), high)
    return GroupConfig(
        consumer_session_timeout_ms=held["consumer.session.timeout.ms"],
        consumer_heartbeat_interval_ms=held["consumer.heartbeat.interval.ms"],
        consumer_assignment_interval_ms=held["consumer.assignment.interval.ms"],
        share_session_timeout_ms=held["share.session.timeout.ms"],
        share_heartbeat_interval_ms=held["share.heartbeat.interval.ms"],
        share_assignment_interval_ms=held["share.assignment.interval.ms"],
        offsets_retention_ms=_offsets_retention_ms(broker, configs),
    )


def _offsets_retention_ms(broker: Mapping[str, ConfigValue], configs: Mapping[str, str]) -> int:
    own = GROUP_CONFIG_DEF.parse(OFFSETS_RETENTION, configs.get(OFFSETS_RETENTION, str(AS_THE_BROKER)))
    minutes = broker["offsets.retention.minutes"]
    assert isinstance(own, int) and isinstance(minutes, int)
    return minutes * 60_000 if own == AS_THE_BROKER else own


def _held(broker: Mapping[str, ConfigValue], given: Mapping[str, ConfigValue], name: str) -> int:
    value = given.get(name, broker.get(f"group.{name}", GROUP_CONFIG_DEF.key(name).default))
    assert isinstance(value, int)
    return value


def _bounds(broker: Mapping[str, ConfigValue], limits: _Limits) -> tuple[int | None, int | None]:
    return _bound(broker, limits.minimum), _bound(broker, limits.maximum)


def _bound(broker: Mapping[str, ConfigValue], name: str | None) -> int | None:
    if name is None:
        return None
    value = broker.get(name, _LIMITS_NOT_HONOURED.get(name))
    assert isinstance(value, int), name
    return value


def _refused(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, detail)
