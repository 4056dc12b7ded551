"""The signals that ask a process to end: of who manages services, of a key, of a terminal that is closed."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM and SIGINT, and SIGHUP unless whoever started this process had it ignored, as nohup does."""
    asked = (signal.SIGTERM, signal.SIGINT)
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*asked, signal.SIGHUP)


@contextmanager
def received_signals(
    numbers: Iterable[signal.Signals], received: Callable[[signal.Signals, str], None]
) -> Iterator[None]:
    """Call `received(number, sender)` in a thread of its own for each of these signals that arrives.

    A handler would not learn who sent a signal, so the thread waits for them (sigwaitinfo) while they are
    blocked. Enter it in the main thread before other threads start: they inherit what is blocked. On leaving,
    the signals do again what they did before.
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
        # The kernel prefers the main thread from now on, so the other one gets nothing more.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sender_of(pid: int) -> str:
    """Name the process that sent a signal, for the log; `pid` is si_pid of its siginfo."""
    if pid == 0:  # Ctrl-C and a closed terminal are the kernel's, as is a signal from outside of a container
        return "the terminal, or a process outside this container"
    try:
        command = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return f"process {pid}, which no longer exists"
    return f"process {pid} ({command!r})"
