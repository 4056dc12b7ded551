"""Values with `${NAME}`, and text that only looks like it."""

import pytest

from ottla.pipeline.jobs.environment_values import VariableError, fill_in


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${HOST}:${PORT}", "kafka:9092"),
        ("costs $5, a$|b", "costs $5, a$|b"),
        ("$${HOST}", "${HOST}"),
        ("a$$b", "a$b"),
        ("${NESTED}", "${HOST}"),
        ("", ""),
    ],
)
def test_variables_are_filled_in_once(text: str, filled: str) -> None:
    environment = {"HOST": "kafka", "PORT": "9092", "NESTED": "${HOST}"}

    assert fill_in(text, environment)[0] == filled


def test_references_to_files_are_left_to_clients() -> None:
    text = "${X} ${file:/a:b} ${file:/a"

    assert fill_in(text, {"X": "1"}, keeps_files=True)[0] == "1 ${file:/a:b} ${file:/a"


def test_values_are_returned_as_they_may_be_secrets() -> None:
    assert fill_in("a ${X} ${X}", {"X": "secret", "Y": "other"})[1] == {"secret"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${MISSING}", "uses ${MISSING}, which"),
        ("${a-b}", "without a variable name"),
        ("${X", "without a variable name"),
        ("${file:/a:b}", "refers to a file"),
    ],
)
def test_invalid_variables_are_reported(text: str, reason: str) -> None:
    with pytest.raises(VariableError) as error:
        fill_in(text, {"X": "1", "a-b": "2"})

    assert reason in str(error.value)
