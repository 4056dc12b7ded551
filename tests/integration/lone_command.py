"""`ottla` as a process that has nothing of the variables of whoever runs the tests."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 60
KEPT_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "PYTHONPYCACHEPREFIX")


def environment() -> dict[str, str]:
    """Return the variables of processes that are started here."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def ottla(home: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "ottla", *words],
        cwd=home,
        env=environment(),
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
