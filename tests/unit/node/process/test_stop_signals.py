"""The signals that stop a process are received with their senders."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.node.process.stop_signals import sender_of, stop_signals


@pytest.fixture
def handler() -> Iterator[None]:
    """Restore the handler of SIGHUP after the test."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("handler")
def test_a_closed_terminal_stops_a_process_unless_nohup_started_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert stop_signals() == (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert stop_signals() == (signal.SIGTERM, signal.SIGINT)


def test_a_signal_is_received_with_its_sender_and_afterwards_has_its_old_handler() -> None:
    program = """
import os, queue, signal
from ottla.node.process.stop_signals import received_signals
received = queue.Queue()
with received_signals([signal.SIGTERM, signal.SIGUSR1], lambda *one: received.put(one)):
    for number in (signal.SIGUSR1, signal.SIGTERM):
        os.kill(os.getpid(), number)
        name, sender = received.get(timeout=60)
        assert sender.startswith(f"process {os.getpid()} ("), sender
        print(name.name, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)

    assert done.stdout.split() == ["SIGUSR1", "SIGTERM"], done.stderr
    assert done.returncode == -signal.SIGTERM


def test_a_sender_is_described_by_its_process() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()

    assert sender_of(os.getpid()).startswith(f"process {os.getpid()} (")
    assert sender_of(ended.pid) == f"process {ended.pid}, which no longer exists"
    assert "terminal" in sender_of(0)
