"""`ottla` as a process without the environment variables of the test run, but for a few."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 60
KEPT_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "PYTHONPYCACHEPREFIX")


def environment() -> dict[str, str]:
    """Return the environment variables of the processes that are started here."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def ottla(home: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command and return its result."""
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
