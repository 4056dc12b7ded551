"""The topic settings: all of Kafka 4.4's, with its defaults and cross checks."""

from dataclasses import fields

import pytest

from ottla.logstore.log_config import (
    BROKER_LOG_KEYS,
    BROKER_SYNONYMS,
    TOPIC_CONFIG_DEF,
    LogConfig,
    check_topic_configs,
    topic_config,
    topic_defaults,
)
from ottla.logstore.words.config_def import ConfigDef, ConfigValue
from ottla.logstore.words.errors import ErrorCode, KafkaError

SHOWN_CONFIGS_OF_KAFKA_4_4 = 37
SHOWN_CONFIGS_OF_OURS = 4  # those of delayed delivery


def test_every_topic_config_of_kafka_is_there_and_documented() -> None:
    shown = [key for key in TOPIC_CONFIG_DEF if not key.internal]

    assert len(shown) == SHOWN_CONFIGS_OF_KAFKA_4_4 + SHOWN_CONFIGS_OF_OURS
    ours = [key.name for key in shown if key.name.startswith("ottla.")]
    assert len(ours) == SHOWN_CONFIGS_OF_OURS
    assert {key.name.replace(".", "_") for key in shown} | {"validate_records"} == {
        field.name for field in fields(LogConfig)
    }
    for key in shown:
        assert key.documentation.endswith(".")
        key.check(key.default)


def test_broker_settings_without_values_give_the_defaults() -> None:
    brokers = ConfigDef("broker", BROKER_LOG_KEYS)

    assert LogConfig.from_configs({}, brokers.parse_all({})) == LogConfig() == LogConfig.from_configs()
    assert {entry.name for entries in BROKER_SYNONYMS.values() for entry in entries} < set(brokers.keys)


@pytest.mark.parametrize(
    ("broker", "name", "value"),
    [
        ({"log.retention.hours": 1}, "retention.ms", 3_600_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 1}, "retention.ms", 60_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 1, "log.retention.ms": 1}, "retention.ms", 1),
        ({"log.retention.hours": -1}, "retention.ms", -1),
        ({"log.roll.hours": 2}, "segment.ms", 7_200_000),
        ({"log.flush.scheduler.interval.ms": 5}, "flush.ms", 5),
        ({"log.flush.interval.ms": 7, "log.flush.scheduler.interval.ms": 5}, "flush.ms", 7),
        ({"message.max.bytes": 9}, "max.message.bytes", 9),
    ],
)
def test_a_topic_takes_its_defaults_from_the_broker(
    broker: dict[str, ConfigValue], name: str, value: ConfigValue
) -> None:
    assert topic_defaults(broker)[name] == value
    assert topic_config(name, {}, broker) == value
    assert getattr(LogConfig.from_configs({}, broker), name.replace(".", "_")) == value


def test_topic_overrides_take_precedence_over_broker_settings() -> None:
    overrides = {
        "retention.ms": "5",
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "LogAppendTime",
    }
    broker: dict[str, ConfigValue] = {"log.retention.ms": 9, "validate.records": True}

    config = LogConfig.from_configs(overrides, broker)

    assert config.retention_ms == topic_config("retention.ms", overrides, broker) == 5
    assert config.cleanup_policy == topic_config("cleanup.policy", overrides, broker)
    assert config.compact and config.delete and config.log_append_time and config.validate_records


def test_internal_segment_bytes_may_be_below_the_minimum() -> None:
    assert LogConfig.from_configs({"internal.segment.bytes": "1000"}).segment_bytes == 1000


def test_compacted_topics_roll_within_the_compaction_lag() -> None:
    compacted = LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=10, segment_ms=20)

    assert compacted.max_segment_ms == 10
    assert LogConfig(max_compaction_lag_ms=10, segment_ms=20).max_segment_ms == 20


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"foo.bar": "1"}, "Unknown topic config name: foo.bar"),
        (
            {"segment.bytes": "5"},
            "Invalid value 5 for configuration segment.bytes: it must be at least 1048576.",
        ),
        ({"remote.storage.enable": "true"}, "tiered storage is not supported"),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
            "Invalid value 100 for configuration min.compaction.lag.ms",
        ),
        (
            {"ottla.delivery.delay.ms": "8", "ottla.delivery.delay.max.ms": "7"},
            "Invalid value 8 for configuration ottla.delivery.delay.ms: "
            "it must not be greater than ottla.delivery.delay.max.ms, which is 7.",
        ),
        ({"ottla.delivery.delay.max.records": "0"}, "it must be at least 1."),
        ({"ottla.delivery.delay.ms": "-1"}, "it must be at least 0"),
        ({"leader.replication.throttled.replicas": "foo"}, "PARTITION:BROKER"),
        ({"cleanup.policy": "compact,foo"}, "every entry must be one of: compact, delete."),
    ],
)
def test_invalid_topic_settings_are_rejected(overrides: dict[str, str], sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_configs(overrides)

    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert sentence in caught.value.detail


def test_valid_topic_settings_are_accepted() -> None:
    typed = check_topic_configs(
        {
            "cleanup.policy": "",
            "leader.replication.throttled.replicas": "*",
            "follower.replication.throttled.replicas": "0:1,1:2",
            "remote.log.copy.disable": "true",
        }
    )

    assert typed["cleanup.policy"] == ()
