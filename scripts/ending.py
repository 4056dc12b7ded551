"""A script that is told to stop, or whose terminal is closed, takes what it has started with it."""

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

PATIENCE_S = 75.0  # `ottla cluster up` gives its nodes 60
PAUSE_S = 0.05


@contextmanager
def children_end_too() -> Iterator[None]:
    """A signal that asks to stop becomes SystemExit with the shell's code for it; only the first counts.

    What the caller's own `finally` did not stop is stopped then: processes may be started where none watches.
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
        # Whatever it is: what a handler raises in the midst of a library in C may come out as another error.
        raise SystemExit(code) from None
    finally:
        if code is not None:
            end_children()


def end_children() -> None:
    """SIGTERM to all, and SIGKILL to those that take too long."""
    for pid in children():
        send(pid, signal.SIGCONT)  # one that a fault has paused
        send(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + PATIENCE_S
    while children() and time.monotonic() < deadline_s:
        time.sleep(PAUSE_S)
    for pid in children():
        send(pid, signal.SIGKILL)


def children() -> list[int]:
    """The processes that this one has started and that still run."""
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
