"""The command `ottla` as a process, run to its end or only started.

The fixture `no_process_is_left` ends the processes that are still running after a test.
"""

import contextlib
import os
import subprocess
import sys

from tests.compat.servers import ROOT
from tests.node_fork import popen

TIMEOUT_S = 60
_started: "list[subprocess.Popen[str]]" = []


def end_all() -> None:
    """End the processes that a failed test left running."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()


def start(bootstrap: str, *arguments: str, stdout: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    process = popen(
        [sys.executable, "-m", "ottla", *arguments],
        cwd=ROOT,
        env={**os.environ, "OTTLA_BOOTSTRAP": bootstrap},
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    _started.append(process)
    return process


def ottla(
    bootstrap: str, *arguments: str, given: str = "", code: int = 0, timeout_s: float = TIMEOUT_S
) -> str:
    """Run a command, check its exit code, and return its output: stdout if the code is 0, else stderr."""
    process = start(bootstrap, *arguments)
    try:
        out, err = process.communicate(given, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    _started.remove(process)
    assert process.returncode == code, out + err
    assert "Traceback" not in err
    return err if code else out
