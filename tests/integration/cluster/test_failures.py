"""Nodes that are killed, return, or do not belong: acknowledged records survive, other nodes take over."""

import tempfile
import threading
import time

import pytest
from confluent_kafka import Producer

from ottla.node.cli.failure import CommandError
from tests.integration.cluster.conftest import READY_TIMEOUT_S, Cluster, MakeCluster, eventually
from tests.integration.cluster.test_cluster import consume, create, produce

pytestmark = pytest.mark.slow
PAUSE_S = 0.01  # between two records: the tests are about failures, not throughput


def leader_of(cluster: Cluster, topic: str) -> int:
    """Return the leader of partition 0, or -1 if there is none, or if the asked node does not know it yet."""
    partitions = cluster.admin().list_topics(topic, timeout=60).topics[topic].partitions
    return int(partitions[0].leader) if partitions else -1


def in_sync(cluster: Cluster, topic: str) -> list[int]:
    return sorted(cluster.admin().list_topics(topic, timeout=60).topics[topic].partitions[0].isrs)


class Load:
    """A producer with acks=all that runs until it is stopped, and counts acknowledged records."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acknowledged = 0
        self.failed: list[object] = []
        self.longest_gap_s = 0.0
        self._last = time.monotonic()
        self._topic = topic
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 60_000,
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
            number += 1
            self._producer.poll(PAUSE_S)
        self._producer.flush(60)

    def _delivered(self, error: object, _message: object) -> None:
        if error:
            self.failed.append(error)
            return
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last)
        self._last = now
        self.acknowledged += 1

    def stop(self) -> int:
        self._stop.set()
        self._thread.join(90)
        assert not self.failed, self.failed[:3]
        return self.acknowledged


def test_the_leader_is_killed_and_nothing_that_was_acknowledged_is_lost(all_up: Cluster) -> None:
    cluster = all_up
    topic = create(cluster, by=0, min_insync_replicas="2")
    load = Load(cluster, topic)
    time.sleep(1)
    leader = leader_of(cluster, topic)

    cluster.kill(leader)
    eventually(lambda: leader_of(cluster, topic) not in (leader, -1), "another replica leads")
    before = load.acknowledged
    eventually(lambda: load.acknowledged > before + 50, "records are acknowledged again")
    cluster.start(leader)
    eventually(lambda: in_sync(cluster, topic) == [0, 1, 2], "the killed node has caught up")
    acknowledged = load.stop()

    values = [int(value) for value in consume(cluster, topic, acknowledged)]
    assert values == list(range(acknowledged)), "in order, each once"
    assert load.longest_gap_s < 8, "no write waits for the session of the killed broker, 9 s"


def test_the_controller_is_killed_and_another_decides(all_up: Cluster) -> None:
    cluster = all_up
    controller = cluster.admin().describe_cluster().result(60).controller.id

    cluster.kill(controller)
    (first, second) = cluster.running()
    topic = create(cluster, by=first, replicas=2)

    eventually(
        lambda: cluster.admin(second).describe_cluster().result(60).controller.id in (first, second),
        "the other node knows the new controller",
    )
    produce(cluster, topic, 100)
    assert len(consume(cluster, topic, 100)) == 100
    cluster.start(controller)
    eventually(
        lambda: len(cluster.admin(controller).describe_cluster().result(60).nodes) == 3,
        "the killed node is a broker again",
    )


def test_no_acknowledged_record_is_lost_when_all_nodes_are_killed_at_once(all_up: Cluster) -> None:
    cluster = all_up
    topic = create(cluster, by=2, min_insync_replicas="2")
    produce(cluster, topic, 500)

    for node_id in (0, 1, 2):
        cluster.kill(node_id)
    cluster.start(0, 1, 2)

    assert sorted(map(int, consume(cluster, topic, 500))) == list(range(500))
    produce(cluster, topic, 10)


def test_a_rolling_restart_fails_no_request(all_up: Cluster) -> None:
    cluster = all_up
    topic = create(cluster, by=0, min_insync_replicas="2")
    load = Load(cluster, topic)

    for node_id in (0, 1, 2):
        time.sleep(0.5)
        assert cluster.terminate(node_id) == 0
        cluster.start(node_id)
        eventually(lambda: in_sync(cluster, topic) == [0, 1, 2], "all replicas are in sync")
    acknowledged = load.stop()

    assert [int(value) for value in consume(cluster, topic, acknowledged)] == list(range(acknowledged))


def test_a_node_that_is_no_voter_is_a_broker_like_the_others(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(4)  # nodes 0, 1 and 2 are the voters
    cluster.start(0, 1, 2, 3)
    topic = create(cluster, by=3, replicas=3)

    produce(cluster, topic, 200)
    assert len(consume(cluster, topic, 200)) == 200
    cluster.kill(3)
    cluster.start(3)
    again = create(cluster, by=3, replicas=3)

    eventually(lambda: again in cluster.admin(3).list_topics(timeout=60).topics, "the topic is known")


def start_rejected_node(cluster: Cluster, *changed: str) -> str:
    """Start node 2 with an empty disk and changed settings, and return what it and the other nodes log.

    On return it has its own settings again, and is not running.
    """
    cluster.start(*sorted({0, 1} - set(cluster.running())))
    if 2 in cluster.running():
        assert cluster.terminate(2) == 0
    home = cluster.homes[2]
    own = home.properties.read_text()
    settings = [
        *changed,
        f"log.dirs={tempfile.mkdtemp(dir=home.directory)}",
        "initial.broker.registration.timeout.ms=3000",
    ]
    names = {line.partition("=")[0] for line in settings}
    lines = [line for line in own.splitlines() if line.partition("=")[0] not in names]
    before = [len(cluster.output(node_id)) for node_id in (0, 1, 2)]
    home.properties.write_text("\n".join([*lines, *settings]) + "\n")
    try:
        with pytest.raises(CommandError, match="did not start"):
            cluster.start(2)
    finally:
        home.properties.write_text(own)
    assert cluster.nodes[2].process.wait(READY_TIMEOUT_S) == 1
    output = [cluster.output(node_id)[before[node_id] :] for node_id in (0, 1, 2)]
    assert "Traceback" not in output[2], output[2]
    assert cluster.running() == [0, 1]
    # The metadata name a broker for about a second after it has ended.
    admin = cluster.admin(0)
    eventually(lambda: len(admin.describe_cluster().result(60).nodes) == 2, "two brokers are named")
    return "".join(output)


def test_a_node_that_does_not_know_the_secret_is_rejected(cluster: Cluster) -> None:
    output = start_rejected_node(cluster, "cluster.secret=another secret of 16 characters")

    assert "has a different cluster.secret" in output


def test_a_node_of_another_cluster_is_rejected(cluster: Cluster) -> None:
    output = start_rejected_node(cluster, "cluster.id=AAAAAAAAAAAAAAAAAAAAAA")

    assert "belongs to cluster AAAAAAAAAAAAAAAAAAAAAA" in output
