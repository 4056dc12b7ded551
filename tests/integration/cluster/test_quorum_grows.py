"""`ottla quorum` changes one voter to three, to five, and back, while clients write and read."""

import json
import threading
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError

from ottla.node.cli.local_cluster import NodeHome
from tests.compat import command_line
from tests.integration.cluster.conftest import QUICK, Cluster, MakeCluster, eventually
from tests.integration.cluster.test_cluster import create
from tests.integration.cluster.test_failures import Load

pytestmark = pytest.mark.slow
TIMEOUT_S = 60.0


class Reader:
    """A consumer in a group that reads all the time; `values` has what it read, in that order."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.values: list[int] = []
        self.failed: list[object] = []
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": f"reads-{topic}",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "error_cb": self.failed.append,
                "on_commit": self._committed,
            }
        )
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _committed(self, error: KafkaError | None, _partitions: Any) -> None:
        if error is not None:
            self.failed.append(error)

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error():
                    self.failed.append(message.error())
                else:
                    self.values.append(int(message.value()))
        self._consumer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)


def ottla(cluster: Cluster, *arguments: str, code: int = 0) -> str:
    return command_line.ottla(cluster.bootstrap, *arguments, code=code, timeout_s=TIMEOUT_S)


def voters(cluster: Cluster) -> list[int]:
    status = json.loads(ottla(cluster, "quorum", "status", "--output", "json"))
    return [one["node"] for one in status["voters"]]


def join(home: NodeHome, first: NodeHome) -> None:
    """Configure a node as an observer of the quorum that the first node founds; it can become a voter."""
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


def test_one_voter_becomes_three_and_five_and_one_again_under_load(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(5, *QUICK, "offsets.topic.replication.factor=1")
    for home in cluster.homes:
        join(home, cluster.homes[0])
    cluster.start(0)
    assert voters(cluster) == [0]
    cluster.start(1, 2, 3, 4)
    topic = create(cluster, by=4, replicas=3, min_insync_replicas="2")
    made = [topic]
    load, reader = Load(cluster, topic), Reader(cluster, topic)

    try:
        for node_id in (1, 2, 3, 4):
            assert f"node {node_id} is a voter now" in ottla(cluster, "quorum", "add", str(node_id))
            made.append(create(cluster, by=node_id, replicas=3))
        assert voters(cluster) == [0, 1, 2, 3, 4]
        # The founder leaves first, so another node leads the quorum from then on.
        for node_id in (0, 4, 1, 3):
            assert f"node {node_id} is not a voter any more" in ottla(
                cluster, "quorum", "remove", str(node_id)
            )
            made.append(create(cluster, by=node_id, replicas=3))
        assert voters(cluster) == [2]
        acknowledged = load.stop()
        eventually(lambda: len(reader.values) >= acknowledged, "all records are read", TIMEOUT_S)
    finally:
        load.stop()
        reader.stop()

    assert acknowledged > 0 and reader.values == list(range(acknowledged)), "in order, each once"
    assert not reader.failed, reader.failed
    eventually(
        lambda: set(made) <= cluster.admin(0).list_topics(timeout=60).topics.keys(),
        "all topics are known",
    )
