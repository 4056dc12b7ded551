"""Reassignments while a cluster is written to: a reassignment is cancelled, a broker is decommissioned."""

import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.compat import command_line
from tests.integration.cluster.conftest import Cluster, MakeCluster, eventually
from tests.integration.cluster.test_cluster import consume
from tests.integration.cluster.test_failures import Load, in_sync
from tests.integration.cluster.test_quorum_grows import ottla

pytestmark = pytest.mark.slow
TIMEOUT_S = 180.0
RECORD_BYTES = 100_000


def place(cluster: Cluster, name: str, *assignment: list[int]) -> None:
    """Create a topic whose partitions have these replicas."""
    configs = {"min.insync.replicas": "2"}
    topic = NewTopic(name, len(assignment), replica_assignment=list(assignment), config=configs)
    cluster.admin().create_topics([topic])[name].result(60)


def fill(cluster: Cluster, topic: str, megabytes: int, partitions: int = 1) -> int:
    """Produce this much data, divided evenly among the partitions, and return the number of records."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 20})
    count = megabytes * 1_000_000 // RECORD_BYTES
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic,
                    bytes(RECORD_BYTES),
                    partition=number % partitions,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0 and not failures, failures[:3]
    return count


def throttle(cluster: Cluster, topic: str, bytes_per_second: int) -> None:
    """Limit the replication of new replicas of `topic` to this rate."""

    def alter(kind: ResourceType, name: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for future in cluster.admin().incremental_alter_configs([resource]).values():
            future.result(60)

    for side in ("leader", "follower"):
        alter(ResourceType.TOPIC, topic, f"{side}.replication.throttled.replicas", "*")
        for node_id in cluster.running():
            alter(
                ResourceType.BROKER, str(node_id), f"{side}.replication.throttled.rate", str(bytes_per_second)
            )


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    [described] = json.loads(ottla(cluster, "topic", "describe", topic, "--output", "json"))
    return [one["replicas"] for one in described["partitions"]]


def end_offset(cluster: Cluster, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 20, cached=False)
    consumer.close()
    return int(end)


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> Cluster:
    """Start four nodes; the last one is no voter."""
    four = make_cluster(4)
    four.start(0, 1, 2, 3)
    return four


Writes = Callable[[str], Load]


@pytest.fixture
def writes(cluster: Cluster) -> Iterator[Writes]:
    """Yield a function that starts writing to a topic; writing ends with the test, even if the test fails."""
    begun: list[Load] = []

    def begin(topic: str) -> Load:
        begun.append(Load(cluster, topic))
        return begun[-1]

    yield begin
    for load in begun:
        load.stop()


def test_a_move_is_cancelled_in_the_middle_and_nothing_is_lost(cluster: Cluster, writes: Writes) -> None:
    place(cluster, "moved", [0, 1])
    fill(cluster, "moved", 20)
    throttle(cluster, "moved", 100_000)  # at this rate the reassignment takes minutes
    place(cluster, "written", [0, 1])
    load = writes("written")

    moving = command_line.start(cluster.bootstrap, "topic", "reassign", "moved", "-r", "2,3")
    eventually(
        lambda: ottla(cluster, "topic", "reassign", "moved", "--output", "json") != "[]\n",
        "the partition moves",
    )
    during = replicas(cluster, "moved")
    cancelled = ottla(cluster, "topic", "reassign", "moved", "--cancel")
    out, err = moving.communicate(timeout=TIMEOUT_S)

    assert set(during[0]) == {0, 1, 2, 3}
    assert "moved-0" in cancelled, cancelled
    assert (moving.returncode, out) == (1, "")
    assert err == "ottla: moved-0 stays on 0,1: its move was cancelled by another request.\n"
    eventually(lambda: replicas(cluster, "moved") == [[0, 1]], "the replicas are where they were")
    assert ottla(cluster, "topic", "reassign", "moved") == "no partition of moved is moving\n"
    eventually(lambda: in_sync(cluster, "moved") == [0, 1], "its replicas are in sync", TIMEOUT_S)
    assert len(consume(cluster, "moved", 200)) == 200
    acknowledged = load.stop()
    assert [int(value) for value in consume(cluster, "written", acknowledged)] == list(range(acknowledged))


def test_a_broker_with_hundreds_of_megabytes_leaves_while_it_is_written_to(
    cluster: Cluster, writes: Writes
) -> None:
    place(cluster, "large", [3, 0], [1, 3], [3, 2], [2, 1])
    count = fill(cluster, "large", 300, partitions=4)
    place(cluster, "written", [3, 1, 2])
    load = writes("written")

    leaving = command_line.start(
        cluster.bootstrap, "broker", "decommission", "3", "--timeout", str(TIMEOUT_S)
    )
    assert leaving.stderr is not None
    last = next(line for line in leaving.stderr if "still holds" not in line)
    drained = replicas(cluster, "large") + replicas(cluster, "written")
    assert cluster.terminate(3) == 0
    out, err = leaving.communicate(timeout=TIMEOUT_S)
    before = load.acknowledged
    eventually(lambda: load.acknowledged > before + 50, "writes continue", TIMEOUT_S)
    acknowledged = load.stop()

    assert last == "broker 3 holds nothing; stop it now, and it is removed from the cluster\n", last + err
    assert not any(3 in one for one in drained)
    assert (leaving.returncode, out) == (
        0,
        "broker 3 was removed from the cluster; 4 of its partitions were moved\n",
    ), err
    rows = json.loads(ottla(cluster, "broker", "list", "--output", "json"))
    assert [row["broker"] for row in rows] == [0, 1, 2]
    assert [int(value) for value in consume(cluster, "written", acknowledged)] == list(range(acknowledged))
    assert sum(end_offset(cluster, "large", partition) for partition in range(4)) == count
