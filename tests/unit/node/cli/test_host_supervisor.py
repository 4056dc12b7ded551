"""The order in which the nodes of a host are stopped, stops without a handover, and restarts."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.node.cli.host_supervisor import HostedNode, restart_dead_nodes, stop_nodes

# Ends at the SIGTERM whose count (1 for the first) is its first argument, and writes its name to a file.
NODE = """
import signal, sys
left = int(sys.argv[1])
def on_signal(*_):
    global left
    left -= 1
    if not left:
        with open(sys.argv[2], "a") as file:
            file.write(sys.argv[3])
        sys.exit(0)
signal.signal(signal.SIGTERM, on_signal)
print("ready", flush=True)
while True:
    signal.pause()
"""


def node(name: str, signals: int, ended: Path) -> HostedNode:
    """Return a node of a host that ends when it has received this number of signals."""
    process = subprocess.Popen(
        [sys.executable, "-c", NODE, str(signals), str(ended), name], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as stdout:
        assert stdout.readline() == b"ready\n"
    return HostedNode(0, [], process=process)


def test_the_first_node_ends_last(tmp_path: Path) -> None:
    nodes = [node(name, 1, tmp_path / "ended") for name in "ab"]

    assert stop_nodes(nodes, [signal.SIGTERM])
    assert (tmp_path / "ended").read_text() == "ba"


def test_each_node_gets_a_second_signal_if_the_supervisor_did(tmp_path: Path) -> None:
    nodes = [node(name, 2, tmp_path / "ended") for name in "ab"]

    assert stop_nodes(nodes, [signal.SIGTERM, signal.SIGTERM])
    assert (tmp_path / "ended").read_text() == "ba"


def test_a_start_that_fails_is_tried_again_later(capfd: pytest.CaptureFixture[str]) -> None:
    missing = HostedNode(7, ["/nowhere/python"], process=ended_process(), pause_s=0.0, restart_at_s=0.0)

    restart_dead_nodes([missing])

    assert "node 7 could not be started (No such file or directory); it will be restarted" in (
        capfd.readouterr().err
    )
    assert missing.restart_at_s is not None and not missing.is_running


def ended_process() -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process
