"""The partitions of a topic with offsets and sizes in one answer."""

from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api, eventually, name_of

pytestmark = pytest.mark.slow


def test_partitions_are_returned_with_replicas_offsets_and_sizes(rest_cluster: Cluster, api: Api) -> None:
    topic = name_of("partitions")
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap})
    eventually(
        lambda: producer.list_topics(topic).topics[topic].partitions,
        "the request for metadata creates the topic",
    )
    for _ in range(5):
        producer.produce(topic, b"hello", partition=0)
    producer.flush()

    reply = api.get(f"/v1/topics/{topic}/partitions")

    first = reply["partitions"][0]
    assert (reply["topic"], first["partition"], first["leader"]) == (
        topic,
        0,
        rest_cluster.leader_of(topic, 0),
    )
    assert first["replicas"] and set(first["isr"]) <= set(first["replicas"])
    assert first["eligible_leader_replicas"] == first["last_known_elr"] == []
    assert (first["log_start_offset"], first["log_end_offset"]) == (0, 5)
    assert first["size_bytes"] > 5 * len(b"hello")


def test_a_missing_topic_is_not_found(api: Api) -> None:
    assert api.get("/v1/topics/nothing/partitions", 404)["error_code"] == 40403


def test_a_replica_that_left_an_isr_of_too_few_is_eligible() -> None:
    """KIP-966: the replica left while the ISR was smaller than min.insync.replicas."""
    with Cluster(3, rest=True) as cluster:
        api = Api(cluster.rest_urls[0], cluster.cluster_id)
        wanted = {
            "topic_name": "t",
            "replicas_assignments": [{"partition_id": 0, "broker_ids": [0, 2]}],
            "configs": [{"name": "min.insync.replicas", "value": "2"}],
        }
        api.post(f"{api.v3}/topics", wanted, 201)
        [before] = api.get("/v1/topics/t/partitions")["partitions"]

        cluster.kill(2)

        def left_the_isr() -> dict[str, Any] | None:
            [one] = api.get("/v1/topics/t/partitions")["partitions"]
            return one if one["isr"] == [0] else None

        after = eventually(left_the_isr, "the replica leaves the ISR")
        assert before["eligible_leader_replicas"] == before["last_known_elr"] == []
        assert after["eligible_leader_replicas"] == [2]
