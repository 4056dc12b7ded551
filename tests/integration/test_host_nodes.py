"""`ottla start --nodes-per-host`: several nodes of one host, in processes that are restarted if they end."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.wire_client import eventually
from tests.integration.lone_command import ottla
from tests.ports import free_ports

pytestmark = pytest.mark.slow
TIMEOUT_S = 60
NODES = 2

StartHost = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_host(tmp_path: Path) -> Iterator[StartHost]:
    """Yield a function that starts a host in a folder of its own; all hosts are killed at the end."""
    port = free_ports(NODES + 1)
    started: list[subprocess.Popen[str]] = []
    settings = {
        "node.id": 10,
        "cluster.secret": "0123456789abcdef",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + NODES}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"10@127.0.0.1:{port + NODES}",
        "ottla.rest.listeners": "http://127.0.0.1:0",
        "log.dirs": tmp_path / "data",
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={settings[name]}\n" for name in settings))
    file.chmod(0o600)  # it contains a secret

    def start(*words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "ottla", "start", "--config", str(file)]
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=log, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def ready(process: "subprocess.Popen[str]") -> str:
    """Return the bootstrap servers that the host prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("READY bootstrap=") and line.endswith(f" nodes={NODES}\n"), line
    return line.split("bootstrap=")[1].split()[0]


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def brokers(bootstrap: str) -> set[int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return set(admin.list_topics(timeout=TIMEOUT_S).brokers)


def test_nodes_that_die_are_restarted_and_all_end_together(start_host: StartHost, tmp_path: Path) -> None:
    host = start_host("--nodes-per-host", str(NODES))
    bootstrap = ready(host)
    assert brokers(bootstrap) == {10, 11}
    first = children(host.pid)
    assert len(first) == NODES

    os.kill(first[1], signal.SIGKILL)

    again = eventually(lambda: children(host.pid), lambda now: len(now) == NODES and now != first, TIMEOUT_S)
    assert again[0] == first[0]
    assert "node 11 was killed by SIGKILL; it will be restarted in 1 s." in (tmp_path / "log").read_text()
    eventually(lambda: brokers(bootstrap), lambda found: found == {10, 11}, TIMEOUT_S)
    host.terminate()
    assert host.wait(TIMEOUT_S) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in again)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"node-10", "node-11"}
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_no_node_outlives_its_host(start_host: StartHost) -> None:
    host = start_host("--override", f"ottla.nodes.per.host={NODES}")
    ready(host)
    nodes = children(host.pid)

    host.kill()
    host.wait(TIMEOUT_S)

    deadline = time.monotonic() + TIMEOUT_S
    while any(Path(f"/proc/{pid}").exists() for pid in nodes):
        assert time.monotonic() < deadline, "a node is still running"
        time.sleep(0.05)


def test_the_doctor_looks_at_each_node_of_a_host(start_host: StartHost, tmp_path: Path) -> None:
    host = start_host("--nodes-per-host", str(NODES))
    port = int(ready(host).rpartition(":")[2])
    file = str(tmp_path / "server.properties")
    command = [sys.executable, "-m", "ottla", "doctor", "--config", file]
    command += ["--override", f"ottla.nodes.per.host={NODES}"]

    def diagnose() -> str:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S).stdout

    assert "nothing is wrong" in diagnose()
    host.terminate()
    assert host.wait(TIMEOUT_S) == 0
    with socket.create_server(("127.0.0.1", port)):
        assert f"cannot be opened: another process, which does not answer, uses port {port}" in diagnose()


def test_the_nodes_of_a_secured_host_replicate(start_host: StartHost, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    ottla(tmp_path, "secure", "init", str(keys))
    for node_id in ("10", "11"):
        ottla(tmp_path, "secure", "certificate", str(keys), "--node", node_id)
    port = free_ports(2 * NODES + 1)
    controller = f"127.0.0.1:{port + 2 * NODES}"
    settings = {
        "ottla.secure.dir": keys,
        "listeners": f"CLIENTS://127.0.0.1:{port},INTERNAL://127.0.0.1:{port + NODES},CONTROLLER://{controller}",
        "controller.quorum.voters": f"10@{controller}",
        "ottla.rest.listeners": "https://127.0.0.1:0",
    }
    overrides = [word for name in settings for word in ("--override", f"{name}={settings[name]}")]

    host = start_host("--nodes-per-host", str(NODES), "--secure", *overrides)

    client = ("--bootstrap", ready(host), "--command-config", str(keys / "client.properties"))
    created = ottla(tmp_path, "topic", "create", "orders", "--replicas", str(NODES), *client)
    assert created.returncode == 0, created.stderr
    eventually(
        lambda: json.loads(
            ottla(tmp_path, "topic", "describe", "orders", "--output", "json", *client).stdout
        ),
        lambda topics: sorted(topics[0]["partitions"][0]["in_sync_replicas"]) == [10, 11],
        TIMEOUT_S,
    )


def test_a_host_does_not_start_without_nodes_that_have_data(start_host: StartHost, tmp_path: Path) -> None:
    host = start_host("--nodes-per-host", str(NODES))
    ready(host)
    host.terminate()
    assert host.wait(TIMEOUT_S) == 0

    single = start_host()

    assert single.wait(TIMEOUT_S) == 1
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert "which would not be started: set ottla.nodes.per.host as it was before" in last


def test_the_reason_why_a_node_does_not_start_is_printed(start_host: StartHost, tmp_path: Path) -> None:
    host = start_host("--nodes-per-host", str(NODES), "--override", "log.retention.hours=none")

    assert host.wait(TIMEOUT_S) == 1
    assert "log.retention.hours" in (tmp_path / "log").read_text()
    assert not (tmp_path / "data").exists()
