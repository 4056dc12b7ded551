"""Applications of the tests that are killed."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENT_S = 120.0
PAUSE_S = 0.1


@contextmanager
def running(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is killed when this is left, as by SIGKILL."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(holds: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    """While the process works; AssertionError with the end of its log if it ends, or it takes too long."""
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(PAUSE_S)
