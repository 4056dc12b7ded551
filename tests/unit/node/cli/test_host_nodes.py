"""The settings of the nodes of one host, derived from those of the host."""

from pathlib import Path

import pytest

from ottla.logstore.words.errors import KafkaError
from ottla.node.cli.failure import CommandError
from ottla.node.cli.host_nodes import (
    HostNode,
    available_cpus,
    derive_nodes,
    nodes_of_host,
    nodes_wanted,
    refuse_other_layout,
)
from ottla.node.settings.config import load_config, parse_config

GIB = 1 << 30
HOST = {
    "node.id": "10",
    "cluster.secret": "0123456789abcdef",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "10@a:9190,20@b:9190",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9190",
    "advertised.listeners": "PLAINTEXT://a.example:9092",
    "ottla.probe.listener": "127.0.0.1:8090",
    "log.dirs": "/disk1,/disk2",
    "pid.file": "/run/ottla.pid",
}


def derived(count: int = 3, **other: str) -> list[dict[str, str]]:
    """Return the overrides of the nodes, by name."""
    nodes = derive_nodes({**HOST, **{name.replace("_", "."): other[name] for name in other}}, count, 6 * GIB)
    return [dict(one.split("=", 1) for one in node.overrides) for node in nodes]


def test_the_first_node_has_the_hosts_settings_and_the_others_are_brokers() -> None:
    first, second, third = derived()

    assert [node["node.id"] for node in (first, second, third)] == ["10", "11", "12"]
    assert first["listeners"] == HOST["listeners"] and "process.roles" not in first
    assert (third["listeners"], third["process.roles"]) == ("PLAINTEXT://:9094", "broker")
    assert third["advertised.listeners"] == "PLAINTEXT://a.example:9094"
    assert third["ottla.probe.listener"] == "127.0.0.1:8092"
    assert third["log.dirs"] == "/disk1/node-12,/disk2/node-12"
    assert third["pid.file"] == "/run/ottla.pid.12"
    assert {node["ottla.memory.max.bytes"] for node in (first, second, third)} == {str(2 * GIB)}


@pytest.mark.parametrize("index", range(3))
def test_a_node_of_a_host_has_a_configuration(index: int, tmp_path: Path) -> None:
    own = [f"{name}={text}" for name, text in derived()[index].items()]

    config = load_config(None, overrides=[*(f"{name}={text}" for name, text in HOST.items()), *own])

    assert (config.node_id, config.broker_rack) == (10 + index, "host-10")
    assert bool(config.controller_listeners) == (index == 0)


@pytest.mark.parametrize("names", [("broker.id",), ("node.id", "broker.id")])
def test_the_former_name_of_the_id_may_be_used(names: tuple[str, ...]) -> None:
    host = {name: text for name, text in HOST.items() if name != "node.id"} | dict.fromkeys(names, "10")

    second = derive_nodes(host, 2, 6 * GIB)[1]

    given = [*(f"{name}={text}" for name, text in host.items()), *second.overrides]
    assert load_config(None, overrides=given).node_id == 11


def test_nodes_of_a_host_are_in_its_rack() -> None:
    assert {node["broker.rack"] for node in derived()} == {"host-10"}
    assert {node["broker.rack"] for node in derived(broker_rack="zone-a")} == {"zone-a"}


def test_the_rest_apis_of_the_nodes_have_consecutive_ports() -> None:
    of_default, given = derived(), derived(ottla_rest_listeners="http://127.0.0.1:80,https://:443/")

    # A default port that is in use does not keep the first node from starting.
    assert [node.get("ottla.rest.listeners") for node in of_default] == [
        None,
        "http://:8083",
        "http://:8084",
    ]
    assert given[1]["ottla.rest.listeners"] == "http://127.0.0.1:81,https://:444/"


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"controller_quorum_voters": ""}, "set controller.quorum.voters"),
        ({"node_id": ""}, "node.id must be set"),
        ({"process_roles": "controller"}, "is for brokers, and process.roles=controller"),
        ({"log_dirs": ""}, "log.dirs must be set"),
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}, "PLAINTEXT://:9093 of node 11 has the port"),
        ({"listeners": "PLAINTEXT://:65534,CONTROLLER://:9093"}, "exceed 65535"),
        ({"listeners": "PLAINTEXT://localhost"}, "must end with a port"),
    ],
)
def test_a_setting_that_does_not_allow_several_nodes_is_named(other: dict[str, str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        derived(**other)


@pytest.mark.parametrize("text", ["0", "-1", "65", "many", "", "1.5"])
def test_numbers_of_nodes_are_bounded(text: str) -> None:
    with pytest.raises(KafkaError, match="must be auto, or a number from 1 to 64"):
        nodes_wanted(text)


@pytest.mark.parametrize(
    ("content", "most"), [("200000 100000", 2), ("50000 100000", 1), ("max 100000", 1024), ("junk", 1024)]
)
def test_as_many_cores_count_as_the_container_may_use(content: str, most: int, tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(content)

    assert 1 <= available_cpus(quota) <= most
    assert nodes_wanted("auto") == min(available_cpus(), 64)


def test_a_shell_counts_the_nodes_on_the_disk(tmp_path: Path) -> None:
    """The service may have more cores than the shell, or fewer."""
    for node_id in range(10, 10 + min(available_cpus(), 60) + 3):
        (tmp_path / f"node-{node_id}").mkdir()
        (tmp_path / f"node-{node_id}" / "meta.properties").touch()
    file = tmp_path / "host.properties"
    texts = {**HOST, "log.dirs": str(tmp_path), "ottla.nodes.per.host": "auto"}
    texts |= {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9999", "ottla.probe.listener": "127.0.0.1:7000"}
    file.write_text("".join(f"{name}={text}\n" for name, text in texts.items()))

    found = nodes_of_host(file, [], as_on_disk=True)

    assert len(found) == min(available_cpus(), 60) + 3
    with pytest.raises(CommandError, match="would not be started"):
        nodes_of_host(file, [])


def test_unreadable_directories_are_left_to_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Path] = []

    def refuse(path: Path) -> bool:
        refused.append(path)
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "node-12").mkdir()
    monkeypatch.setattr(Path, "exists", refuse)

    refuse_other_layout({"log.dirs": str(tmp_path)}, [])

    assert refused == [tmp_path / "node-12" / "meta.properties"]


@pytest.mark.parametrize(
    ("existing", "nodes", "problem"),
    [
        ("meta.properties", 2, "first move its contents to .*node-10"),
        ("node-12/meta.properties", 2, "node 12, which would not be started"),
        ("node-10/meta.properties", 0, "node 10, which would not be started"),
        ("node-11/meta.properties", 2, ""),
        ("node-1/00000000000000000000.log", 0, ""),
    ],
)
def test_no_node_with_data_is_left_out(existing: str, nodes: int, problem: str, tmp_path: Path) -> None:
    (tmp_path / existing).parent.mkdir(exist_ok=True)
    (tmp_path / existing).touch()
    known = [HostNode(node_id=10 + index, overrides=()) for index in range(nodes)]
    texts = {"log.dirs": str(tmp_path)}

    if not problem:
        refuse_other_layout(texts, known)
        return
    with pytest.raises(CommandError, match=problem):
        refuse_other_layout(texts, known)


def test_a_node_outside_ottla_start_warns_that_it_runs_alone() -> None:
    [warning] = parse_config({"ottla.nodes.per.host": "4"}).warnings

    assert "has no effect here" in warning
    assert parse_config({"ottla.nodes.per.host": "auto"}).warnings == ()
