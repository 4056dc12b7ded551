"""Arguments of stream functions, as text from a job file."""

import pytest

from ottla.pipeline.streams.arguments import (
    interval_of,
    name_of,
    names_of,
    number_of,
    one_of,
    refuse_existing_columns,
)
from ottla.pipeline.words import OptionError

COLUMNS = ["carrier", "origin", "dest"]


def test_names_are_separated_by_commas() -> None:
    assert names_of(" carrier,dest ", "by", COLUMNS) == ["carrier", "dest"]
    assert names_of("", "by", COLUMNS, may_be_empty=True) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "by: needs the name of at least one column"),
        ("carrier, plane", "by: names 'plane', but the columns are carrier, dest, origin"),
        ("carrier,,dest", "by: names '', but the columns are carrier, dest, origin"),
        ("dest, dest", "by: names dest twice"),
        (",".join(["dest"] * 1_001), "by: has 1001 names; at most 1000 are allowed"),
    ],
)
def test_unknown_names_are_refused(text: str, problem: str) -> None:
    with pytest.raises(OptionError) as caught:
        names_of(text, "by", COLUMNS)

    assert str(caught.value) == problem


def test_a_name_is_one_column() -> None:
    assert name_of(" dest", "time", COLUMNS) == "dest"
    with pytest.raises(OptionError, match="time: names 'carrier, dest'"):
        name_of("carrier, dest", "time", COLUMNS)


def test_a_time_must_be_longer_than_zero_where_that_is_needed() -> None:
    assert interval_of("2 hours", "window") == "7200000 milliseconds"
    assert interval_of("0 ms", "watermark", may_be_zero=True) == "0 milliseconds"
    with pytest.raises(OptionError, match="window: must be longer than 0"):
        interval_of("0 ms", "window")
    with pytest.raises(OptionError, match="window: must be a number and a unit"):
        interval_of("-1 hour", "window")


def test_a_word_is_one_of_the_choices() -> None:
    assert one_of("left", "kind", ("inner", "left")) == "left"
    with pytest.raises(OptionError, match="kind: is 'outer'; it must be one of inner, left"):
        one_of("outer", "kind", ("inner", "left"))


@pytest.mark.parametrize("text", ["0", "11", "3.5", "", "three"])
def test_a_number_is_whole_and_within_bounds(text: str) -> None:
    assert number_of("10", "length", least=1, most=10) == 10
    with pytest.raises(OptionError, match="length: is "):
        number_of(text, "length", least=1, most=10)


def test_a_second_column_of_a_name_is_refused() -> None:
    refuse_existing_columns(["count"], "by", COLUMNS)
    with pytest.raises(OptionError, match="by: would add a second column dest"):
        refuse_existing_columns(["count", "dest"], "by", COLUMNS)
