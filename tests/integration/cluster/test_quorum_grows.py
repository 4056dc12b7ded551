"""From one voter to three and back, by `ottla quorum`, while a client goes on."""

import json
import os
import subprocess
import sys

import pytest

from node.cli.local_cluster import NodeHome
from tests.compat.servers import ROOT
from tests.integration.cluster.conftest import QUICK, Cluster, MakeCluster, eventually
from tests.integration.cluster.test_cluster import consume, create
from tests.integration.cluster.test_failures import Load

pytestmark = pytest.mark.slow


def ottla(cluster: Cluster, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "node", *arguments],
        cwd=ROOT,
        env={**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def voters(cluster: Cluster) -> list[int]:
    told = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))
    return [one["node"] for one in told["voters"]]


def join(home: NodeHome, first: NodeHome) -> None:
    """Have a node begin as one that follows the quorum of the first, alone in it, and may be given a vote."""
    key = "controller.quorum.voters="
    [voters] = [line for line in first.properties.read_text().splitlines() if line.startswith(key)]
    alone = voters.removeprefix(key).split(",")[0]
    setting = f"{key}{alone}"
    if home is not first:
        setting = f"controller.quorum.bootstrap.servers={alone.partition('@')[2]}"
    lines = [
        setting if line.startswith(key) else line
        for line in home.properties.read_text().splitlines()
        if home is first or not line.startswith("process.roles=")
    ]
    home.properties.write_text("".join(f"{line}\n" for line in lines))


def test_a_lone_node_becomes_three_and_one_again_under_load(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3, *QUICK)
    for home in cluster.homes:
        join(home, cluster.homes[0])
    cluster.start(0)
    assert voters(cluster) == [0]
    topic = create(cluster, by=0, replicas=1)
    load = Load(cluster, topic)
    cluster.start(1, 2)

    try:
        for node_id in (1, 2):
            assert f"node {node_id} votes now" in ottla(cluster, "quorum", "add", str(node_id))
        eventually(lambda: voters(cluster) == [0, 1, 2], "three voters")
        for node_id in (0, 2):
            assert f"node {node_id} votes no more" in ottla(cluster, "quorum", "remove", str(node_id))
        eventually(lambda: voters(cluster) == [1], "one voter")
    finally:
        load.stop()

    assert not load.failed and load.acknowledged > 0
    assert len(consume(cluster, topic, load.acknowledged)) >= load.acknowledged
