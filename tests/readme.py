"""The code blocks of the README, and shell lines run one after the other, as by a reader who pastes them."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COMMAND_TIMEOUT_S = 120


class Line(NamedTuple):
    """A line that was run: what it printed on both streams, and its exit code."""

    command: str
    code: int
    output: str


def blocks(head: str, language: str) -> list[str]:
    """The blocks of this language under a heading, up to the next heading of any level."""
    text = (ROOT / "README.md").read_text()
    section = re.search(rf"^##+ {re.escape(head)}\n(.*?)(?=^##|\Z)", text, flags=re.S | re.M)
    assert section is not None, f"the README has no section {head}"
    return re.findall(rf"```{language}\n(.*?)```", section[1], flags=re.S)


def run_lines(block: str, directory: Path, **environment: str) -> list[Line]:
    """Each line in one shell, with `ottla` on the path; what one exports the next ones have."""
    commands = [line for line in block.splitlines() if line.strip()]
    printed = [directory / f"printed-{number}" for number in range(len(commands))]
    codes = directory / "codes"
    codes.unlink(missing_ok=True)
    script = "".join(
        f"{{ {command}\n}} > {shlex.quote(str(to))} 2>&1; echo $? >> {shlex.quote(str(codes))}\n"
        for command, to in zip(commands, printed, strict=True)
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env={**os.environ, "PATH": path, **environment},
        stdin=subprocess.DEVNULL,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    told = [int(code) for code in codes.read_text().split()]
    return [
        Line(command, code, to.read_text(errors="replace"))
        for command, code, to in zip(commands, told, printed, strict=True)
    ]


def failed(lines: Iterable[Line]) -> list[Line]:
    """Those that a reader would take for a failure."""
    return [line for line in lines if line.code != 0]
