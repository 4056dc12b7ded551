"""Runs a scenario: a text of commands, `----`, and their results; `REWRITE=1` renews the results."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Command(NamedTuple):
    """A line of a scenario: its verb, the words after it, and its options NAME=VALUE."""

    verb: str
    words: list[str]
    options: dict[str, str]


def parsed(line: str) -> Command:
    verb, *words = shlex.split(line)
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return Command(verb, [word for word in words if "=" not in word], options)


def milliseconds(duration: str) -> int:
    """Return a duration such as 0.5s in milliseconds."""
    return int(float(duration.removesuffix("s")) * 1_000)


def partition_words(partitions: Mapping[str, Sequence[int]]) -> str:
    """Return partitions by topic as TOPIC-NUMBER, in order, or `-` if there are none."""
    numbers = [f"{topic}-{number}" for topic in sorted(partitions) for number in sorted(partitions[topic])]
    return " ".join(numbers) or "-"


def assert_results(path: Path, run: Callable[[str], list[str]]) -> None:
    """Assert that the commands of a file have the results that the file has."""
    lines = path.read_text().splitlines()
    output: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        output.append(line)
        if not line.strip() or line.startswith("#"):
            continue
        results = run(line)
        while position < len(lines) and lines[position].strip() and lines[position] != "----":
            output.append(lines[position])
            results += run(lines[position])
            position += 1
        output += ["----", *results]
        while position < len(lines) and lines[position].strip():
            position += 1  # the results so far

    text = "\n".join(output) + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(text)
    assert path.read_text() == text
