"""The settings of a share group: its own within the node's limits, or the node's."""

import pytest

from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.config import parse_config
from ottla.node.settings.group_config_def import check_group_configs
from ottla.node.share.share_group_settings import (
    DeadLetterSettings,
    OffsetReset,
    ShareGroupConfigs,
    parse_offset_reset,
)

HOUR_MS = 3_600_000


def node(**settings: str) -> ShareGroupConfigs:
    values = parse_config({name.replace("_", "."): text for name, text in settings.items()}).values
    return ShareGroupConfigs(lambda: values, lambda group: {})


def with_own(own: dict[str, str], **settings: str) -> ShareGroupConfigs:
    values = parse_config({name.replace("_", "."): text for name, text in settings.items()}).values
    return ShareGroupConfigs(lambda: values, lambda group: own if group == "own" else {})


def test_a_group_without_settings_has_those_of_the_node() -> None:
    settings = node(group_share_record_lock_duration_ms="20000", group_share_delivery_count_limit="7")("g")

    assert settings.config.record_lock_duration_ms == 20_000
    assert settings.config.delivery_count_limit == 7
    assert settings.config.partition_max_record_locks == 2_000
    assert settings.config.renew_acknowledge_enable
    assert settings.isolation is FetchIsolation.HIGH_WATERMARK
    assert settings.offset_reset == OffsetReset()


def test_a_group_has_settings_of_its_own() -> None:
    configs = with_own(
        {
            "share.record.lock.duration.ms": "45000",
            "share.partition.max.record.locks": "300",
            "share.isolation.level": "read_committed",
            "share.auto.offset.reset": "earliest",
            "share.renew.acknowledge.enable": "false",
        }
    )

    settings = configs("own")

    assert settings.config.record_lock_duration_ms == 45_000
    assert settings.config.partition_max_record_locks == 300
    assert settings.config.delivery_count_limit == 5
    assert not settings.config.renew_acknowledge_enable
    assert settings.isolation is FetchIsolation.TXN_COMMITTED
    assert settings.offset_reset.is_earliest
    assert configs("other").config.record_lock_duration_ms == 30_000


def test_a_setting_beyond_the_nodes_limits_becomes_the_nearest_limit() -> None:
    configs = with_own(
        {"share.delivery.count.limit": "10", "share.record.lock.duration.ms": "15000"},
        group_share_max_delivery_count_limit="6",
        group_share_min_record_lock_duration_ms="25000",
    )

    settings = configs("own")

    assert settings.config.delivery_count_limit == 6
    assert settings.config.record_lock_duration_ms == 25_000


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("by_duration:PT1H", HOUR_MS),
        ("by_duration:P1DT2H3M4.5S", 26 * HOUR_MS + 3 * 60_000 + 4_500),
        ("by_duration:+P2D", 48 * HOUR_MS),
        ("by_duration:pt0.0015s", 1),
        ("by_duration:PT0S", 0),
    ],
)
def test_a_duration_is_read_as_java_reads_it(text: str, duration_ms: int) -> None:
    assert parse_offset_reset(text) == OffsetReset(duration_ms=duration_ms)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"group.share.delivery.count.limit": "8", "group.share.max.delivery.count.limit": "6"},
            "group.share.max.delivery.count.limit must be greater than or equal to "
            "group.share.delivery.count.limit",
        ),
        (
            {"group.share.record.lock.duration.ms": "1000"},
            "group.share.record.lock.duration.ms must be greater than or equal to "
            "group.share.min.record.lock.duration.ms",
        ),
        (
            {"group.share.max.share.sessions": "100"},
            "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_rejected_with_kafkas_messages(
    settings: dict[str, str], words: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_config(settings)

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert words in refused.value.detail


@pytest.mark.parametrize(
    ("own", "waits"),
    [
        ({}, [0, 0, 0, 0]),
        ({"ottla.share.retry.backoff.ms": "300"}, [300, 600, 1_000, 1_000]),
        (
            {"ottla.share.retry.backoff.ms": "300", "ottla.share.retry.backoff.max.ms": "60000"},
            [300, 600, 1_200, 2_400],
        ),
        ({"ottla.share.retry.backoff.ms": "5000"}, [1_000, 1_000, 1_000, 1_000]),
        ({"ottla.share.retry.backoff.ms": "5", "ottla.share.retry.backoff.max.ms": "0"}, [0, 0, 0, 0]),
    ],
)
def test_a_group_waits_longer_with_each_delivery_up_to_its_maximum(
    own: dict[str, str], waits: list[int]
) -> None:
    config = with_own(own)("own").config

    assert [config.backoff_ms(count) for count in (1, 2, 3, 4)] == waits


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, None),
        ({"errors.deadletterqueue.topic.name": ""}, None),
        ({"errors.deadletterqueue.copy.record.enable": "true"}, None),
        ({"errors.deadletterqueue.topic.name": "dlq.t"}, DeadLetterSettings(topic="dlq.t")),
        (
            {
                "errors.deadletterqueue.topic.name": "dlq.t",
                "errors.deadletterqueue.copy.record.enable": "true",
            },
            DeadLetterSettings(topic="dlq.t", copies_records=True),
        ),
    ],
)
def test_a_group_sets_records_aside_if_it_has_a_topic_for_dead_letters(
    own: dict[str, str], expected: DeadLetterSettings | None
) -> None:
    settings = with_own(own)("own")

    assert settings.dead_letters == expected
    assert settings.config.sets_aside == (expected is not None)


@pytest.mark.parametrize("value", ["-1", "2147483648", "a while"])
@pytest.mark.parametrize("name", ["ottla.share.retry.backoff.ms", "ottla.share.retry.backoff.max.ms"])
def test_a_back_off_is_a_number_of_milliseconds(name: str, value: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_group_configs(parse_config({}).values, {name: value})

    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_groups_have_dead_letters_when_all_nodes_support_them() -> None:
    """`share.version` 2, as in Apache Kafka 4.4 (KAFKA-20415)."""
    knows = False
    values, own = parse_config({}).values, {"errors.deadletterqueue.topic.name": "dlq.t"}
    settings = ShareGroupConfigs(lambda: values, lambda group: own, has_dead_letters=lambda: knows)
    assert settings("g").dead_letters is None and not settings("g").config.sets_aside

    knows = True

    assert settings("g").dead_letters is not None and settings("g").config.sets_aside
