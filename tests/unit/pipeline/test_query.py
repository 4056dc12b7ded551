"""Intervals as text, and the calls that start a query."""

from unittest.mock import MagicMock

import pytest

from ottla.pipeline.query import AvailableNow, ProcessingTime, QuerySettings, parse_interval_ms
from ottla.pipeline.words import OptionError


@pytest.mark.parametrize(
    ("text", "interval_ms"),
    [
        ("0 seconds", 0),
        ("500 ms", 500),
        ("1 second", 1000),
        ("2 Minutes", 120_000),
        ("1h", 3_600_000),
        ("366 days", 31_622_400_000),
    ],
)
def test_intervals_are_written_as_for_spark(text: str, interval_ms: int) -> None:
    assert parse_interval_ms(text, "trigger") == interval_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "second",
        "1",
        "-1 second",
        "1.5 seconds",
        "1 fortnight",
        "1 second 2 ms",
        "367 days",
        "9" * 13 + " ms",
    ],
)
def test_an_invalid_interval_is_named(text: str) -> None:
    with pytest.raises(OptionError, match=r"trigger\.processingTime: (must be|is) "):
        parse_interval_ms(text, "trigger.processingTime")


@pytest.mark.parametrize(
    ("trigger", "arguments"),
    [
        (ProcessingTime(interval_ms=1500), {"processingTime": "1500 milliseconds"}),
        (AvailableNow(), {"availableNow": True}),
    ],
)
def test_a_query_is_started_as_it_is_set(
    trigger: ProcessingTime | AvailableNow, arguments: dict[str, object]
) -> None:
    writer = MagicMock()
    for name in ("queryName", "outputMode", "option", "trigger"):
        getattr(writer, name).return_value = writer

    started = QuerySettings(name="a.b", checkpoint="/c", trigger=trigger, output_mode="complete").start(
        writer
    )

    writer.queryName.assert_called_once_with("a.b")
    writer.outputMode.assert_called_once_with("complete")
    writer.option.assert_called_once_with("checkpointLocation", "/c")
    writer.trigger.assert_called_once_with(**arguments)
    assert started is writer.start.return_value
