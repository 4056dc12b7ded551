"""The command line while its node is killed and restarted."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.compat.servers import ROOT, StartNode
from tests.node_fork import popen

pytestmark = pytest.mark.slow
TIMEOUT_S = 60
LINES = 40


def command(bootstrap: str, *arguments: str) -> "subprocess.Popen[str]":
    return popen(
        [sys.executable, "-m", "ottla", *arguments, "--timeout", "30"],
        cwd=ROOT,
        env={**os.environ, "OTTLA_BOOTSTRAP": bootstrap},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_produce_and_consume_continue_when_their_node_restarts(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path)
    made = command(server.bootstrap, "topic", "create", "lines")
    assert made.communicate(timeout=TIMEOUT_S)[1] == ""
    consumer = command(server.bootstrap, "consume", "lines", "-n", str(LINES))
    producer = command(server.bootstrap, "produce", "lines")
    assert producer.stdin is not None and consumer.stdout is not None
    producer.stdin.write("line 0\n")
    producer.stdin.flush()
    assert consumer.stdout.readline() == "line 0\n", "both are connected"

    server.kill()
    for number in range(1, LINES):
        producer.stdin.write(f"line {number}\n")
        producer.stdin.flush()
        time.sleep(0.01)
    again = start_node(tmp_path, port=server.port)
    _, producer_errors = producer.communicate(timeout=TIMEOUT_S)
    out, consumer_errors = consumer.communicate(timeout=TIMEOUT_S)

    assert (producer.returncode, producer_errors) == (0, "")
    assert (consumer.returncode, consumer_errors) == (0, "")
    assert out.splitlines() == [f"line {number}" for number in range(1, LINES)]
    assert again.stop() == 0
