"""The Compose files of packaging/: checked against the image and the settings, and played in containers."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.node.settings.config import BROKER_CONFIG_DEF, environment_name, load_config
from tests.chaos.hosts import network
from tests.integration.cluster.conftest import eventually
from tests.k8s.container import Container, why_no_containers
from tests.k8s.rendered import ROOT

FILES = sorted((ROOT / "packaging" / "compose").glob("*.yaml"))
DOCKERFILE = (ROOT / "k8s" / "Dockerfile").read_text()
SECRET = "of a test, long enough"
LISTENER = re.compile(r"(\w+)://([^:,]*):(\d+)")


def services(path: Path) -> dict[str, Any]:
    """Return the services of a file, with a value for the variable that users set."""
    text = re.sub(r"\$\{OTTLA_CLUSTER_SECRET:\?[^}]*\}", SECRET, path.read_text())
    assert "${" not in text
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def listeners(text: str) -> dict[str, tuple[str, int]]:
    return {name: (host, int(port)) for name, host, port in LISTENER.findall(text)}


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the services of one file."""
    return services(request.param)


def test_there_is_a_file_for_one_node_and_one_for_three() -> None:
    assert {path.stem: len(services(path)) for path in FILES} == {"one-node": 1, "three-nodes": 3}


def test_each_service_runs_the_image_with_its_own_volume(found: dict[str, Any]) -> None:
    for service in found.values():
        assert service["image"] == f"ottla:{version('ottla')}"
        folder = (FILES[0].parent / service["build"]["context"]).resolve()
        assert folder == ROOT and (folder / service["build"]["dockerfile"]).exists()
        [volume] = service["volumes"]
        assert f"\nVOLUME {volume.partition(':')[2]}\n" in DOCKERFILE
    assert len({service["volumes"][0] for service in found.values()}) == len(found)


def test_every_variable_is_a_setting_with_a_valid_value(found: dict[str, Any]) -> None:
    for service in found.values():
        assert load_config(environment=service["environment"]).warnings == ()
        assert service["environment"].keys() <= {environment_name(name) for name in BROKER_CONFIG_DEF.keys}


def test_clients_reach_each_node_at_its_advertised_address(found: dict[str, Any]) -> None:
    published: list[str] = []
    for name, service in found.items():
        settings = service["environment"]
        bound, advertised = (
            listeners(settings["OTTLA_LISTENERS"]),
            listeners(settings["OTTLA_ADVERTISED_LISTENERS"]),
        )
        assert bound.keys() == advertised.keys()
        assert {port for _, port in bound.values()} == {port for _, port in advertised.values()}
        assert {host for kind, (host, _) in advertised.items() if kind != "HOST"} == {name}
        ports = dict(port.rsplit(":", 1) for port in service["ports"])
        assert ports.pop(f"127.0.0.1:{advertised['HOST'][1]}") == str(bound["HOST"][1])
        assert set(ports.values()) == {settings["OTTLA_REST_LISTENERS"].rpartition(":")[2]}
        assert f"127.0.0.1{settings['OTTLA_PROBE_LISTENER']}/readyz" in service["healthcheck"]["test"][-1]
        assert name in settings["OTTLA_REST_ALLOWED_HOSTS"].split(",")
        voters = settings.get("OTTLA_CONTROLLER_QUORUM_VOTERS")
        if voters is not None:
            host, port = advertised["CONTROLLER"]
            assert f"{settings['OTTLA_NODE_ID']}@{host}:{port}" in voters.split(",")
        published += service["ports"]
    addresses = [one.rpartition(":")[0] for one in published]
    assert len(set(addresses)) == len(addresses)
    assert all(one.startswith("127.0.0.1:") for one in addresses), "there are no passwords yet"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Container]]:
    """Return the containers of the three nodes."""
    reason = why_no_containers()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("compose")
    wanted = services(ROOT / "packaging" / "compose" / "three-nodes.yaml")
    command = re.findall(r'"([^"]+)"', DOCKERFILE.rpartition("\nCMD ")[2])
    etc = folder / "etc"
    etc.mkdir()
    with network() as hosts, ExitStack() as stack:
        places = {name: hosts.add() for name in wanted}
        lines = [f"{place.address} {name}" for name, place in places.items()]
        (etc / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        running = {}
        for name, service in wanted.items():
            running[name] = Container(
                folder / name,
                host=places[name],
                name=name,
                user=10001,
                etc=etc,
                volume=folder / f"data-{name}",
                volume_path="/var/lib/ottla",
                environment=service["environment"],
                command=command,
            )
            stack.callback(running[name].kill)
        yield running


@pytest.mark.slow
def test_the_three_nodes_become_healthy_and_serve_containers_and_the_host(
    played: dict[str, Container],
) -> None:
    checks = services(ROOT / "packaging" / "compose" / "three-nodes.yaml")
    for name, container in played.items():
        check = [sys.executable, *checks[name]["healthcheck"]["test"][2:]]
        eventually(lambda: container.run(check, 30).returncode == 0, f"{name} is healthy", 60)  # noqa: B023
    node = played["ottla-0"]
    where = ["--bootstrap", "ottla-1:19092"]

    created = node.run(["ottla", "topic", "create", "orders", *where], 60)
    described = node.run(["ottla", "topic", "describe", "orders", *where], 60)
    ran = node.run(["ottla", "broker", "list", "--bootstrap", "localhost:9092"], 60)

    assert created.returncode == 0, created.stderr
    assert re.search(r"\d,\d,\d", described.stdout), "it has three replicas"
    assert [f"localhost:{port}" in ran.stdout for port in (9092, 9094, 9096)] == [True] * 3
