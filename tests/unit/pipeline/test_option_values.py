"""Options of connectors: errors have the option's name, and no option is ignored."""

from collections.abc import Callable

import pytest

from ottla.pipeline.option_values import OptionValues
from ottla.pipeline.words import OptionError

Read = Callable[[OptionValues], object]


def test_names_have_any_case_and_values_lose_their_blanks() -> None:
    values = OptionValues({"Batch.Max.Rows": " 7 ", "MODE": "Bulk", "key": "a, b"})

    assert values.integer("batch.max.rows", 1, least=1, most=9) == 7
    assert values.choice("mode", ["bulk"]) == "bulk"
    assert values.names("key") == ("a", "b")
    values.refuse_others()


def test_a_missing_option_has_its_default() -> None:
    values = OptionValues({})

    assert values.optional("a") is None
    assert values.text("a", "b") == "b"
    assert values.integer("a", 3, least=1, most=9) == 3
    assert values.boolean("a", True) is True
    assert values.choice("a", ["x"], "x") == "x"
    assert values.names("a") == ()


@pytest.mark.parametrize(
    ("value", "read", "message"),
    [
        ("", lambda values: values.text("it"), "it: is empty"),
        ("10", lambda values: values.integer("it", 1, least=1, most=9), "it must be from 1 to 9"),
        ("1e3", lambda values: values.integer("it", 1, least=1, most=9), "'1e3'; it must be a whole number"),
        (
            "9" * 10_000,
            lambda values: values.integer("it", 1, least=1, most=9),
            "…'; it must be a whole number",
        ),
        ("yes", lambda values: values.boolean("it", True), "true or false"),
        ("c", lambda values: values.choice("it", ["a", "b"]), "one of a, b"),
        ("a,,b", lambda values: values.names("it"), "empty name"),
        ("a,a", lambda values: values.names("it"), "a name twice"),
    ],
)
def test_a_wrong_value_is_reported_with_its_option(value: str, read: Read, message: str) -> None:
    with pytest.raises(OptionError, match=r"^it: ") as refused:
        read(OptionValues({"it": value}))

    assert message in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_missing_value_is_reported_with_its_option() -> None:
    with pytest.raises(OptionError, match=r"^it: is missing"):
        OptionValues({}).text("it")


def test_an_option_that_was_not_read_is_refused_as_it_was_written() -> None:
    values = OptionValues({"path": "/x", "Pathh": "/y"})
    values.text("path")

    with pytest.raises(OptionError, match=r"^Pathh: is not an option here; the options are path"):
        values.refuse_others()


def test_one_option_in_two_spellings_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^PATH: is given twice"):
        OptionValues({"path": "/x", "PATH": "/y"})


def test_options_with_a_prefix_keep_their_spelling() -> None:
    values = OptionValues({"http.header.X-Key": "1", "path": "/x"})

    assert values.with_prefix("http.header.") == {"http.header.X-Key": "1"}
    assert values.others() == {"path": "/x"}
    values.refuse_others()
