"""The settings of a subscription to client metrics are checked as by Kafka's ClientMetricsConfigs."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.client_metrics_config_def import (
    DEFAULT_INTERVAL_MS,
    MAX_MATCH_CHARS,
    MAX_MATCH_ENTRIES,
    check_client_metrics_configs,
    parse_client_metrics_config,
)

INVALID_REQUEST, INVALID_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


def test_a_subscription_without_settings_has_the_defaults() -> None:
    assert parse_client_metrics_config({}) == ((), DEFAULT_INTERVAL_MS, ())


def test_lists_are_split_and_trimmed() -> None:
    texts = {"metrics": " a. , b.", "match": "client_id = x=, client_software_name=y z"}

    found = parse_client_metrics_config(texts)

    assert found.metrics == ("a.", "b.")
    assert found.match == (("client_id", "x"), ("client_software_name", "y z"))


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("unknown", "1", INVALID_REQUEST),
        ("interval.ms", "99", INVALID_REQUEST),
        ("interval.ms", "100", None),
        ("interval.ms", "3600000", None),
        ("interval.ms", "3600001", INVALID_REQUEST),
        ("interval.ms", "soon", INVALID_CONFIG),
        ("metrics", "", None),
        ("metrics", "*", None),
        ("metrics", "a.,a.", None),
        ("metrics", "a.,", INVALID_CONFIG),
        ("match", "", None),
        ("match", "client_id=", INVALID_CONFIG),
        ("match", "client_id", INVALID_CONFIG),
        ("match", "client_id=a=b", INVALID_CONFIG),
        ("match", "client_id=a=", None),
        ("match", "client_name=a", INVALID_CONFIG),
        ("match", "client_id=(", INVALID_CONFIG),
        ("match", "client_id=(?=a)", INVALID_CONFIG),  # RE2 has no look-ahead
        ("match", "client_id=[a-z]{2,3}", INVALID_CONFIG),  # Kafka splits at the comma, too
        ("match", ",".join(f"client_id={number}" for number in range(MAX_MATCH_ENTRIES)), None),
        ("match", ",".join(f"client_id={number}" for number in range(MAX_MATCH_ENTRIES + 1)), INVALID_CONFIG),
        ("match", ",".join(f"client_id={str(number) * 900}" for number in range(6)), INVALID_CONFIG),
    ],
)
def test_values_that_a_subscription_may_have(name: str, value: str, code: ErrorCode | None) -> None:
    found = None
    try:
        check_client_metrics_configs({name: value})
    except KafkaError as error:
        found = error.code

    assert found is code
    assert MAX_MATCH_CHARS < 6 * 900
