"""`ottla cluster up` as its user has it: one command, one process a node, nodes that die and come back."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.properties_file import parse_properties
from tests.compat.servers import ROOT
from tests.integration.cluster.conftest import eventually
from tests.ports import free_ports

pytestmark = pytest.mark.slow
NODES = 3
TIMEOUT_S = 60
Up = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """`up(options)` runs `cluster up` in `tmp_path` until the end of the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*options: str, nodes: int = NODES) -> "subprocess.Popen[str]":
        base_port = str(free_ports(3 * nodes))
        running.append(
            ottla("cluster", "up", "--nodes", str(nodes), "--base-port", base_port, *at(tmp_path), *options)
        )
        return running[-1]

    yield start
    for process in running:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def ottla(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "node", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def at(data: Path) -> tuple[str, str]:
    return "--data", str(data)


def wait_until_ready(process: "subprocess.Popen[str]") -> str:
    """The addresses that the line READY tells."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.fullmatch(r"READY bootstrap=(\S+) rest=\S+\n", line)
    assert match is not None, line or process.communicate()[1]
    return match[1]


def pid_of(data: Path, node_id: int) -> int:
    return int((data / f"node-{node_id}" / "pid").read_text())


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""


def test_each_node_has_a_process_and_a_home(up: Up, tmp_path: Path) -> None:
    addresses = wait_until_ready(up("--override", "num.partitions=7")).split(",")

    assert len(set(addresses)) == NODES
    assert len({pid_of(tmp_path, index) for index in range(NODES)}) == NODES
    for index in range(NODES):
        home = tmp_path / f"node-{index}"
        settings = parse_properties((home / "server.properties").read_bytes())
        assert is_running(pid_of(tmp_path, index))
        assert settings["node.id"] == str(index) and settings["num.partitions"] == "7"
        assert (home / "server.properties").stat().st_mode & 0o077 == 0, "it holds the cluster's secret"
        assert (home / "node.log").exists() and (home / "data" / "meta.properties").exists()


def test_a_killed_node_stays_dead_until_it_is_started_again(up: Up, tmp_path: Path) -> None:
    cluster = up()
    wait_until_ready(cluster)
    killed = pid_of(tmp_path, 0)

    os.kill(killed, signal.SIGKILL)
    assert cluster.stderr is not None
    said = cluster.stderr.readline()
    assert not is_running(killed)
    again = ottla("cluster", "start-node", str(tmp_path), "0")
    out, errors = again.communicate(timeout=TIMEOUT_S)
    renewed = pid_of(tmp_path, 0)
    twice = ottla("cluster", "start-node", str(tmp_path), "0")
    _, refusal = twice.communicate(timeout=TIMEOUT_S)
    cluster.terminate()
    cluster.communicate(timeout=TIMEOUT_S)

    assert said.startswith("Node 0 was ended by SIGKILL; start it again with `ottla cluster start-node ")
    assert (again.returncode, errors) == (0, "")
    assert out.startswith(f"READY node=0 pid={renewed} bootstrap=127.0.0.1:") and renewed != killed
    assert twice.returncode == 1 and refusal == f"ottla: Node 0 runs already, as process {renewed}.\n"
    assert cluster.returncode == 0
    eventually(lambda: not is_running(renewed), "the end of the cluster is its end too")


def test_what_a_killed_node_led_is_led_by_others_and_it_catches_up(up: Up, tmp_path: Path) -> None:
    addresses = wait_until_ready(up())

    def run(*arguments: str, given: str = "") -> str:
        process = ottla(*arguments, "--bootstrap", addresses)
        out, errors = process.communicate(given, timeout=TIMEOUT_S)
        assert process.returncode == 0, errors
        return out

    run("topic", "create", "t", "--replicas", str(NODES), "-c", "min.insync.replicas=2")
    run("produce", "t", given="before\n")
    [described] = json.loads(run("topic", "describe", "t", "--output", "json"))
    leader = described["partitions"][0]["leader"]

    os.kill(pid_of(tmp_path, leader), signal.SIGKILL)
    run("produce", "t", given="meanwhile\n")
    again = ottla("cluster", "start-node", str(tmp_path), str(leader))
    again.communicate(timeout=TIMEOUT_S)

    assert again.returncode == 0
    assert run("consume", "t", "--until-end") == "before\nmeanwhile\n"
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        [described] = json.loads(run("topic", "describe", "t", "--output", "json"))
        if len(described["partitions"][0]["in_sync_replicas"]) == NODES:
            break
        assert time.monotonic() < deadline, described
        time.sleep(0.1)


def test_ctrl_c_stops_all_nodes_and_the_same_cluster_comes_up_again(up: Up, tmp_path: Path) -> None:
    first = up()
    wrote = ottla("produce", "kept", "--bootstrap", wait_until_ready(first))
    _, errors = wrote.communicate("kept\n", timeout=TIMEOUT_S)
    before = (tmp_path / "node-0" / "data" / "meta.properties").read_text()
    pids = [pid_of(tmp_path, index) for index in range(NODES)]

    first.send_signal(signal.SIGINT)
    first.communicate(timeout=TIMEOUT_S)
    left = [path.name for path in tmp_path.glob("node-*/pid")]
    second = up()
    read = ottla("consume", "kept", "--until-end", "--bootstrap", wait_until_ready(second))
    out, _ = read.communicate(timeout=TIMEOUT_S)
    second.send_signal(signal.SIGHUP)  # its terminal is closed
    second.communicate(timeout=TIMEOUT_S)

    assert wrote.returncode == 0, errors
    assert out == "kept\n"
    assert (first.returncode, second.returncode) == (0, 0) and left == [] and not any(map(is_running, pids))
    assert (tmp_path / "node-0" / "data" / "meta.properties").read_text() == before


def test_a_cluster_that_cannot_start_says_why(up: Up, tmp_path: Path) -> None:
    refused = up("--override", "num.partitions=many")

    _, errors = refused.communicate(timeout=TIMEOUT_S)

    assert refused.returncode == 1
    assert re.match(r"ottla: Node \d did not start: (?!ottla)", errors) and "num.partitions" in errors


def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    base_port = free_ports(3 * NODES)
    with socket.create_server(("127.0.0.1", base_port + 1)):
        refused = ottla("cluster", "up", "--base-port", str(base_port), *at(tmp_path))
        _, errors = refused.communicate(timeout=TIMEOUT_S)

    assert refused.returncode == 1
    assert errors == f"ottla: Port {base_port + 1} of 127.0.0.1 is taken: choose others with --base-port.\n"


def test_another_number_of_nodes_is_another_cluster(up: Up, tmp_path: Path) -> None:
    wait_until_ready(up())

    other = up(nodes=NODES + 1)
    _, errors = other.communicate(timeout=TIMEOUT_S)

    assert other.returncode == 1
    assert f"holds a cluster of {NODES}: use --nodes {NODES}, or another --data." in errors
