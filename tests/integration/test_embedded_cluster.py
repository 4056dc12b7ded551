"""`ottla.testing.Cluster` as a user has it: ready at once, faults by methods, and nothing left behind."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.compat.servers import ROOT
from tests.integration.cluster.conftest import eventually

pytestmark = pytest.mark.slow
TIMEOUT_S = 60
STOPS = 5  # attempts, since a busy machine may delay one
PARTITION_EOF = ClientError._PARTITION_EOF
QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Start three nodes for all tests that leave them unchanged."""
    with Cluster(nodes=3) as cluster:
        yield cluster


def create(cluster: Cluster, *, replicas: int = 3, **configs: str) -> str:
    """Create a topic of one partition and return its name."""
    name = f"topic-{uuid4().hex[:8]}"
    config = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    admin.create_topics([NewTopic(name, 1, replicas, config=config)])[name].result(TIMEOUT_S)
    eventually(lambda: cluster.leader_of(name, 0) >= 0, "the topic has a leader")
    return name


def produce(
    cluster: Cluster, topic: str, *values: str, timeout_s: float = TIMEOUT_S, bootstrap: str = ""
) -> None:
    """Produce values, each acknowledged by all replicas in sync; raise a KafkaException for a failure."""
    failures: list[KafkaException] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap or cluster.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": int(timeout_s * 1000),
            "retry.backoff.ms": 20,
            **QUIET,
        }
    )
    for value in values:
        producer.produce(
            topic,
            value,
            on_delivery=lambda error, _: failures.append(KafkaException(error)) if error else None,
        )
    producer.flush(timeout_s + 5)
    if failures:
        raise failures[0]


def consume(cluster: Cluster, topic: str, at_least: int) -> list[str]:
    """Return all values of the topic once it has at least this many."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.partition.eof": True}
    consumer = Consumer({**settings, **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            values.append(message.value().decode())
        elif message is not None and message.error().code() == PARTITION_EOF and len(values) >= at_least:
            break
    consumer.close()
    return values


def in_sync(cluster: Cluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    return len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions[0].isrs)


def brokers(bootstrap: str) -> set[int]:
    """Return the brokers that the metadata name."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    return set(admin.list_topics(timeout=TIMEOUT_S).brokers)


def moved(cluster: Cluster, topic: str, old_leader: int) -> Callable[[], bool]:
    return lambda: cluster.leader_of(topic, 0) not in (-1, old_leader)


# ---- start and end -------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (4, 4)])
def test_a_cluster_of_any_size_serves(nodes: int, replicas: int) -> None:
    with Cluster(nodes=nodes) as cluster:
        topic = create(cluster, replicas=replicas)
        produce(cluster, topic, "a", "b")

        assert consume(cluster, topic, 2) == ["a", "b"]
        assert cluster.node_ids == list(range(nodes))
        eventually(
            lambda: 0 <= cluster.controller_id < 3,
            "the controller is one of the three voters, not the fourth node",
        )


def test_stopping_a_cluster_does_not_wait_two_seconds_for_its_quorum() -> None:
    stopped_s = []
    while len(stopped_s) < STOPS and min(stopped_s, default=2.0) >= 1.9:
        cluster = Cluster(nodes=3).start()
        begin = time.monotonic()
        cluster.stop()
        stopped_s.append(time.monotonic() - begin)

    assert min(stopped_s) < 1.9


# Runs in a separate process, since other clusters in this one start and end threads and directories.
LEAVES_NOTHING = """
import pathlib, socket, sys, tempfile, threading

from ottla.logstore.words.errors import KafkaError
from ottla.node.embedded import Cluster


def left():
    return len(threading.enumerate()), len(list(pathlib.Path(tempfile.gettempdir()).iterdir()))


assert left() == (1, 0), left()
with Cluster(nodes=4) as cluster:
    threads, directories = left()
    assert threads > 4 and directories == 1, left()
    ports = [int(address.rpartition(":")[2]) for address in cluster.bootstrap.split(",")]
assert left() == (1, 0), (left(), threading.enumerate())
for port in ports:
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
try:
    Cluster(nodes=3, overrides={"num.partitions": "many"}).start()
except KafkaError as error:
    assert "num.partitions" in error.detail
else:
    sys.exit("it started")
assert left() == (1, 0), (left(), threading.enumerate())
"""


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES_NOTHING],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_given_directory_keeps_the_records(tmp_path: Path) -> None:
    with Cluster(nodes=3, data=tmp_path, overrides={"num.partitions": "5"}) as cluster:
        topic = create(cluster)
        produce(cluster, topic, "kept")
        cluster_id = cluster.cluster_id

    with Cluster(nodes=3, data=tmp_path) as again:
        eventually(lambda: again.leader_of(topic, 0) >= 0, "the topic has a leader again")
        assert consume(again, topic, 1) == ["kept"]
        assert again.cluster_id == cluster_id
    assert (tmp_path / "node-2" / "meta.properties").exists()
    with pytest.raises(ValueError, match="a cluster of 3 nodes, not of 4"):
        Cluster(nodes=4, data=tmp_path)


def test_an_event_loop_of_the_user_keeps_running_while_a_cluster_starts() -> None:
    async def scene() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.005)

        counting = asyncio.ensure_future(count())
        async with Cluster(nodes=1) as cluster:
            assert cluster.controller_id == 0
        counting.cancel()
        return turns

    assert asyncio.run(scene()) > 1


def test_a_cluster_needs_at_least_one_node() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        Cluster(nodes=0)


@pytest.mark.parametrize("after_s", [0, 0.02, 0.5])
@pytest.mark.parametrize("end", [Cluster.kill, Cluster.shut_down])
def test_a_node_that_waits_for_others_can_be_stopped(
    three: Cluster, end: Callable[[Cluster, int], None], after_s: float
) -> None:
    errors: list[str] = []

    def start_alone() -> None:
        try:
            three.restart(0)
        except RuntimeError as refused:
            errors.append(str(refused))

    _at_once(three.kill, three.node_ids)
    starting = threading.Thread(target=start_alone)
    starting.start()
    eventually(lambda: any(one.name == "ottla-node-0" for one in threading.enumerate()), "the node starts")
    time.sleep(after_s)
    end(three, 0)
    starting.join()
    _at_once(three.restart, three.node_ids)

    assert errors == ["node 0 stopped before it was ready"]


def _at_once(action: Callable[[int], None], node_ids: Iterable[int]) -> None:
    threads = [threading.Thread(target=action, args=(one,)) for one in node_ids]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


# ---- faults of a node ----------------------------------------------------------------------------


def test_a_killed_leader_is_replaced_and_restarts_with_its_files(three: Cluster) -> None:
    topic = create(three, min_insync_replicas="2")
    produce(three, topic, "before")
    leader = three.leader_of(topic, 0)

    three.kill(leader)
    eventually(moved(three, topic, leader), "another node leads")
    produce(three, topic, "meanwhile")
    three.restart(leader)

    eventually(lambda: in_sync(three, topic) == 3, "all replicas are in sync")
    assert consume(three, topic, 2) == ["before", "meanwhile"]


def test_the_controller_can_be_killed_too(three: Cluster) -> None:
    killed = three.controller_id

    three.kill(killed)
    eventually(lambda: three.controller_id not in (-1, killed), "another node leads the metadata quorum")
    topic = create(three, replicas=2)
    three.restart(killed)

    eventually(lambda: three.leader_of(topic, 0) >= 0, "the topic has a leader")


def test_a_node_that_is_shut_down_hands_over_its_partitions(three: Cluster) -> None:
    topic = create(three)
    leader = three.leader_of(topic, 0)

    three.shut_down(leader)
    eventually(moved(three, topic, leader), "another node leads")

    three.restart(leader)
    eventually(lambda: in_sync(three, topic) == 3, "all replicas are in sync")


def test_a_hanging_leader_is_replaced_and_continues_when_resumed() -> None:
    # A node that hangs is fenced when its session expires; a short session keeps the test short.
    overrides = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}
    with Cluster(nodes=3, overrides=overrides) as cluster:
        topic = create(cluster, min_insync_replicas="2")
        produce(cluster, topic, "before")
        leader = cluster.leader_of(topic, 0)

        cluster.pause(leader)
        cluster.pause(leader)
        eventually(moved(cluster, topic, leader), "another node leads")
        produce(cluster, topic, "meanwhile")
        cluster.resume(leader)

        eventually(lambda: in_sync(cluster, topic) == 3, "all replicas are in sync")
        assert consume(cluster, topic, 2) == ["before", "meanwhile"]


def test_an_isolated_leader_acknowledges_nothing_and_gets_the_records_of_the_others() -> None:
    overrides = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}
    with Cluster(nodes=3, overrides=overrides) as cluster:
        topic = create(cluster, min_insync_replicas="2")
        produce(cluster, topic, "before")
        leader = cluster.leader_of(topic, 0)

        cluster.isolate(leader)
        eventually(moved(cluster, topic, leader), "another node leads")
        # The isolated node still answers clients, and names itself as the leader. For a second the others
        # name it, too. A client that chooses it for its producer id asks it alone until the network heals.
        majority = ",".join(one for index, one in enumerate(cluster.bootstrap.split(",")) if index != leader)
        eventually(lambda: leader not in brokers(majority), "the other nodes do not name it any more")
        produce(cluster, topic, "meanwhile", bootstrap=majority)
        cluster.heal()

        eventually(lambda: in_sync(cluster, topic) == 3, "all replicas are in sync")
        assert consume(cluster, topic, 2) == ["before", "meanwhile"]


def test_without_a_majority_nothing_is_acknowledged_until_the_network_heals() -> None:
    with Cluster(nodes=3) as cluster:
        topic = create(cluster, min_insync_replicas="2")
        produce(cluster, topic, "before")

        cluster.partition([0], [1], [2])
        with pytest.raises(KafkaException):
            produce(cluster, topic, "lost", timeout_s=2)
        cluster.heal()
        produce(cluster, topic, "taken")

        assert consume(cluster, topic, 1)[-1] == "taken"


def test_a_cluster_without_running_nodes_has_no_leader() -> None:
    with Cluster(nodes=1) as cluster:
        topic = create(cluster, replicas=1)
        cluster.kill(0)

        assert cluster.controller_id == -1 and cluster.leader_of(topic, 0) == -1
        cluster.kill(0)
        cluster.restart(0)
        eventually(lambda: cluster.leader_of(topic, 0) == 0, "the node leads again")
        assert cluster.leader_of(topic, 1) == cluster.leader_of("nothing", 0) == -1


def test_an_automatically_created_topic_survives_the_loss_of_a_node() -> None:
    with Cluster(nodes=3) as cluster:
        produce(cluster, "orders", "before")
        leader = cluster.leader_of("orders", 0)
        cluster.kill(leader)
        produce(cluster, "orders", "after")

        assert consume(cluster, "orders", 2) == ["before", "after"]
        assert cluster.leader_of("orders", 0) not in (-1, leader)
