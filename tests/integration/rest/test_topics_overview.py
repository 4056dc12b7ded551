"""All topics with size and retention, and the readers and writers of each."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api, eventually, name_of

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(rest_cluster: Cluster) -> str:
    """Create a topic with five records, written by an idempotent producer."""
    name = f"{name_of('overview')}-10"
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap})
    new = NewTopic(name, 2, 1, config={"retention.ms": "3600000"})
    admin.create_topics([new])[name].result(60)
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap, "enable.idempotence": True})
    for _ in range(5):
        producer.produce(name, b"hello", partition=0)
    assert producer.flush(60) == 0
    return name


def test_topics_are_listed_with_size_records_and_retention(
    rest_cluster: Cluster, api: Api, topic: str
) -> None:
    earlier = topic.removesuffix("10") + "9"
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap})
    admin.create_topics([NewTopic(earlier, 1, 1)])[earlier].result(60)

    def listed() -> list[dict[str, object]]:
        found = api.get(f"/v1/topics?search={topic[:-3].upper()}")["topics"]
        return [one for one in found if str(one["topic"]).startswith(topic[:-3])]

    eventually(lambda: len(listed()) == 2, "every node knows both topics")
    eventually(lambda: all(one["records"] is not None for one in listed()), "the leaders answer")
    first, second = listed()
    assert (first["topic"], second["topic"]) == (earlier, topic)
    assert (second["partitions"], second["replicas"], second["is_internal"]) == (2, 1, False)
    assert (second["leaderless"], second["under_replicated"]) == (0, 0)
    assert (second["records"], second["written"]) == (5, 5)
    assert int(str(second["size_bytes"])) > 5 * len(b"hello") and first["size_bytes"] == 0
    assert second["configs"] == {
        "cleanup.policy": "delete",
        "retention.ms": "3600000",
        "retention.bytes": "-1",
    }
    others = api.get("/v1/topics?detailed=0")["topics"]
    assert all(one["records"] is None and one["configs"] == {} for one in others)


def test_a_topic_is_returned_with_its_groups_and_their_lag_in_it(
    rest_cluster: Cluster, api: Api, topic: str
) -> None:
    group = name_of("reader")
    consumer = Consumer({"bootstrap.servers": rest_cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()

    def lag() -> object:
        topics = api.get(f"/v1/topic-groups?topic={topic}&detailed=1000")["topics"]
        assert all(one["topic"] == topic for one in topics)
        return [(one["group_id"], one["state"], one["lag"]) for each in topics for one in each["groups"]]

    eventually(lambda: lag() == [(group, "Empty", 3)], "the lag is returned")
    few = api.get("/v1/topic-groups?detailed=1")
    assert few["groups_left_out"] == len(api.get("/v1/groups?detailed=0")["groups"]) - 1


def test_a_topic_is_returned_with_its_producers(api: Api, topic: str) -> None:
    reply = api.get(f"/v1/topics/{topic}/producers")

    [producer] = reply["producers"]
    assert (producer["partition"], producer["last_sequence"], reply["count"]) == (0, 4, 1)
    assert reply["unavailable"] == []
    assert api.get("/v1/topics/nothing/producers", 404)["error_code"] == 40403
