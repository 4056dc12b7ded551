"""Stops the processes that a script has started when a signal or a closed terminal stops the script."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from ottla.node.process.stop_signals import stop_signals

WAIT_LIMIT_S = 75.0  # `ottla cluster up` gives its nodes 60
PAUSE_S = 0.05


@contextmanager
def children_end_too() -> Iterator[None]:
    """Turn the first signal to stop into SystemExit with the shell's code for it, and then stop all children.

    The caller's own `finally` blocks come first; a child may have been started that none of them knows.
    """
    code: int | None = None

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal code
        code = 128 + number
        for one in stop_signals():
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(code)

    for number in stop_signals():
        signal.signal(number, stop)
    try:
        yield
    except BaseException:
        if code is None:
            raise
        # Any exception: one that a signal handler raises within a C library may come out as another error.
        raise SystemExit(code) from None
    finally:
        if code is not None:
            end_children()


def end_children() -> None:
    """Send SIGTERM to all child processes, and SIGKILL to those that still run after WAIT_LIMIT_S."""
    for pid in children():
        send(pid, signal.SIGCONT)  # a fault may have paused it
        send(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + WAIT_LIMIT_S
    while children() and time.monotonic() < deadline_s:
        time.sleep(PAUSE_S)
    for pid in children():
        send(pid, signal.SIGKILL)


def children() -> list[int]:
    """Return the ids of the child processes that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has just ended
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.append(int(stat.parent.name))
    return found


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
