"""A story is a text: a paragraph of commands, `----`, and what is seen; `REWRITE=1` renews that."""

import os
from collections.abc import Callable
from pathlib import Path


def assert_told(path: Path, tell: Callable[[str], list[str]]) -> None:
    """What is seen of the commands is what stands in the file."""
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
            position += 1  # what was seen before

    text = "\n".join(told) + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(text)
    assert path.read_text() == text
