"""Receives the signals that stop a process: from a service manager, from Ctrl-C, from a closed terminal."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, SIGINT, and SIGHUP unless the process was started with it ignored, as nohup does."""
    signals = (signal.SIGTERM, signal.SIGINT)
    return signals if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*signals, signal.SIGHUP)


@contextmanager
def received_signals(
    numbers: Iterable[signal.Signals], received: Callable[[signal.Signals, str], None]
) -> Iterator[None]:
    """Call `received(number, sender)` in a separate thread for each of these signals that arrives.

    A signal handler of Python does not get the sender, so the signals are blocked and the thread waits for
    them (sigwaitinfo). Enter the context in the main thread before other threads start, since they inherit
    the signal mask. On exit the mask is restored.
    """
    awaited = frozenset(numbers)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)

    def wait() -> None:
        while True:
            info = signal.sigwaitinfo(awaited)
            received(signal.Signals(info.si_signo), sender_of(info.si_pid))

    threading.Thread(target=wait, name="stop-signals", daemon=True).start()
    try:
        yield
    finally:
        # The kernel prefers the main thread from now on, so the other thread receives no further signal.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sender_of(pid: int) -> str:
    """Describe the sender of a signal for the log; `pid` is the si_pid of its siginfo."""
    if pid == 0:  # the kernel sends for Ctrl-C and closed terminals; senders outside a container have no pid
        return "the terminal, or a process outside this container"
    try:
        command = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return f"process {pid}, which no longer exists"
    return f"process {pid} ({command!r})"
