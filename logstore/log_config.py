"""The topic settings that a log obeys, and the broker settings from which they take their defaults.

`LogConfig` has the settings of one log: every topic setting of Kafka 4.4 as a typed attribute, with Kafka's
default, and those of delayed delivery, which Kafka does not have.

`TOPIC_CONFIG_DEF` is the table behind CreateTopics, AlterConfigs and DescribeConfigs. `BROKER_SYNONYMS` has
the broker settings that give a topic setting its default; the first that is set wins (`log.retention.ms`,
then `.minutes`, then `.hours`). `BROKER_LOG_KEYS` are those broker settings, for the broker's own table.

There is no tiered storage, so `remote.storage.enable=true` is rejected, as Kafka rejects it when tiered
storage is off. The other remote settings are accepted and shown but have no effect, as in Kafka.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from ottla.logstore.config_documentation import TOPIC_CONFIG_DOCUMENTATION
from ottla.logstore.words.config_def import (
    INT_MAX,
    LONG_MAX,
    ConfigDef,
    ConfigKey,
    ConfigScope,
    ConfigType,
    ConfigValue,
    Importance,
    Validator,
    at_least,
    between,
    between_or,
    invalid_value,
    list_of,
    one_of,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
VALIDATE_RECORDS = "validate.records"
MAX_DELAYED_RECORDS = 10_000_000  # of one share group in one partition: some 200 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic. An attribute has the name of its setting, with '_' for '.'."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * HOUR_MS
    errors_deadletterqueue_group_enable: bool = False
    file_delete_delay_ms: int = MINUTE_MS
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_decompressed_message_bytes: int = INT_MAX - 8
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_after_max_ms: int = HOUR_MS
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    ottla_delivery_delay_enable: bool = False
    # The default retention time: a record that waited for longer would be deleted before its delivery.
    ottla_delivery_delay_max_ms: int = 7 * 24 * HOUR_MS
    # Each takes some 20 bytes of memory in every share group that reads the partition.
    ottla_delivery_delay_max_records: int = 100_000
    ottla_delivery_delay_ms: int = 0
    preallocate: bool = False
    remote_copy_lag_bytes: int = -1
    remote_copy_lag_ms: int = 0
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * HOUR_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * 24 * HOUR_MS
    unclean_leader_election_enable: bool = False
    # A broker setting of Ottla, not a topic setting: open and check every record that is produced.
    validate_records: bool = True

    @property
    def compact(self) -> bool:
        """True if the cleaner keeps only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """True if old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """True if the broker sets the timestamps of batches by its own clock."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def opens_records(self) -> bool:
        """True if records are opened and checked when they are produced, not only counted."""
        return self.validate_records or self.compact or self.ottla_delivery_delay_enable

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled; in a compacted topic at most max.compaction.lag.ms."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @classmethod
    def from_configs(
        cls,
        topic_overrides: Mapping[str, str] | None = None,
        broker_values: Mapping[str, ConfigValue] | None = None,
    ) -> "LogConfig":
        """Return the settings of a topic with these overrides (texts) on a broker with these settings
        (typed).

        INVALID_CONFIG for an unknown name or an invalid value. The overrides come from the metadata; those of
        a request are judged by `check_topic_configs`.
        """
        broker_values = broker_values or {}
        values = topic_defaults(broker_values)
        for name, text in (topic_overrides or {}).items():
            values[name] = TOPIC_CONFIG_DEF.parse(name, text)
        segment_bytes = values.pop(INTERNAL_SEGMENT_BYTES)
        if segment_bytes is not None:
            values["segment.bytes"] = segment_bytes
        values[VALIDATE_RECORDS] = bool(broker_values.get(VALIDATE_RECORDS, True))
        arguments: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
        return cls(**arguments)


def topic_config(
    name: str, topic_overrides: Mapping[str, str], broker_values: Mapping[str, ConfigValue]
) -> ConfigValue:
    """Return one setting of a topic as `LogConfig.from_configs` computes it, without the others."""
    text = topic_overrides.get(name)
    if text is not None:
        return TOPIC_CONFIG_DEF.parse(name, text)
    return _default_of(TOPIC_CONFIG_DEF.key(name), broker_values)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSynonym:
    """A broker setting from which a topic setting takes its default, and the factor between their units."""

    name: str
    factor: int = 1


# The latest result: a node opens thousands of logs with the same settings, and computing them takes 40 us.
_last_defaults: tuple[Mapping[str, ConfigValue], Mapping[str, ConfigValue]] | None = None


def topic_defaults(broker_values: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Return the value of each topic setting on a broker with these settings, without overrides."""
    global _last_defaults
    last = _last_defaults
    if last is not None and last[0] is broker_values and type(broker_values) is MappingProxyType:
        return dict(last[1])
    defaults = {key.name: _default_of(key, broker_values) for key in TOPIC_CONFIG_DEF}
    _last_defaults = (broker_values, defaults)
    return dict(defaults)


def check_topic_configs(
    overrides: Mapping[str, str], broker_values: Mapping[str, ConfigValue] | None = None
) -> dict[str, ConfigValue]:
    """Return the typed overrides; raise INVALID_CONFIG if one is invalid or two contradict each other."""
    for name, text in overrides.items():
        if text is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
    typed = {name: TOPIC_CONFIG_DEF.parse(name, text) for name, text in overrides.items()}
    values = {**topic_defaults(broker_values or {}), **typed}
    check_compaction_lags(values)
    check_delivery_delay(values)
    if typed.get("remote.storage.enable"):
        raise invalid_value("remote.storage.enable", "true", "tiered storage is not supported; use false.")
    return typed


def check_compaction_lags(values: Mapping[str, ConfigValue]) -> None:
    """Reject a minimum compaction lag above the maximum; `values` are typed, by topic setting."""
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise invalid_value(
            "min.compaction.lag.ms",
            low,
            f"it must not be greater than max.compaction.lag.ms, which is {high}.",
        )


def check_delivery_delay(values: Mapping[str, ConfigValue]) -> None:
    """Reject a default delay above the longest; `values` are typed, by topic setting."""
    delay, longest = values["ottla.delivery.delay.ms"], values["ottla.delivery.delay.max.ms"]
    if isinstance(delay, int) and isinstance(longest, int) and delay > longest:
        raise invalid_value(
            "ottla.delivery.delay.ms",
            delay,
            f"it must not be greater than ottla.delivery.delay.max.ms, which is {longest}.",
        )


def _default_of(key: ConfigKey, broker_values: Mapping[str, ConfigValue]) -> ConfigValue:
    for synonym in BROKER_SYNONYMS.get(key.name, ()):
        value = broker_values.get(synonym.name)
        if value is None:
            continue
        if synonym.factor != 1 and isinstance(value, int):
            value = value * synonym.factor
        # Kafka reads every negative log.retention.* as "no limit".
        if key.name == "retention.ms" and isinstance(value, int):
            value = max(value, -1)
        return value
    return key.default


_THROTTLED_REPLICAS = re.compile(r"(?:\d++:\d++,)*+")


def _throttled_replicas_problem(value: ConfigValue) -> str | None:
    if isinstance(value, tuple):
        # One match for the whole list: it may have thousands of entries, and a request may have many lists.
        together = ",".join((*value, ""))
        if value == ("*",) or _THROTTLED_REPLICAS.fullmatch(together):
            return None
    return "it must be '*' or a list of PARTITION:BROKER pairs such as 0:1,1:2."


_THROTTLED = Validator(
    allowed="[partitionId]:[brokerId],[partitionId]:[brokerId],... or *",
    problem_of=_throttled_replicas_problem,
)
_DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(LogConfig)}


def _topic_key(name: str, type_: ConfigType, validator: Validator | None) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=type_,
        default=_DEFAULTS[name.replace(".", "_")],
        validator=validator,
        documentation=TOPIC_CONFIG_DOCUMENTATION[name],
        scope=ConfigScope.CLUSTER_WIDE,
    )


_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_LIST, _DOUBLE = ConfigType.LIST, ConfigType.DOUBLE

TOPIC_CONFIG_DEF = ConfigDef(
    "topic",
    (
        _topic_key("cleanup.policy", _LIST, list_of("compact", "delete")),
        _topic_key("compression.gzip.level", _INT, between_or(1, 9, -1)),
        _topic_key("compression.lz4.level", _INT, between(1, 17)),
        _topic_key(
            "compression.type", _STRING, one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
        ),
        _topic_key("compression.zstd.level", _INT, between(-131072, 22)),
        _topic_key("delete.retention.ms", _LONG, at_least(0)),
        _topic_key("errors.deadletterqueue.group.enable", _BOOLEAN, None),
        _topic_key("file.delete.delay.ms", _LONG, at_least(0)),
        _topic_key("flush.messages", _LONG, at_least(1)),
        _topic_key("flush.ms", _LONG, at_least(0)),
        _topic_key("follower.replication.throttled.replicas", _LIST, _THROTTLED),
        _topic_key("index.interval.bytes", _INT, at_least(0)),
        _topic_key("leader.replication.throttled.replicas", _LIST, _THROTTLED),
        _topic_key("local.retention.bytes", _LONG, at_least(-2)),
        _topic_key("local.retention.ms", _LONG, at_least(-2)),
        _topic_key("max.compaction.lag.ms", _LONG, at_least(1)),
        _topic_key("max.decompressed.message.bytes", _INT, at_least(1)),
        _topic_key("max.message.bytes", _INT, at_least(0)),
        _topic_key("message.timestamp.after.max.ms", _LONG, at_least(0)),
        _topic_key("message.timestamp.before.max.ms", _LONG, at_least(0)),
        _topic_key("message.timestamp.type", _STRING, one_of("CreateTime", "LogAppendTime")),
        _topic_key("min.cleanable.dirty.ratio", _DOUBLE, between(0, 1)),
        _topic_key("min.compaction.lag.ms", _LONG, at_least(0)),
        _topic_key("min.insync.replicas", _INT, at_least(1)),
        _topic_key("ottla.delivery.delay.enable", _BOOLEAN, None),
        _topic_key("ottla.delivery.delay.max.ms", _LONG, at_least(0)),
        _topic_key("ottla.delivery.delay.max.records", _INT, between(1, MAX_DELAYED_RECORDS)),
        _topic_key("ottla.delivery.delay.ms", _LONG, at_least(0)),
        _topic_key("preallocate", _BOOLEAN, None),
        _topic_key("remote.copy.lag.bytes", _LONG, at_least(-1)),
        _topic_key("remote.copy.lag.ms", _LONG, at_least(-1)),
        _topic_key("remote.log.copy.disable", _BOOLEAN, None),
        _topic_key("remote.log.delete.on.disable", _BOOLEAN, None),
        _topic_key("remote.storage.enable", _BOOLEAN, None),
        _topic_key("retention.bytes", _LONG, None),
        _topic_key("retention.ms", _LONG, at_least(-1)),
        _topic_key("segment.bytes", _INT, at_least(1 << 20)),
        _topic_key("segment.index.bytes", _INT, at_least(4)),
        _topic_key("segment.jitter.ms", _LONG, at_least(0)),
        _topic_key("segment.ms", _LONG, at_least(1)),
        _topic_key("unclean.leader.election.enable", _BOOLEAN, None),
        ConfigKey(
            name=INTERNAL_SEGMENT_BYTES,
            type=_INT,
            default=None,
            documentation="The segment size, without the minimum of segment.bytes; for tests only.",
            internal=True,
        ),
    ),
)


def _synonyms(*names: str | tuple[str, int]) -> tuple[BrokerSynonym, ...]:
    return tuple(
        BrokerSynonym(name=name) if isinstance(name, str) else BrokerSynonym(name=name[0], factor=name[1])
        for name in names
    )


BROKER_SYNONYMS: Mapping[str, tuple[BrokerSynonym, ...]] = {
    "cleanup.policy": _synonyms("log.cleanup.policy"),
    "compression.gzip.level": _synonyms("compression.gzip.level"),
    "compression.lz4.level": _synonyms("compression.lz4.level"),
    "compression.type": _synonyms("compression.type"),
    "compression.zstd.level": _synonyms("compression.zstd.level"),
    "delete.retention.ms": _synonyms("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _synonyms("log.segment.delete.delay.ms"),
    "flush.messages": _synonyms("log.flush.interval.messages"),
    "flush.ms": _synonyms("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": _synonyms("log.index.interval.bytes"),
    "local.retention.bytes": _synonyms("log.local.retention.bytes"),
    "local.retention.ms": _synonyms("log.local.retention.ms"),
    "max.compaction.lag.ms": _synonyms("log.cleaner.max.compaction.lag.ms"),
    "max.decompressed.message.bytes": _synonyms("max.decompressed.message.bytes"),
    "max.message.bytes": _synonyms("message.max.bytes"),
    "message.timestamp.after.max.ms": _synonyms("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _synonyms("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _synonyms("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _synonyms("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _synonyms("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _synonyms("min.insync.replicas"),
    "preallocate": _synonyms("log.preallocate"),
    "remote.copy.lag.bytes": _synonyms("log.remote.copy.lag.bytes"),
    "remote.copy.lag.ms": _synonyms("log.remote.copy.lag.ms"),
    "retention.bytes": _synonyms("log.retention.bytes"),
    "retention.ms": _synonyms(
        "log.retention.ms", ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)
    ),
    "segment.bytes": _synonyms("log.segment.bytes"),
    "segment.index.bytes": _synonyms("log.index.size.max.bytes"),
    "segment.jitter.ms": _synonyms("log.roll.jitter.ms", ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": _synonyms("log.roll.ms", ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": _synonyms("unclean.leader.election.enable"),
}

# The broker settings whose type, default or limits differ from those of the topic setting.
_BROKER_OWN = {
    "log.retention.ms": (_LONG, None, None),
    "log.retention.minutes": (_INT, None, None),
    "log.retention.hours": (_INT, 168, None),
    "log.roll.ms": (_LONG, None, at_least(1)),
    "log.roll.hours": (_INT, 168, at_least(1)),
    "log.roll.jitter.ms": (_LONG, None, at_least(0)),
    "log.roll.jitter.hours": (_INT, 0, at_least(0)),
    "log.flush.interval.ms": (_LONG, None, None),
    "log.flush.scheduler.interval.ms": (_LONG, LONG_MAX, None),
}
# These are read once, at start: of several synonyms, Kafka lets only the first change while a broker runs.
_BROKER_READ_ONLY = {
    "log.retention.minutes",
    "log.retention.hours",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.flush.scheduler.interval.ms",
}


def _broker_key(topic_key: ConfigKey, synonym: BrokerSynonym) -> ConfigKey:
    type_, default, validator = _BROKER_OWN.get(
        synonym.name, (topic_key.type, topic_key.default, topic_key.validator)
    )
    unit = {1: "", MINUTE_MS: ", in minutes", HOUR_MS: ", in hours"}[synonym.factor]
    return ConfigKey(
        name=synonym.name,
        type=type_,
        default=default,
        validator=validator,
        documentation=f"The default {topic_key.name} of topics that do not set it{unit}. "
        f"{topic_key.documentation}",
        importance=Importance.HIGH if topic_key.name.startswith("retention") else Importance.MEDIUM,
        scope=ConfigScope.READ_ONLY if synonym.name in _BROKER_READ_ONLY else ConfigScope.CLUSTER_WIDE,
    )


BROKER_LOG_KEYS: tuple[ConfigKey, ...] = (
    *(
        _broker_key(TOPIC_CONFIG_DEF.key(topic), entry)
        for topic, all_ in BROKER_SYNONYMS.items()
        for entry in all_
    ),
    ConfigKey(
        name=VALIDATE_RECORDS,
        type=_BOOLEAN,
        default=True,
        documentation="Whether the leader decompresses each batch of a client and checks every "
        "record, as Apache Kafka does. With false, only the batch header is "
        "checked, its checksum and sizes: compressed batches cost less, but a "
        "client can store records that no consumer can read.",
        scope=ConfigScope.CLUSTER_WIDE,
    ),
)
