"""`ottla hand-over`: a node gives up leadership but keeps serving, so stopping it interrupts no client."""

import json
import os

import pytest

from tests.compat import command_line
from tests.integration.cluster.conftest import Cluster, MakeCluster, eventually
from tests.integration.cluster.test_cluster import create
from tests.integration.cluster.test_failures import Load

pytestmark = pytest.mark.slow


def hand_over(cluster: Cluster, node_id: int, *, pid: int | None = None, code: int = 0) -> str:
    node = cluster.nodes[node_id]
    process = node.process.pid if pid is None else pid
    words = ("hand-over", "--pid", str(process), "--node-id", str(node_id), "--timeout", "20")
    return command_line.ottla(node.bootstrap, *words, code=code)


def brokers(cluster: Cluster, node_id: int) -> dict[int, tuple[str, int]]:
    """Return the state and the number of led partitions of each broker, as one node reports them."""
    listed = json.loads(
        command_line.ottla(cluster.nodes[node_id].bootstrap, "broker", "list", "--output", "json")
    )
    return {one["broker"]: (one["state"], one["leads"]) for one in listed}


def test_a_node_that_handed_over_keeps_serving_until_it_is_stopped(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, partitions=6, min_insync_replicas="2")
    load = Load(cluster, topic)
    eventually(lambda: load.acknowledged > 0, "records are acknowledged")

    try:
        output = hand_over(cluster, 1)

        # The request goes to node 1 itself, which still answers.
        assert brokers(cluster, 1)[1] == ("fenced", 0) and "node 1 no longer leads partitions" in output
        assert cluster.running() == [0, 1, 2]
        assert "node 1 no longer leads partitions" in hand_over(cluster, 1), "a second hand-over does no harm"
        assert cluster.terminate(1) == 0
        cluster.start(1)
        eventually(lambda: brokers(cluster, 0)[1][0] == "active", "the node is active again")
    finally:
        acknowledged = load.stop()

    assert acknowledged > 0
    assert "Traceback" not in cluster.output(1)


def test_a_single_node_has_no_other_to_hand_over_to(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1)
    cluster.start(0)
    topic = create(cluster, by=0, replicas=1)

    assert "no other node can take over" in hand_over(cluster, 0)

    assert cluster.admin(0).list_topics(topic, timeout=60).topics[topic].partitions[0].leader == 0
    assert "is not an `ottla start` process" in hand_over(cluster, 0, pid=os.getpid(), code=1)
