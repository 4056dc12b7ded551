"""A bit flips on the disk of one of three replicas, and the cluster repairs the damage by itself."""

import json
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ottla.node.embedded import Cluster
from tests.integration.cluster.conftest import eventually
from tests.integration.test_embedded_cluster import QUIET, consume, create, in_sync, produce

pytestmark = pytest.mark.slow


def segments_of(data: Path, node_id: int, topic: str) -> dict[str, bytes]:
    """Return the contents of a replica's segments by file name."""
    directory = data / f"node-{node_id}" / f"{topic}-0"
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


def metric(cluster: Cluster, node_id: int, name: str) -> float:
    url = cluster.rest_url(node_id)
    assert url is not None
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.split(" ")[0].split("{")[0] == name)


def elect_preferred(cluster: Cluster, topic: str) -> None:
    from confluent_kafka import ElectionType, TopicPartition

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(60)


def test_a_compacted_replica_with_a_flipped_bit_is_copied_again(tmp_path: Path) -> None:
    with Cluster(nodes=3, data=tmp_path, rest=True) as cluster:
        topic = create(cluster, segment_bytes="1048576", cleanup_policy="compact")
        values = [f"{number}-" + "x" * 200_000 for number in range(24)]
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
        for number, value in enumerate(values):
            producer.produce(topic, value, key=str(number))
        assert producer.flush(60) == 0
        leader = cluster.leader_of(topic, 0)
        cluster.shut_down(leader)
        flip(tmp_path / f"node-{leader}" / f"{topic}-0" / f"{0:020d}.log", 5000)

        cluster.restart(leader)
        eventually(lambda: in_sync(cluster, topic) == 3, "all replicas are in sync again")
        if cluster.leader_of(topic, 0) != leader:
            elect_preferred(cluster, topic)

        eventually(
            lambda: metric(cluster, leader, "ottla_log_damage_repaired_total") == 1, "the log is copied again"
        )
        eventually(lambda: in_sync(cluster, topic) == 3, "all replicas are in sync again")
        replicas = [b"".join(segments_of(tmp_path, node_id, topic).values()) for node_id in range(3)]
        assert replicas[0] == replicas[1] == replicas[2]
        assert consume(cluster, topic, len(values)) == values


def test_a_replica_with_a_flipped_bit_is_repaired_even_if_it_leads(tmp_path: Path) -> None:
    with Cluster(nodes=3, data=tmp_path, rest=True) as cluster:
        topic = create(cluster, segment_bytes="1048576")
        values = [f"{number}-" + "x" * 200_000 for number in range(24)]
        produce(cluster, topic, *values)
        leader = cluster.leader_of(topic, 0)
        cluster.shut_down(leader)
        good = segments_of(tmp_path, leader, topic)
        assert len(good) > 2, list(good)
        first = tmp_path / f"node-{leader}" / f"{topic}-0" / f"{0:020d}.log"
        flip(first, 5000)

        cluster.restart(leader)
        eventually(lambda: in_sync(cluster, topic) == 3, "all replicas are in sync again")
        if cluster.leader_of(topic, 0) != leader:
            elect_preferred(cluster, topic)

        eventually(
            lambda: metric(cluster, leader, "ottla_log_damage_repaired_total") == 1, "the segment is repaired"
        )
        assert metric(cluster, leader, "ottla_log_damage_found_total") == 1
        assert metric(cluster, leader, "ottla_log_damage_unrepaired") == 0
        eventually(lambda: in_sync(cluster, topic) == 3, "all replicas are in sync again")
        assert first.read_bytes() == good[first.name]
        replicas = [segments_of(tmp_path, node_id, topic) for node_id in range(3)]
        assert replicas[0] == replicas[1] == replicas[2]
        assert consume(cluster, topic, len(values)) == values
        url = cluster.rest_url(leader)
        with urllib.request.urlopen(f"{url}/v1/node", timeout=20) as answer:
            assert json.load(answer)["damaged_files"] == []
