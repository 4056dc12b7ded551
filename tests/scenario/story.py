"""Runs a scenario: a text of commands, `----`, and their results; `REWRITE=1` renews the results."""

import os
from collections.abc import Callable
from pathlib import Path


def assert_told(path: Path, tell: Callable[[str], list[str]]) -> None:
    """Assert that the commands of a file have the results that stand in it."""
    lines = path.read_text().splitlines()
    told: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        told.append(line)
        if not line.strip() or line.startswith("#"):
            continue
        seen = tell(line)
        while position < len(lines) and lines[position].strip() and lines[position] != "----":
            told.append(lines[position])
            seen += tell(lines[position])
            position += 1
        told += ["----", *seen]
        while position < len(lines) and lines[position].strip():
            position += 1  # the results so far

    text = "\n".join(told) + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(text)
    assert path.read_text() == text
