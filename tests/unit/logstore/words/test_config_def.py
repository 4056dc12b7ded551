"""Texts are parsed by the rules of Kafka 4.3, and rejected in one sentence."""

import time

import pytest

from ottla.logstore.words.config_def import (
    MAX_CONFIG_VALUE_LENGTH,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Validator,
    at_least,
    between,
    between_or,
    list_of,
    one_of,
    value_to_text,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError


def key(type_: ConfigType, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name="a.b", type=type_, default=None, documentation="", validator=validator)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (ConfigType.LONG, " 5 ", 5),
        (ConfigType.LONG, "+5", 5),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.INT, "2147483647", 2**31 - 1),
        (ConfigType.SHORT, "-32768", -32768),
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "False", False),
        (ConfigType.DOUBLE, "0.5f", 0.5),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.LIST, " compact , delete ", ("compact", "delete")),
        (ConfigType.LIST, "a,a", ("a",)),
        (ConfigType.LIST, "a,,b", ("a", "", "b")),
        (ConfigType.LIST, "  ", ()),
    ],
)
def test_a_text_is_parsed_as_kafka_parses_it(type_: ConfigType, text: str, value: ConfigValue) -> None:
    parsed = key(type_).parse(text)

    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (ConfigType.INT, "abc"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "0x10"),
        (ConfigType.INT, "9" * 5000),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.BOOLEAN, "maybe"),
        (ConfigType.DOUBLE, "NaN"),
        (ConfigType.DOUBLE, "1e999"),
        (ConfigType.DOUBLE, "abc"),
        (ConfigType.STRING, "x" * 40_000),
    ],
)
def test_a_value_of_another_type_is_rejected_with_its_setting(type_: ConfigType, text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        key(type_).parse(text)

    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.detail.startswith(f"Invalid value {text[:200]}")
    assert " for configuration a.b: it " in caught.value.detail
    assert len(caught.value.detail) < 400


@pytest.mark.parametrize(
    ("type_", "validator", "good", "bad", "problem"),
    [
        (ConfigType.INT, at_least(3), "3", "2", "it must be at least 3."),
        (ConfigType.DOUBLE, between(0, 1), "1", "1.5", "it must be at most 1."),
        (ConfigType.INT, between_or(1, 9, -1), "-1", "0", "it must be between 1 and 9, or -1."),
        (ConfigType.STRING, one_of("a", "b"), "b", "B", "it must be one of: a, b."),
        (ConfigType.STRING, one_of("a", "b", ignore_case=True), "B", "c", "it must be one of: a, b."),
        (ConfigType.LIST, list_of("a", "b"), "", "a,c", "every entry must be one of: a, b."),
        (ConfigType.LIST, list_of("a", may_be_empty=False), "a", "", "it must not be empty."),
    ],
)
def test_a_value_beyond_a_limit_is_rejected_with_the_limit(
    type_: ConfigType, validator: Validator, good: str, bad: str, problem: str
) -> None:
    limited = key(type_, validator)

    limited.parse(good)
    with pytest.raises(KafkaError) as caught:
        limited.parse(bad)

    assert caught.value.detail == f"Invalid value {bad} for configuration a.b: {problem}"


def test_a_sensitive_value_is_hidden_in_its_error() -> None:
    secret = ConfigKey(
        name="p",
        type=ConfigType.PASSWORD,
        default=None,
        documentation="",
        sensitive=True,
        validator=one_of("x"),
    )

    with pytest.raises(KafkaError) as caught:
        secret.parse("hunter2")

    assert "hunter2" not in caught.value.detail


def test_a_table_parses_all_settings_and_rejects_unknown_ones() -> None:
    table = ConfigDef("topic", (key(ConfigType.INT),))

    assert table.parse_all({}) == {"a.b": None}
    assert table.parse_all({"a.b": "1"}) == {"a.b": 1}
    with pytest.raises(KafkaError, match=r"Unknown topic config name: foo\.bar"):
        table.parse_all({"foo.bar": "1"})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (5, "5"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (1.5e-4, "1.5E-4"),
        (("a", "b"), "a,b"),
        ("x", "x"),
    ],
)
def test_values_are_shown_as_in_java(value: ConfigValue, text: str | None) -> None:
    assert value_to_text(value) == text


@pytest.mark.parametrize("type_", [one for one in ConfigType if one is not ConfigType.UNKNOWN])
@pytest.mark.parametrize("middle", ["9", " ", ",", ".", "e", "1.", "a,", ", ", "-"])
def test_parsing_takes_linear_time(type_: ConfigType, middle: str) -> None:
    began = time.thread_time()
    for text in (middle, f"a{middle}", f"9{middle}"):
        hostile = (text[0] + middle * MAX_CONFIG_VALUE_LENGTH)[: MAX_CONFIG_VALUE_LENGTH - 1] + "x"
        try:
            key(type_).parse(hostile)
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_CONFIG

    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("1.", 1.0), (".5", 0.5), ("1.5e3f", 1500.0), ("-1D", -1.0), (" +2.25 ", 2.25)],
)
def test_a_double_is_parsed_as_in_java(text: str, value: float) -> None:
    assert key(ConfigType.DOUBLE).parse(text) == value


@pytest.mark.parametrize("text", [".", "1e", "e5", "1.5.5", "NaN", "0x1p3", "1ff", ""])
def test_a_text_that_is_not_a_double_is_rejected(text: str) -> None:
    with pytest.raises(KafkaError):
        key(ConfigType.DOUBLE).parse(text)


@pytest.mark.parametrize(
    ("text", "value"), [("a , b,\ta", ("a", "b")), ("a b", ("a b",)), (" a,,b ", ("a", "", "b")), ("", ())]
)
def test_a_list_is_split_at_its_commas(text: str, value: tuple[str, ...]) -> None:
    assert key(ConfigType.LIST).parse(text) == value


@pytest.mark.parametrize("text", ["canary" * MAX_CONFIG_VALUE_LENGTH, "canary\0"])
def test_a_rejected_secret_is_not_shown(text: str) -> None:
    key = ConfigKey(
        name="a.password", type=ConfigType.PASSWORD, default=None, documentation="", sensitive=True
    )

    with pytest.raises(KafkaError, match="hidden") as refused:
        key.parse(text)

    assert "canary" not in refused.value.detail
