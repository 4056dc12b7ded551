"""node.runtime.stop_signals: who may ask a process to end."""

import signal
from collections.abc import Iterator

import pytest

from node.runtime.stop_signals import stop_signals


@pytest.fixture
def handler() -> Iterator[None]:
    """That of SIGHUP is as before after the test."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("handler")
def test_a_closed_terminal_ends_what_nohup_did_not_start() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert stop_signals() == (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert stop_signals() == (signal.SIGTERM, signal.SIGINT)
