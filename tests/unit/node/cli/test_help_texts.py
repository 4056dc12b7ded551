"""The texts of `--help` fit the options that they describe."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from ottla.node.cli.app import app


def options() -> Iterator[tuple[str, Any]]:
    """Yield each option of each command, with its name."""
    left: list[Any] = [typer.main.get_command(app)]
    while left:
        command = left.pop()
        left += getattr(command, "commands", {}).values()
        for option in command.params:
            if option.opts[0].startswith("--"):
                yield option.opts[0], option


@pytest.mark.parametrize(
    ("name", "word"),
    [("--topic", "partition"), ("--producer-id", "producer id"), ("--partition", "partition")],
)
def test_the_help_of_an_option_names_what_it_selects(name: str, word: str) -> None:
    texts = [option.help for each, option in options() if each == name]

    assert texts and all(word in text for text in texts)


def test_a_number_has_a_name_for_its_value() -> None:
    numbers = [(name, option.metavar) for name, option in options() if "range" in option.type.name]

    assert numbers and all(metavar for _, metavar in numbers)
