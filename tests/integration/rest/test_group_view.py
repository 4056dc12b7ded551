"""A group with its members and lag in one answer."""

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api, eventually, name_of

pytestmark = pytest.mark.slow


def test_a_group_is_returned_with_members_assignments_and_lag(rest_cluster: Cluster, api: Api) -> None:
    topic, group = name_of("viewed"), name_of("viewers")
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap})
    eventually(
        lambda: producer.list_topics(topic).topics[topic].partitions,
        "the request for metadata creates the topic",
    )
    for _ in range(5):
        producer.produce(topic, b"hello", partition=0)
    producer.flush()
    consumer = Consumer(
        {
            "bootstrap.servers": rest_cluster.bootstrap,
            "group.id": group,
            "client.id": "viewer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # else the position is committed after five seconds
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1), "a record is received")
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)

    view = api.get(f"/v1/groups/{group}")

    [member] = view["members"]
    assert (view["group_id"], view["state"]) == (group, "Stable")
    assert member["client_id"] == "viewer" and member["partitions"][0] == {"topic": topic, "partition": 0}
    lag = view["lags"][0]
    assert (lag["topic"], lag["partition"], lag["member_id"]) == (topic, 0, member["member_id"])
    assert (lag["committed"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
    assert lag["lag_ms"] >= 0
    consumer.close()


def test_the_list_of_groups_has_the_total_lag_of_groups_that_are_searched_for(
    rest_cluster: Cluster, api: Api
) -> None:
    topic, group, other = name_of("counted"), name_of("behind"), name_of("elsewhere")
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap})
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 3)])[topic].result(30)
    for partition in (0, 1):
        for _ in range(4):
            producer.produce(topic, b"x", partition=partition)
    producer.flush()
    for name, offsets in ((group, {0: 1, 1: 4}), (other, {0: 4})):
        consumer = Consumer({"bootstrap.servers": rest_cluster.bootstrap, "group.id": name})
        consumer.commit(offsets=[TopicPartition(topic, *at) for at in offsets.items()], asynchronous=False)
        consumer.close()

    def look() -> dict[str, Any]:
        found = {one["group_id"]: one for one in api.get(f"/v1/groups?search={group.upper()}")["groups"]}
        return found if found[group]["lag"] is not None else {}

    found = eventually(look, "its coordinator knows the ends of the logs")
    nothing = {one["group_id"]: one for one in api.get("/v1/groups?detailed=0")["groups"]}

    assert (found[group]["lag"], found[group]["members"], found[group]["state"]) == (3, 0, "Empty")
    assert found[group]["lag_ms"] >= 0
    assert (found[other]["lag"], found[other]["members"]) == (None, None)
    assert nothing[group]["lag"] is None
    assert api.get(f"/v1/groups?search={other}")["groups"]


def test_assigned_partitions_without_a_commit_are_listed_too(rest_cluster: Cluster, api: Api) -> None:
    topic, group = name_of("fresh"), name_of("beginners")
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap})
    eventually(
        lambda: producer.list_topics(topic).topics[topic].partitions,
        "the request for metadata creates the topic",
    )
    consumer = Consumer(
        {"bootstrap.servers": rest_cluster.bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    consumer.poll(0.1)
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), "the member has an assignment")

    lags = api.get(f"/v1/groups/{group}")["lags"]

    assert {one["topic"] for one in lags} == {topic}
    assert {(one["committed"], one["lag"], one["log_end_offset"]) for one in lags} == {(None, None, 0)}
    consumer.close()


def test_a_missing_group_is_404(api: Api) -> None:
    assert api.ask("GET", "/v1/groups/nobody").status == 404
