"""Three nodes as one cluster: a request to any of them takes effect on all of them."""

import asyncio
import time
from collections import Counter
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from ottla.logstore.words.topic_partition import TopicPartition as Place
from ottla.node.client import group_admin, group_lag
from ottla.node.client.cluster_client import Client
from tests.compat.wire_client import WireClient, only
from tests.integration.cluster.conftest import Cluster, eventually
from tests.integration.cluster.rolling import setting

pytestmark = pytest.mark.slow


def create(cluster: Cluster, *, by: int, replicas: int = 3, partitions: int = 1, **configs: str) -> str:
    """Create a topic by a request to one node, which forwards it to the controller; return the name.

    librdkafka sends this request to the controller itself.
    """
    name = f"topic-{uuid4().hex[:8]}"
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "configs": settings,
    }
    with WireClient(cluster.nodes[by].bootstrap) as client:
        answer = client.call("create_topics", 7, topics=[topic], timeout_ms=50_000)
    assert only(answer.topics).error_code == 0, answer
    return name


def produce(cluster: Cluster, topic: str, count: int, **settings: object) -> None:
    """Produce `count` records, each acknowledged by all replicas in sync."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **settings})
    for number in range(count):
        producer.produce(
            topic,
            str(number).encode(),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0 and not failures, failures[:3]


def consume(cluster: Cluster, topic: str, count: int, partitions: int = 1) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[str] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value().decode() for message in consumer.consume(1000, 0.5) if not message.error()]
    consumer.close()
    return values


def test_every_node_knows_all_of_them_and_the_same_controller(cluster: Cluster) -> None:
    described = [cluster.admin(node_id).describe_cluster().result(60) for node_id in (0, 1, 2)]

    assert all(sorted(node.id for node in one.nodes) == [0, 1, 2] for one in described)
    assert len({one.controller.id for one in described}) == 1
    assert len({one.cluster_id for one in described}) == 1


@pytest.mark.parametrize("node_id", [0, 1, 2])
def test_a_new_topic_is_known_to_the_asked_node_at_once_and_to_all_soon(
    cluster: Cluster, node_id: int
) -> None:
    def partitions_at(node: int) -> int:
        with WireClient(cluster.nodes[node].bootstrap) as client:
            found = only(client.call("metadata", 12, topics=[{"name": topic}]).topics)
        return len(found.partitions) if found.error_code == 0 else 0

    topic = create(cluster, by=node_id, partitions=3)

    assert partitions_at(node_id) == 3
    for other in (0, 1, 2):
        eventually(lambda other=other: partitions_at(other) == 3, f"node {other} knows {topic}")  # type: ignore[misc]


def test_records_acknowledged_by_all_replicas_are_consumed(cluster: Cluster) -> None:
    topic = create(cluster, by=1, partitions=3, min_insync_replicas="2")

    produce(cluster, topic, 3_000, **{"enable.idempotence": True})

    assert sorted(map(int, consume(cluster, topic, 3_000, partitions=3))) == list(range(3_000))


def test_two_members_read_all_records_and_committed_offsets_have_three_replicas(cluster: Cluster) -> None:
    topic = create(cluster, by=0, partitions=6)
    produce(cluster, topic, 600)
    seen: Counter[str] = Counter()
    consumers = [
        Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
            }
        )
        for _ in range(2)
    ]
    for one in consumers:
        one.subscribe([topic])
    deadline = time.monotonic() + 60
    while sum(seen.values()) < 600 and time.monotonic() < deadline:
        for one in consumers:
            seen.update(message.value().decode() for message in one.consume(100, 0.2) if not message.error())
    for one in consumers:
        one.close()

    offsets = cluster.admin(2).list_topics("__consumer_offsets", timeout=60).topics["__consumer_offsets"]

    assert len(seen) == 600
    assert all(len(partition.replicas) == 3 for partition in offsets.partitions.values())


def test_the_coordinator_reports_the_lag_that_a_client_would_measure(cluster: Cluster) -> None:
    """Partitions 0 to 5: empty, read to the end, behind, trimmed, behind by one, and never committed."""
    topic, group = create(cluster, by=0, partitions=6, replicas=1), f"lag-{uuid4().hex[:8]}"
    an_hour_ago_ms = int(time.time() * 1000) - 3_600_000
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for partition in range(1, 6):
        for number in range(10):
            producer.produce(
                topic, b"v", partition=partition, timestamp=an_hour_ago_ms + number * 60_000, on_delivery=None
            )
    assert producer.flush(60) == 0
    committed = {0: 0, 1: 10, 2: 3, 3: 1, 4: 9}
    commits = [TopicPartition(topic, partition, offset) for partition, offset in committed.items()]
    (done,) = (
        cluster.admin().alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, commits)]).values()
    )
    done.result(60)
    (cut,) = cluster.admin().delete_records([TopicPartition(topic, 3, 5)]).values()
    cut.result(60)

    began_ms = int(time.time() * 1000)
    offsets, lags, measured = asyncio.run(both_lags(cluster, group))
    ended_ms = int(time.time() * 1000)

    assert {one.partition: offset for one, offset in offsets.items()} == committed
    assert lags is not None
    for partition, (records, first_unread) in enumerate([(0, None), (0, None), (7, 3), (9, 5), (1, 9)]):
        place = Place(topic, partition)
        end, age_ms = lags[place]
        assert (end - committed[partition], measured[place].records, measured[place].log_end_offset) == (
            records,
            records,
            end,
        )
        for age in (age_ms, measured[place].age_ms):
            assert age is not None
            if first_unread is None:
                assert age == 0
            else:
                written_ms = an_hour_ago_ms + first_unread * 60_000
                assert began_ms - written_ms <= age <= ended_ms - written_ms
    assert Place(topic, 5) not in lags


async def both_lags(
    cluster: Cluster, group: str
) -> tuple[dict[Place, int], dict[Place, tuple[int, int | None]] | None, dict[Place, group_lag.PartitionLag]]:
    """Return the committed offsets of a group, its lag by its coordinator, and its lag by a client."""
    host, port = cluster.bootstrap.split(",")[0].split(":")
    async with Client([(host, int(port))], timeout_s=60) as client:
        known = await group_admin.committed(client, group, with_lag=True)
        measured = await group_lag.measure(client, known.offsets)
    return known.offsets, known.lags, measured


def test_the_secret_is_hidden(cluster: Cluster) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.BROKER, "1")
    (future,) = cluster.admin(0).describe_configs([resource]).values()

    entries = future.result(60)

    assert entries["cluster.secret"].value is None and entries["cluster.secret"].is_sensitive
    secret = setting(cluster.homes[1], "cluster.secret")
    assert len(secret) >= 16 and not [one for one in entries.values() if secret in (one.value or "")]
