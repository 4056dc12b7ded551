"""`ottla cluster up` as a user runs it: one command, one process per node, nodes that die and return.

The nodes start as they do for a user: each in a new Python that loads what it needs.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ottla.node.cli.local_cluster import write_homes
from ottla.node.settings.properties_file import parse_properties
from tests.compat.servers import ROOT
from tests.integration.cluster.conftest import eventually
from tests.node_fork import popen
from tests.ports import free_ports

pytestmark = pytest.mark.slow
NODES = 3
TIMEOUT_S = 60
PROMPT_S = 20  # on a machine under load; half a second otherwise
Up = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Yield `up(options)`, which runs `cluster up` in `tmp_path` until the end of the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*options: str, nodes: int = NODES) -> "subprocess.Popen[str]":
        base_port = str(free_ports(3 * nodes))
        running.append(
            ottla("cluster", "up", "--nodes", str(nodes), "--base-port", base_port, *at(tmp_path), *options)
        )
        return running[-1]

    try:
        yield start
    finally:
        for process in running:
            process.terminate()
            process.communicate(timeout=TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """A running cluster in `data`."""

    process: "subprocess.Popen[str]"
    data: Path
    addresses: str
    start: Up  # starts another one in the same directory

    def run(self, *arguments: str, given: str = "") -> str:
        """Run a command against the cluster and return its output."""
        process = ottla(*arguments, "--bootstrap", self.addresses)
        out, errors = process.communicate(given, timeout=TIMEOUT_S)
        assert process.returncode == 0, errors
        return out

    def partition(self, topic: str) -> dict[str, Any]:
        """Return the only partition of a topic."""
        [described] = json.loads(self.run("topic", "describe", topic, "--output", "json"))
        return dict(described["partitions"][0])


@pytest.fixture
def cluster(up: Up, tmp_path: Path) -> Iterator[LocalCluster]:
    """Start a cluster, and check at the end that it stops without an error."""
    process = up("--override", "num.partitions=7")
    yield LocalCluster(process=process, data=tmp_path, addresses=wait_until_ready(process), start=up)
    process.terminate()
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


def ottla(*arguments: str) -> "subprocess.Popen[str]":
    return popen(
        [sys.executable, "-m", "ottla", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def at(data: Path) -> tuple[str, str]:
    return "--data", str(data)


def wait_until_ready(process: "subprocess.Popen[str]") -> str:
    """Return the addresses in the line READY."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.fullmatch(r"READY bootstrap=(\S+) rest=http://\S+:\d+(?:,http://\S+:\d+)*\n", line)
    assert match is not None, line or process.communicate()[1]
    return match[1]


def pid_of(data: Path, node_id: int) -> int:
    return int((data / f"node-{node_id}" / "pid").read_text())


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""


def test_each_node_has_a_process_and_a_home(cluster: LocalCluster) -> None:
    assert len(set(cluster.addresses.split(","))) == NODES
    assert len({pid_of(cluster.data, index) for index in range(NODES)}) == NODES
    for index in range(NODES):
        home = cluster.data / f"node-{index}"
        settings = parse_properties((home / "server.properties").read_bytes())
        assert is_running(pid_of(cluster.data, index))
        assert settings["node.id"] == str(index) and settings["num.partitions"] == "7"
        assert (home / "server.properties").stat().st_mode & 0o077 == 0, (
            "the file contains the cluster's secret"
        )
        assert (home / "node.log").exists() and (home / "data" / "meta.properties").exists()


def test_a_killed_node_stays_down_until_it_is_restarted_and_catches_up(cluster: LocalCluster) -> None:
    topic = f"topic-{uuid4().hex[:8]}"
    created = ("--partitions", "1", "--replicas", str(NODES), "-c", "min.insync.replicas=2")
    cluster.run("topic", "create", topic, *created)
    cluster.run("produce", topic, given="before\n")
    leader = cluster.partition(topic)["leader"]
    killed = pid_of(cluster.data, leader)

    os.kill(killed, signal.SIGKILL)
    assert cluster.process.stderr is not None
    text = cluster.process.stderr.readline()
    assert not is_running(killed)
    cluster.run("produce", topic, given="meanwhile\n")
    again = ottla("cluster", "start-node", str(cluster.data), str(leader))
    out, errors = again.communicate(timeout=TIMEOUT_S)
    renewed = pid_of(cluster.data, leader)
    twice = ottla("cluster", "start-node", str(cluster.data), str(leader))
    _, refusal = twice.communicate(timeout=TIMEOUT_S)

    start_again = f"restart it with `ottla cluster start-node {cluster.data} {leader}`.\n"
    assert text == f"Node {leader} was killed by SIGKILL; {start_again}"
    assert (again.returncode, errors) == (0, "")
    assert out.startswith(f"READY node={leader} pid={renewed} bootstrap=127.0.0.1:") and renewed != killed
    assert twice.returncode == 1
    assert refusal == f"ottla: Node {leader} is already running as process {renewed}.\n"
    assert cluster.run("consume", topic, "--until-end") == "before\nmeanwhile\n"
    eventually(lambda: len(cluster.partition(topic)["in_sync_replicas"]) == NODES, "the node has caught up")


def test_a_voter_with_restored_files_elects_no_leader_without_entries_that_it_acknowledged(
    cluster: LocalCluster,
) -> None:
    status = json.loads(cluster.run("quorum", "status", "--output", "json"))
    leader = status["leader"]
    copied, lagging = (one["node"] for one in status["voters"] if one["node"] != leader)
    home, copy = cluster.data / f"node-{copied}", cluster.data / "copy"

    def kill_node(node: int) -> None:
        pid = pid_of(cluster.data, node)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_running(pid), "the node has ended")

    def start(node: int) -> "subprocess.Popen[str]":
        return ottla("cluster", "start-node", str(cluster.data), str(node))

    def wait_for(begun: "subprocess.Popen[str]") -> None:
        _, errors = begun.communicate(timeout=2 * TIMEOUT_S)
        assert begun.returncode == 0, errors

    kill_node(copied)
    shutil.copytree(home / "data", copy)
    wait_for(start(copied))
    kill_node(lagging)
    later = f"later-{uuid4().hex[:8]}"
    cluster.run("topic", "create", later, "--partitions", "1")
    kill_node(copied)
    kill_node(leader)
    shutil.rmtree(home / "data")
    copy.rename(home / "data")
    begun = [start(copied), start(lagging)]

    def no_leader() -> bool:
        logs = [(cluster.data / f"node-{one}" / "node.log").read_text() for one in (copied, lagging)]
        return any(f"copies: {copied}. Their votes do not count" in log for log in logs)

    eventually(no_leader, "the reason why no node leads is logged", timeout_s=TIMEOUT_S)
    for one in (start(leader), *begun):
        wait_for(one)

    text = (home / "node.log").read_text()
    assert "The data directory of this voter is a copy" in text
    assert "This voter can vote again" in text
    assert later in cluster.run("topic", "list")
    status = json.loads(cluster.run("quorum", "status", "--output", "json"))
    assert [one["is_disk_old"] or one["is_disk_copied"] for one in status["voters"]] == [False] * NODES


def test_a_directory_of_a_cluster_with_another_number_of_nodes_is_rejected(cluster: LocalCluster) -> None:
    other = cluster.start(nodes=NODES + 1)
    _, errors = other.communicate(timeout=TIMEOUT_S)

    assert other.returncode == 1
    assert f"holds a cluster of {NODES} nodes: use --nodes {NODES}, or choose another --data." in errors


def test_ctrl_c_stops_all_nodes_and_the_same_cluster_comes_up_again(up: Up, tmp_path: Path) -> None:
    first = up()
    wrote = ottla("produce", "kept", "--create-topic", "--bootstrap", wait_until_ready(first))
    _, errors = wrote.communicate("kept\n", timeout=TIMEOUT_S)
    before = (tmp_path / "node-0" / "data" / "meta.properties").read_text()
    os.kill(pid_of(tmp_path, 0), signal.SIGKILL)
    assert first.stderr is not None and first.stderr.readline().startswith("Node 0 was killed by SIGKILL")
    ottla("cluster", "start-node", str(tmp_path), "0").communicate(timeout=TIMEOUT_S)
    renewed, *others = [pid_of(tmp_path, index) for index in range(NODES)]

    first.send_signal(signal.SIGINT)
    first.communicate(timeout=TIMEOUT_S)
    left = [path.name for path in tmp_path.glob("node-*/pid")]
    assert not any(map(is_running, others))
    eventually(lambda: not is_running(renewed), "the restarted node ends with its cluster")
    second = up()
    read = ottla("consume", "kept", "--until-end", "--bootstrap", wait_until_ready(second))
    out, _ = read.communicate(timeout=TIMEOUT_S)
    second.send_signal(signal.SIGHUP)  # sent when the terminal is closed
    second.communicate(timeout=TIMEOUT_S)

    assert wrote.returncode == 0, errors
    assert out == "kept\n"
    assert (first.returncode, second.returncode) == (0, 0) and left == []
    assert (tmp_path / "node-0" / "data" / "meta.properties").read_text() == before


def test_a_cluster_that_cannot_start_says_why(up: Up, tmp_path: Path) -> None:
    (tmp_path / "node-0").mkdir()
    (tmp_path / "node-0" / "data").touch()

    refused = up(nodes=1)
    _, errors = refused.communicate(timeout=TIMEOUT_S)

    assert refused.returncode == 1
    assert re.match(r"ottla: Node 0 did not start: (?!ottla)", errors) and "node-0/data" in errors


def test_ctrl_c_before_ready_is_no_error(up: Up, tmp_path: Path) -> None:
    # Three moments of a start: Python loads the node, it binds its sockets, it looks for the other nodes.
    for moment in ("node.log", "pid", "data/meta.properties"):
        data = tmp_path / Path(moment).name
        process = up(*at(data))
        eventually((data / "node-2" / moment).exists, "a node starts")
        began = time.monotonic()

        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)

        assert (process.returncode, errors) == (0, "")
        assert time.monotonic() - began < PROMPT_S


def test_a_node_that_was_started_by_hand_is_detected(tmp_path: Path) -> None:
    [home] = write_homes(1, base_port=1, data=tmp_path / "there", overrides=[])
    (tmp_path / "link").symlink_to(tmp_path / "there")
    program = [sys.executable, "-c", "input()", "start", "--config", "link/node-0/server.properties"]

    with subprocess.Popen(program, cwd=tmp_path, stdin=subprocess.PIPE) as by_hand:
        (home.directory / "pid").write_text(f"{by_hand.pid}\n")
        eventually(lambda: home.running_pid() is not None, "the command line of the process is visible")
        running = home.running_pid()
        refused = ottla("cluster", "up", "--nodes", "1", "--base-port", "1", *at(tmp_path / "there"))
        _, errors = refused.communicate(timeout=TIMEOUT_S)
        by_hand.kill()

    assert running == by_hand.pid and home.running_pid() is None
    assert f"Node 0 of {tmp_path}/there is already running as process {running}; `kill" in errors


def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    base_port = free_ports(3 * NODES)
    with socket.create_server(("127.0.0.1", base_port + 1)):
        refused = ottla("cluster", "up", "--base-port", str(base_port), *at(tmp_path))
        _, errors = refused.communicate(timeout=TIMEOUT_S)

    assert refused.returncode == 1
    assert errors == (
        f"ottla: Port {base_port + 1} of 127.0.0.1 is already in use; choose other ports with --base-port.\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_secured_cluster_serves_clients_that_use_the_printed_file(tmp_path: Path) -> None:
    base_port = str(free_ports(4 * NODES))
    process = ottla("cluster", "up", "--secure", "--base-port", base_port, *at(tmp_path / "c"))
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        found = re.search(r"--command-config (\S+)\n", lines[2])
        assert lines[0].startswith("READY ") and "https://" in lines[0] and found is not None, lines
        config = ("--command-config", str(ROOT / found[1]))
        created = ottla("topic", "create", "t", "--replicas", str(NODES), *config)
        created.communicate(timeout=TIMEOUT_S)
        sent = ottla("produce", "t", *config)
        sent.communicate("hello\n", timeout=TIMEOUT_S)
        read = ottla("consume", "t", "--until-end", *config)
        out, errors = read.communicate(timeout=TIMEOUT_S)
        assert (created.returncode, sent.returncode, out) == (0, 0, "hello\n"), errors
        settings = [
            parse_properties((tmp_path / "c" / f"node-{index}" / "server.properties").read_bytes())
            for index in range(NODES)
        ]
        assert {one["ottla.secure"] for one in settings} == {"true"}
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
    opened = ottla("cluster", "up", "--base-port", base_port, *at(tmp_path / "c"))
    _, errors = opened.communicate(timeout=TIMEOUT_S)
    assert opened.returncode == 1 and "started with --secure" in errors


def test_an_open_cluster_is_not_secured_afterwards(tmp_path: Path) -> None:
    write_homes(1, base_port=1, data=tmp_path, overrides=[])

    process = ottla("cluster", "up", "--nodes", "1", "--secure", "--base-port", "9092", *at(tmp_path))
    _, errors = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 1 and "without --secure" in errors
    assert not (tmp_path / "secure").exists()
