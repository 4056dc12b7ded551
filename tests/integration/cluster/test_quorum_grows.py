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


def name_voters(home: NodeHome, count: int) -> None:
    """Have a node begin with a quorum of the first `count` nodes, and follow it as a controller itself."""
    lines = home.properties.read_text().splitlines()
    key = "controller.quorum.voters="
    [every] = [line.removeprefix(key) for line in lines if line.startswith(key)]
    named = every.split(",")
    wanted = [one for one in named if int(one.split("@")[0]) < count or one.startswith(f"{home.node_id}@")]
    home.properties.write_text(
        "".join(f"{key}{','.join(wanted)}\n" if line.startswith(key) else f"{line}\n" for line in lines)
    )


def test_a_lone_node_becomes_three_and_one_again_under_load(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3, *QUICK)
    for home in cluster.homes:
        name_voters(home, 1)
    cluster.start(0)
    assert voters(cluster) == [0]
    topic = create(cluster, by=0, replicas=1)
    load = Load(cluster, topic)
    cluster.start(1, 2)

    for node_id in (1, 2):
        assert f"node {node_id} votes now" in ottla(cluster, "quorum", "add", str(node_id))
    eventually(lambda: voters(cluster) == [0, 1, 2], "three voters")
    for node_id in (0, 2):
        assert f"node {node_id} votes no more" in ottla(cluster, "quorum", "remove", str(node_id))
    eventually(lambda: voters(cluster) == [1], "one voter")
    load.stop()

    assert not load.failed and load.acknowledged > 0
    assert len(consume(cluster, topic, load.acknowledged)) >= load.acknowledged
