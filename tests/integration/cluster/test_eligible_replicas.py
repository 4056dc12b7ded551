"""Eligible leader replicas, which are not in sync and may lead, as clients see them (KIP-966)."""

import json

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.compat.command_line import ottla
from tests.compat.wire_client import WireClient, only
from tests.integration.cluster.conftest import Cluster, MakeCluster, eventually
from tests.integration.cluster.test_cluster import consume, produce

pytestmark = pytest.mark.slow
TOPIC = "pair"


def described(cluster: Cluster, node_id: int = 0) -> tuple[int, list[int], list[int], list[int]]:
    """Return the leader, the ISR, the eligible leader replicas and the last known leader."""
    with WireClient(cluster.nodes[node_id].bootstrap) as client:
        answer = client.call("describe_topic_partitions", 0, topics=[{"name": TOPIC}])
    partitions = only(answer.topics).partitions
    if not partitions:  # this node does not have the topic in its metadata yet
        return -1, [], [], []
    one = only(partitions)
    return one.leader_id, list(one.isr_nodes), list(one.eligible_leader_replicas), list(one.last_known_elr)


def test_an_eligible_replica_leads_when_no_replica_is_in_sync(make_cluster: MakeCluster) -> None:
    """Replica 4 has all acknowledged records: its process was killed, its host kept running.

    The voters are the three other nodes.
    """
    cluster = make_cluster(5)
    cluster.start(0, 1, 2, 3, 4)
    topic = NewTopic(TOPIC, 1, replica_assignment=[[3, 4]], config={"min.insync.replicas": "2"})
    cluster.admin(0).create_topics([topic])[TOPIC].result(60)
    eventually(lambda: described(cluster) == (3, [3, 4], [], []), "both replicas are in sync")
    produce(cluster, TOPIC, 100)

    cluster.kill(4)
    eventually(
        lambda: described(cluster) == (3, [3], [4], []),
        "the ISR is too small, so the other replica is eligible",
    )
    with pytest.raises(AssertionError, match=r"NOT_ENOUGH_REPLICAS|_MSG_TIMED_OUT"):
        produce(cluster, TOPIC, 1, **{"message.timeout.ms": 3_000})
    cluster.kill(3)
    eventually(lambda: described(cluster) == (-1, [], [3, 4], [3]), "no replica is in sync")
    bootstrap = cluster.nodes[0].bootstrap
    [found] = json.loads(ottla(bootstrap, "topic", "describe", TOPIC, "--output", "json"))
    assert (found["partitions"][0]["eligible_leader_replicas"], found["partitions"][0]["last_known_elr"]) == (
        [3, 4],
        [3],
    )
    [head, row] = ottla(bootstrap, "topic", "describe", "--unavailable").splitlines()
    assert head.endswith("elr  last known elr") and row.split() == [TOPIC, "0", "-", "3,4", "-", "3,4", "3"]
    cluster.start(4)
    eventually(lambda: described(cluster) == (4, [4], [3], []), "the eligible replica leads")
    cluster.start(3)
    eventually(lambda: described(cluster) == (4, [4, 3], [], []), "both replicas are in sync again")
    assert sorted(map(int, consume(cluster, TOPIC, 100)))[:100] == list(range(100))


def test_the_cluster_has_one_value_of_min_insync_replicas(all_up: Cluster) -> None:
    """A new cluster has the feature, so all brokers use the value of its first controller."""
    admin = all_up.admin(0)
    name = "min.insync.replicas"
    one = ConfigResource(
        "broker",
        "0",
        incremental_configs=[ConfigEntry(name, "2", incremental_operation=AlterConfigOpType.SET)],
    )

    with pytest.raises(KafkaException, match="cannot be altered while ELR is enabled"):
        admin.incremental_alter_configs([one])[one].result(60)
