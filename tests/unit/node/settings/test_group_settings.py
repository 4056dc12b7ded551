"""The settings of groups: of the node, of single groups, and the effective values of both."""

import re

import pytest

from ottla.groupcoord.coordinator_config import GroupConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators.group_configs import GroupConfigs
from ottla.node.settings.config import parse_config
from ottla.node.settings.coordinator_configs import coordinator_config
from ottla.node.settings.group_config_def import GROUP_CONFIG_DEF, check_group_configs, group_config_of
from ottla.node.settings.group_settings import assignor_names

MIN, MAX = (
    "must be greater than or equal to group.consumer.min.",
    "must be less than or equal to group.consumer.",
)
HEARTBEAT, SESSION = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
ASSIGNMENT = "group.consumer.assignment.interval.ms"

# Settings, and the errors of Apache Kafka 4.3.1's GroupCoordinatorConfig.
REFUSED_AT_START: list[tuple[dict[str, str], str]] = [
    ({HEARTBEAT: "4999"}, f"{HEARTBEAT} {MIN}heartbeat.interval.ms"),
    ({HEARTBEAT: "15001"}, f"{HEARTBEAT} {MAX}max.heartbeat.interval.ms"),
    ({SESSION: "44999"}, f"{SESSION} {MIN}session.timeout.ms"),
    ({SESSION: "60001"}, f"{SESSION} {MAX}max.session.timeout.ms"),
    ({ASSIGNMENT: "15001"}, f"{ASSIGNMENT} {MAX}max.assignment.interval.ms"),
    ({"group.consumer.min.assignment.interval.ms": "1001"}, f"{ASSIGNMENT} {MIN}assignment.interval.ms"),
    (
        {"group.consumer.min.session.timeout.ms": "70000"},
        f"group.consumer.max.session.timeout.ms {MIN}session.timeout.ms",
    ),
    (
        {"group.consumer.min.heartbeat.interval.ms": "20000"},
        f"group.consumer.max.heartbeat.interval.ms {MIN}heartbeat.interval.ms",
    ),
    (
        {"group.consumer.min.assignment.interval.ms": "20000"},
        f"group.consumer.max.assignment.interval.ms {MIN}assignment.interval.ms",
    ),
    (
        {HEARTBEAT: "45000", "group.consumer.max.heartbeat.interval.ms": "60000"},
        f"{HEARTBEAT} must be less than {SESSION}",
    ),
]


@pytest.mark.parametrize(("texts", "sentence"), REFUSED_AT_START)
def test_a_node_does_not_start_with_contradicting_settings_of_groups(
    texts: dict[str, str], sentence: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_config(texts)

    assert (refused.value.code, refused.value.detail) == (ErrorCode.INVALID_CONFIG, sentence)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group.consumer.assignors", ""),
        ("group.consumer.assignors", "Range"),
        ("group.consumer.assignors", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"),
        ("group.coordinator.rebalance.protocols", "consumer"),
        ("group.coordinator.rebalance.protocols", "Classic"),
        ("group.coordinator.rebalance.protocols", "classic,foo"),
        ("group.coordinator.rebalance.protocols", ""),
        ("group.consumer.regex.refresh.interval.ms", "9999"),
        ("group.consumer.max.size", "0"),
        ("group.consumer.migration.policy", "sideways"),
        ("group.consumer.migration.policy", ""),
    ],
)
def test_a_value_that_kafka_rejects_is_rejected(name: str, text: str) -> None:
    with pytest.raises(KafkaError, match=name.replace(".", r"\.")) as refused:
        parse_config({name: text})

    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_an_assignor_has_its_name_or_that_of_kafkas_class() -> None:
    kafkas = "org.apache.kafka.coordinator.group.assignor."

    assert assignor_names(("uniform", "range")) == ("uniform", "range")
    assert assignor_names((f"{kafkas}RangeAssignor", "range", f"{kafkas}UniformAssignor")) == (
        "range",
        "uniform",
    )


@pytest.mark.parametrize("text", ["bidirectional", "BiDirectional", "upgrade", "DOWNGRADE", "disabled"])
def test_the_case_of_the_migration_policy_does_not_matter(text: str) -> None:
    config = coordinator_config(parse_config({"group.consumer.migration.policy": text}))

    assert config.group_consumer_migration_policy.value == text.lower()


def test_the_group_coordinator_gets_the_settings_of_the_broker() -> None:
    texts = {
        "group.consumer.session.timeout.ms": "46000",
        "group.consumer.heartbeat.interval.ms": "6000",
        "group.consumer.assignment.interval.ms": "2000",
        "group.consumer.max.size": "7",
        "group.consumer.assignors": "range",
        "group.consumer.regex.refresh.interval.ms": "10000",
    }

    config = coordinator_config(parse_config(texts))

    values = {name.replace(".", "_"): int(text) for name, text in texts.items() if text.isdigit()}
    assert {name: getattr(config, name) for name in values} == values
    assert config.group_consumer_assignors == ("range",)


def test_a_shorter_session_is_allowed_with_a_lower_minimum() -> None:
    config = parse_config({"group.consumer.min.session.timeout.ms": "6000", SESSION: "7000"})

    assert config.group_consumer_session_timeout_ms == 7000 and not config.warnings


def test_the_assignment_interval_can_be_changed_within_its_limits_while_the_node_runs() -> None:
    static = parse_config({"group.consumer.min.assignment.interval.ms": "500"})

    assert static.with_dynamic({ASSIGNMENT: "2000"}, {}).group_consumer_assignment_interval_ms == 2000
    assert static.with_dynamic({ASSIGNMENT: "2000"}, {ASSIGNMENT: "3000"}).values[ASSIGNMENT] == 3000
    held = static.with_dynamic({ASSIGNMENT: "100"}, {})  # it was set before a restart raised the minimum
    assert held.group_consumer_assignment_interval_ms == 500 and ASSIGNMENT in held.warnings[0]
    with pytest.raises(KafkaError, match=f"{ASSIGNMENT} {MIN}assignment"):
        static.check_dynamic({ASSIGNMENT: "100"})
    static.check_dynamic({"log.retention.ms": "1"})


TOO_HIGH, TOO_LOW = "must be less than or equal to", "must be greater than or equal to"
# Settings, and the start of Apache Kafka 4.3.1's errors to IncrementalAlterConfigs, all INVALID_CONFIG.
REFUSED_OF_A_GROUP: list[tuple[dict[str, str], str]] = [
    ({"consumer.session.timeout.ms": "1"}, f"consumer.session.timeout.ms {TOO_LOW} group.consumer.min."),
    ({"consumer.session.timeout.ms": "60001"}, f"consumer.session.timeout.ms {TOO_HIGH} group.consumer.max."),
    (
        {"consumer.heartbeat.interval.ms": "1"},
        f"consumer.heartbeat.interval.ms {TOO_LOW} group.consumer.min.",
    ),
    (
        {"consumer.heartbeat.interval.ms": "15001"},
        f"consumer.heartbeat.interval.ms {TOO_HIGH} group.consumer",
    ),
    ({"consumer.assignment.interval.ms": "15001"}, f"consumer.assignment.interval.ms {TOO_HIGH} group."),
    (
        {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "1"},
        f"consumer.heartbeat.interval.ms {TOO_LOW} group.consumer.min.heartbeat.interval.ms",
    ),
    ({"share.session.timeout.ms": "1"}, f"share.session.timeout.ms {TOO_LOW} group.share.min."),
    ({"share.record.lock.duration.ms": "70000"}, f"share.record.lock.duration.ms {TOO_HIGH} group.share.max"),
    ({"share.delivery.count.limit": "100"}, f"share.delivery.count.limit {TOO_HIGH} group.share.max."),
    ({"share.partition.max.record.locks": "500000"}, f"share.partition.max.record.locks {TOO_HIGH} group."),
    ({"streams.num.standby.replicas": "3"}, f"streams.num.standby.replicas {TOO_HIGH} group.streams.max."),
    ({"streams.assignment.interval.ms": "99999"}, f"streams.assignment.interval.ms {TOO_HIGH} group."),
    ({"consumer.heartbeat.interval.ms": "0"}, "Invalid value 0 for configuration consumer.heartbeat"),
    ({"consumer.heartbeat.interval.ms": ""}, "Invalid value  for configuration consumer.heartbeat"),
    ({"share.isolation.level": "READ_COMMITTED"}, "Invalid value READ_COMMITTED for configuration share."),
    ({"share.renew.acknowledge.enable": "maybe"}, "Invalid value maybe for configuration share."),
    ({"consumer.assignor.offload.enable": "true"}, "Unknown group config name: consumer.assignor."),
    ({"group.consumer.session.timeout.ms": "50000"}, "Unknown group config name: group.consumer."),
]


@pytest.mark.parametrize(("configs", "sentence"), REFUSED_OF_A_GROUP)
def test_a_group_setting_beyond_the_limits_of_the_broker_is_rejected(
    configs: dict[str, str], sentence: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        check_group_configs(parse_config({}).values, configs)

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.detail.startswith(sentence)


def test_the_session_timeout_of_a_group_must_be_longer_than_its_heartbeat_interval() -> None:
    wide = {
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.max.heartbeat.interval.ms": "50000",
    }
    values = parse_config(wide).values

    check_group_configs(values, {"consumer.session.timeout.ms": "6000"})
    for configs in (
        {"consumer.heartbeat.interval.ms": "45000"},
        {"consumer.session.timeout.ms": "7000", "consumer.heartbeat.interval.ms": "7000"},
    ):
        with pytest.raises(KafkaError, match=r"timeout\.ms must be greater than consumer\.heartbeat"):
            check_group_configs(values, configs)


JAVA_DURATIONS = [
    *(
        (text, True)
        for text in ("P1D", "PT1H", "PT1.5S", "PT1,5S", "pt1h", "+PT1H", "PT+1H", "PT0S", "PT1.S")
    ),
    ("P1DT1H1M1.123456789S", True),
    *((text, False) for text in ("", "P", "PT", "P1DT", "PT.5S", "P-1D", "PT-1H", "-PT1H", "P1W", "PT1M1H")),
    *((text, False) for text in ("PT1.1234567891S", " PT1H", "P99999999999999999999D")),
]


@pytest.mark.parametrize(("text", "is_taken"), JAVA_DURATIONS)
def test_durations_are_read_as_java_reads_them(text: str, is_taken: bool) -> None:
    configs = {"share.auto.offset.reset": f"by_duration:{text}"}

    if is_taken:
        check_group_configs(parse_config({}).values, configs)
    else:
        with pytest.raises(KafkaError, match=r"share\.auto\.offset\.reset"):
            check_group_configs(parse_config({}).values, configs)


def test_a_group_may_have_the_defaults_and_other_valid_values() -> None:
    values = parse_config({}).values
    texts = {key.name: str(key.default).lower() for key in GROUP_CONFIG_DEF}

    check_group_configs(values, {})
    check_group_configs(values, texts)
    check_group_configs(
        values, {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    )


def test_group_settings_are_kept_within_the_current_limits_of_the_broker() -> None:
    values = parse_config(
        {"group.consumer.max.session.timeout.ms": "50000", "group.consumer.min.assignment.interval.ms": "700"}
    ).values
    configs = {
        "consumer.session.timeout.ms": "55000",
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.assignment.interval.ms": "0",
    }

    held = group_config_of(values, configs)

    assert held == GroupConfig(
        consumer_session_timeout_ms=50_000,
        consumer_heartbeat_interval_ms=6_000,
        consumer_assignment_interval_ms=700,
        share_session_timeout_ms=45_000,
        share_heartbeat_interval_ms=5_000,
        share_assignment_interval_ms=1_000,
        offsets_retention_ms=7 * 24 * 60 * 60_000,
    )


def test_share_group_settings_are_kept_within_the_current_limits_of_the_broker() -> None:
    values = parse_config(
        {"group.share.max.session.timeout.ms": "50000", "group.share.min.assignment.interval.ms": "700"}
    ).values
    configs = {
        "share.session.timeout.ms": "55000",
        "share.heartbeat.interval.ms": "6000",
        "share.assignment.interval.ms": "0",
    }

    held = group_config_of(values, configs)

    assert (held.share_session_timeout_ms, held.share_heartbeat_interval_ms) == (50_000, 6_000)
    assert held.share_assignment_interval_ms == 700


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"group.share.max.size": "0"}, "group.share.max.size"),
        ({"group.share.max.size": "1001"}, "group.share.max.size"),
        ({"group.share.assignors": "range"}, "group.share.assignors"),
        ({"group.share.assignors": ""}, "group.share.assignors"),
        (
            {"group.share.session.timeout.ms": "70000"},
            "group.share.session.timeout.ms must be less than or equal to group.share.max.session.timeout.ms",
        ),
        (
            {"group.share.min.heartbeat.interval.ms": "20000"},
            "group.share.max.heartbeat.interval.ms must be greater than or equal to group.share.min",
        ),
        (
            {
                "group.share.heartbeat.interval.ms": "45000",
                "group.share.max.heartbeat.interval.ms": "45000",
            },
            "group.share.heartbeat.interval.ms must be less than group.share.session.timeout.ms",
        ),
    ],
)
def test_contradicting_settings_of_share_groups_are_rejected(settings: dict[str, str], words: str) -> None:
    with pytest.raises(KafkaError, match=re.escape(words)):
        parse_config(settings)


@pytest.mark.parametrize(("own", "held_ms"), [(None, 120_000), ("-2", 120_000), ("-1", -1), ("5000", 5_000)])
def test_the_retention_of_offsets_is_that_of_the_group_or_of_the_broker(
    own: str | None, held_ms: int
) -> None:
    values = parse_config({"offsets.retention.minutes": "2"}).values

    held = group_config_of(values, {} if own is None else {"ottla.offsets.retention.ms": own})

    assert held.offsets_retention_ms == held_ms


def test_a_change_of_the_broker_applies_at_once_to_a_group_without_settings() -> None:
    config = parse_config({})
    own: dict[str, dict[str, str]] = {"own": {"consumer.assignment.interval.ms": "5"}}
    configs = GroupConfigs(lambda: config.values, lambda group_id: own.get(group_id, {}))

    before = configs("g").consumer_assignment_interval_ms
    config = config.with_dynamic({ASSIGNMENT: "2000"}, {})

    assert (before, configs("g").consumer_assignment_interval_ms) == (1000, 2000)
    assert configs("own").consumer_assignment_interval_ms == 5
    del own["own"]
    assert configs("own").consumer_assignment_interval_ms == 2000
