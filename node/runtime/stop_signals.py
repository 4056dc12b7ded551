"""The signals that ask a process to end: of who manages services, of a key, of a terminal that is closed."""

import signal


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGTERM and SIGINT, and SIGHUP unless whoever started this process had it ignored, as nohup does."""
    asked = (signal.SIGTERM, signal.SIGINT)
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*asked, signal.SIGHUP)
