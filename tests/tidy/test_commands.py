"""Every command has output for people and for programs, written by one module."""

import re
from collections.abc import Iterator
from typing import Any, Final

import typer.main

from ottla.node.cli.app import app
from tests.compat.servers import ROOT

CLI: Final = ROOT / "node" / "cli"
# Commands without `--output`, and the reason.
WITHOUT_OUTPUT: Final = {
    "start": "runs a node, whose log has --log-format",
    "cluster up": "runs nodes, whose logs have log.format",
    "completion": "prints a script for a shell",
    "log dump": "parses its own options, with --output json, and prints as kafka-dump-log does",
}
# Modules that write JSON themselves; results of commands go through `answers`.
WRITE_JSON: Final = {
    "answers": "results of commands",
    "log_output": "the log of a node",
    "profiles": "the file of profiles",
    "record_text": "records, one a line",
    "rest_command": "responses of the REST API, indented",
}


def options_of_commands(command: Any, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each command with its options."""
    if hasattr(command, "commands"):
        for word, one in command.commands.items():
            yield from options_of_commands(one, f"{name} {word}".strip())
    else:
        yield name, {option for one in command.params for option in one.opts}


def test_every_command_has_output_json() -> None:
    commands = dict(options_of_commands(typer.main.get_command(app)))

    assert {name for name, options in commands.items() if "--output" not in options} == WITHOUT_OUTPUT.keys()


def test_one_module_writes_results_as_json() -> None:
    found = {
        path.stem for path in CLI.glob("*.py") if re.search(r"json\.dumps?\(|dump_json\(", path.read_text())
    }

    assert found == WRITE_JSON.keys()
