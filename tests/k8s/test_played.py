"""The StatefulSet played on one machine, under load: no request of a client fails, and no record is lost."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster.conftest import eventually
from tests.k8s.container import Container, why_no_containers
from tests.k8s.kubelet import RunningPod
from tests.k8s.rendered import ROOT, overlay
from tests.k8s.stateful_set import ZONES, StatefulSet, played

pytestmark = pytest.mark.slow
PARTITIONS = 6
END_TIMEOUT_S = 90
WRITTEN_TIMEOUT_S = 60
RECORDS = 100  # acknowledged records that show that writes continue


class Load:
    """`tests.k8s.load` in a pod beside those of the cluster."""

    def __init__(self, cluster: StatefulSet, folder: Path) -> None:
        self._volume = folder / "volume"
        self._container = Container(
            folder,
            host=cluster.new_host(),
            name="load",
            user=10002,
            etc=cluster.etc,
            volume=self._volume,
            volume_path="/load",
            environment={"PYTHONPATH": str(ROOT)},
            command=[
                *(sys.executable, "-m", "tests.k8s.load"),
                *("ottla-bootstrap:9092", str(PARTITIONS), "/load"),
            ],
        )

    def wait_until_written(self, count: int) -> None:
        """Wait until this many more records are acknowledged."""
        wanted = self._acknowledged() + count
        deadline = time.monotonic() + WRITTEN_TIMEOUT_S
        while self._acknowledged() < wanted:
            assert time.monotonic() < deadline, self._container.output()
            time.sleep(0.05)

    def _acknowledged(self) -> int:
        progress = self._volume / "progress"
        return int(progress.read_text()) if progress.exists() else 0

    def stop(self) -> dict[str, Any]:
        """Stop the clients, and return their result."""
        (self._volume / "stop").touch()
        assert self._container.wait(END_TIMEOUT_S) == 0, self._container.output()
        return dict(json.loads((self._volume / "result.json").read_text()))

    def kill(self) -> None:
        self._container.kill()


@dataclass(slots=True, kw_only=True)
class World:
    """The cluster that the tests change one after another, and the load on it."""

    cluster: StatefulSet
    folder: Path
    load: Load | None = None  # None until there is a cluster to write to

    def wait_for_writes(self) -> None:
        assert self.load is not None
        self.load.wait_until_written(RECORDS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Play the StatefulSet; check the result of the clients beside it after all tests."""
    reason = why_no_containers()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("played")
    with played(overlay("three-nodes"), folder) as cluster:
        made = World(cluster=cluster, folder=folder / "load")
        try:
            yield made
            assert made.load is not None
            seen = made.load.stop()
        finally:
            if made.load is not None:
                made.load.kill()
        assert seen["acknowledged"] == seen["sent"] == seen["read"] > 0, seen
        assert (seen["refused"], seen["failed"], seen["problems"]) == ([], [], []), seen
        assert cluster.warnings == []


def test_a_single_voter_is_alive_and_waits_for_the_others(world: World) -> None:
    world.cluster.begin(0)
    alone = world.cluster.pods[0]
    eventually(lambda: alone.is_started, "it is alive", 30)

    assert alone.get(alone.pod.liveness) is None
    assert alone.get(alone.pod.readiness) == "503" and not alone.is_ready
    world.cluster.create(*range(1, world.cluster.replicas))
    world.cluster.wait_until_ready(0)

    world.load = Load(world.cluster, world.folder)
    world.wait_for_writes()


def test_each_pod_is_restarted_with_another_address(world: World) -> None:
    before = {ordinal: one.host.address for ordinal, one in world.cluster.pods.items()}

    world.cluster.rolling_update()

    after = {ordinal: one.host.address for ordinal, one in world.cluster.pods.items()}
    assert len({*before.values(), *after.values()}) == 2 * world.cluster.replicas
    world.wait_for_writes()


def test_three_nodes_become_five_that_all_vote(world: World) -> None:
    world.cluster.create(3, 4)
    for ordinal in (3, 4):
        world.cluster.run(0, "ottla", "quorum", "add", str(ordinal))

    status = json.loads(world.cluster.run(4, "ottla", "quorum", "status", "--output", "json"))
    assert [one["node"] for one in status["voters"]] == [0, 1, 2, 3, 4]
    brokers = json.loads(world.cluster.run(4, "ottla", "broker", "list", "--output", "json"))
    assert [one["state"] for one in brokers] == ["active"] * 5
    assert {one["rack"] for one in brokers} == set(ZONES)
    world.wait_for_writes()


def test_a_host_that_fails_is_replaced_by_another(world: World) -> None:
    def fail(pod: RunningPod) -> None:
        pod.host.isolate()  # so that no peer sees its connections end
        pod.kill()

    world.cluster.delete(1, fail)
    world.wait_for_writes()
    world.cluster.create(1)

    world.wait_for_writes()
