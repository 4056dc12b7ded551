"""Applications that the tests run as processes and kill."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

TIMEOUT_S = 120.0
PAUSE_S = 0.1


@contextmanager
def running(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process, and kill it with SIGKILL at the end of the block."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(holds: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until `holds` is true.

    Raises AssertionError with the end of the log if the process ends before, or if it takes too long.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(PAUSE_S)
