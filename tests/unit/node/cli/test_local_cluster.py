"""ottla.node.cli.local_cluster: errors before any node is started, and the processes of a home."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ottla.node.cli import local_cluster
from ottla.node.cli.failure import CommandError
from ottla.node.cli.local_cluster import NodeHome, NodeProcess, cluster_up, stop_all
from ottla.node.settings.properties_file import parse_properties


def refusal(data: Path, *overrides: str, nodes: int = 1) -> str:
    """Return the error of `cluster up`; no test can listen on this port number."""
    with pytest.raises(CommandError) as refused:
        cluster_up(nodes, base_port=1, data=data, overrides=overrides)
    assert refused.value.exit_code == 1
    return str(refused.value)


def test_a_file_in_the_place_of_the_directory_is_reported_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    assert refusal(file) == f"{file}/node-0: Not a directory. Choose another data directory with --data."


def test_a_directory_that_cannot_be_made_is_reported_in_one_sentence() -> None:
    sentence = refusal(Path("/proc/nowhere/data"))

    assert sentence.endswith(": No such file or directory. Choose another data directory with --data.")


@pytest.mark.parametrize("name", ["meta.properties", ".lock"])
def test_the_directory_of_a_single_node_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    sentence = refusal(tmp_path)

    assert sentence.startswith(f"{tmp_path} holds the data of a single node")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("nonsense", "The override 'nonsense' is not name=value."),
        ("num.partitions=many", "Invalid value many for configuration num.partitions"),
        ("log.dirs=/elsewhere", "`ottla cluster up` sets it itself; use --data instead."),
        ("node.id=7", "`ottla cluster up` sets it itself; use --nodes instead."),
        ("controller.quorum.voters=0@here:1", "`ottla cluster up` sets it itself; use --nodes instead."),
        ("listeners=PLAINTEXT://:9092", "`ottla cluster up` sets it itself; use --base-port instead."),
        ("ottla.rest.listeners=http://:80", "`ottla cluster up` sets it itself; use --base-port instead."),
        ("foo=1", "Unknown setting foo."),
        ("x\x1b[31m=1", "Unknown setting x\\x1b[31m."),
        ("log.retention.hour=1", "Unknown setting log.retention.hour. Did you mean log.retention.hours?"),
    ],
)
def test_overrides_are_validated_before_anything_is_written(
    tmp_path: Path, override: str, sentence: str
) -> None:
    assert sentence in refusal(tmp_path / "data", override)
    assert not (tmp_path / "data").exists()


def test_an_override_without_effect_is_reported_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".lock").touch()

    refusal(tmp_path, "num.io.threads=1", "ottla.rest.listeners=")

    assert capsys.readouterr().err == (
        "ottla: The Apache Kafka setting num.io.threads is not supported and has no effect.\n"
    )


def test_overrides_keep_their_values_in_the_file(tmp_path: Path) -> None:
    odd = "a\\b: c\nnode.id=9 = #!"

    [home] = local_cluster.write_homes(1, base_port=9, data=tmp_path, overrides=[f"broker.rack={odd}"])

    written = parse_properties(home.properties.read_bytes())
    assert (written["broker.rack"], written["node.id"]) == (odd, "0")


def test_a_node_that_runs_already_is_named_before_its_port_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_cluster.write_homes(2, base_port=9, data=tmp_path, overrides=[])
    before = (tmp_path / "node-0" / "server.properties").read_text()
    monkeypatch.setattr(NodeHome, "running_pid", lambda home: 4711 if home.node_id == 1 else None)

    sentence = refusal(tmp_path, "num.partitions=3", nodes=2)

    assert sentence == f"Node 1 of {tmp_path} is already running as process 4711; `kill 4711` stops it."
    assert (tmp_path / "node-0" / "server.properties").read_text() == before


class FakeProcess:
    """A process that runs until it is waited for."""

    pid = 4711

    def __init__(self, returncode: int) -> None:
        self._returncode = returncode

    def poll(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int:
        return self._returncode


@pytest.mark.parametrize(
    ("returncode", "was_ready", "succeeds"),
    [
        (0, True, True),
        (0, False, True),
        (-signal.SIGTERM, False, True),  # Python was still importing its modules
        (-signal.SIGTERM, True, False),
        (1, False, False),
    ],
)
def test_a_node_that_is_only_starting_may_end_by_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returncode: int, was_ready: bool, succeeds: bool
) -> None:
    process: Any = FakeProcess(returncode)
    node = NodeProcess(NodeHome(node_id=0, directory=tmp_path), start=lambda *_, **__: process)
    node.ready_line = "READY" if was_ready else ""
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))

    assert stop_all([node]) is succeeds
    assert signals == [(4711, signal.SIGTERM), (4711, signal.SIGINT)]


def test_the_last_reason_of_a_node_that_does_not_serve_is_quoted(tmp_path: Path) -> None:
    home = NodeHome(node_id=0, directory=tmp_path)
    home.log.write_text(
        "12:00 WARNING This node is not ready: It looks for the quorum.\n12:10 WARNING This node "
        "is not ready: It registers.\n12:11 INFO A link came.\n"
    )

    assert home.start_state() == "It registers."


def test_a_node_that_logged_nothing_is_not_quoted(tmp_path: Path) -> None:
    home = NodeHome(node_id=0, directory=tmp_path)
    home.log.touch()

    assert home.start_state() == "reason unknown"
