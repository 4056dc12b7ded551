"""Parsing and printing of times and durations; durations as in java.time.Duration."""

import pytest

from ottla.node.client.moments import moment_text, parse_duration, parse_moment


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("2026-01-31T12:00:00.123", 1769860800123),
        ("2026-01-31", 1769817600000),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_time_is_parsed_to_milliseconds(text: str, ms: int) -> None:
    assert parse_moment(text) == ms


def test_every_millisecond_survives_a_round_trip() -> None:
    for ms in range(1769860800000, 1769860801000):
        assert parse_moment(moment_text(ms)) == ms


@pytest.mark.parametrize("ms", [2**63 - 1, -(2**63), 1_769_860_800_000_000])
def test_a_time_beyond_the_calendar_is_a_number(ms: int) -> None:
    """A client that writes microseconds is off by this much."""
    assert moment_text(ms) == f"{ms} ms"


@pytest.mark.parametrize("text", ["", "soon", "12:00", "2026-13-01", "1769860800000", "2026-01-31T25:00:00"])
def test_an_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a date"):
        parse_moment(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT20.345S", 20_345),
        ("PT15M", 900_000),
        ("PT10H", 36_000_000),
        ("P2D", 172_800_000),
        ("P2DT3H4M", 183_840_000),
        ("PT-6H3M", -21_420_000),
        ("-PT6H3M", -21_780_000),
        ("-PT-6H+3M", 21_420_000),
        ("pt1h", 3_600_000),
        ("PT-0.5S", -500),
        ("PT0.0009S", 0),
        ("P0D", 0),
        ("PT1,5S", 1_500),
    ],
)
def test_a_duration_is_parsed_as_by_java(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1H", "P1H", "PT1D", "P1Y", "PT1H1H", "PT.5S", "P1D "]
)
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)
