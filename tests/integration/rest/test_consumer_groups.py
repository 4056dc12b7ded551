"""Consumer groups of both protocols in Confluent's REST API."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of

pytestmark = pytest.mark.slow
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def topic(rest_cluster: Cluster) -> str:
    """Create two partitions with ten and three records."""
    name = name_of("read")
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})
    admin.create_topics([NewTopic(name, 2, 3)])[name].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})
    for number in range(13):
        producer.produce(name, str(number), partition=int(number > 9))
    producer.flush(TIMEOUT_S)
    return name


class Reader(NamedTuple):
    """The only member of a group: it has both partitions and has committed 4 and 3."""

    group_id: str
    protocol: str
    consumer: Consumer


@pytest.fixture(scope="module", params=["classic", "consumer"])
def reader(request: pytest.FixtureRequest, rest_cluster: Cluster, topic: str) -> Iterator[Reader]:
    group_id = name_of("group/ü")
    settings = {
        "bootstrap.servers": rest_cluster.bootstrap,
        "group.id": group_id,
        "group.protocol": request.param,
        "group.instance.id": "at-the-door",
        "client.id": "reader",
        "enable.auto.commit": False,
    }
    consumer = Consumer({**settings, **QUIET})
    consumer.subscribe([topic])
    eventually(
        lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2,
        "the member has both partitions",
    )
    consumer.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 3)], asynchronous=False)
    yield Reader(group_id, request.param, consumer)
    consumer.close()


def path_of(api: Api, reader: Reader) -> str:
    return f"{api.v3}/consumer-groups/{quote(reader.group_id, safe='-')}"


def test_a_group_is_returned_with_its_links(apis: list[Api], reader: Reader) -> None:
    for api in apis:
        here = path_of(api, reader)
        group = api.get(here)

        coordinator = group.pop("coordinator")["related"]
        assert coordinator in [f"{api.url}{api.v3}/brokers/{number}" for number in range(3)]
        assert group.pop("partition_assignor")
        assert group == {
            "kind": "KafkaConsumerGroup",
            "metadata": {
                "self": f"{api.url}{here}",
                "resource_name": f"crn:///kafka={api.cluster_id}/consumer-group={here.rpartition('/')[2]}",
            },
            "cluster_id": api.cluster_id,
            "consumer_group_id": reader.group_id,
            "is_simple": False,
            "state": "STABLE",
            "type": reader.protocol.upper(),
            "is_mixed_consumer_group": False,
            "consumers": {"related": f"{api.url}{here}/consumers"},
            "lag_summary": {"related": f"{api.url}{here}/lag-summary"},
        }
        listed = api.get(f"{api.v3}/consumer-groups")
        assert listed["kind"] == "KafkaConsumerGroupList"
        assert api.get(here) in listed["data"]


def test_the_members_are_listed(api: Api, reader: Reader) -> None:
    here = path_of(api, reader)

    [member] = api.get(f"{here}/consumers")["data"]

    member_id = quote(member["consumer_id"], safe="-._~")
    assert member == {
        "kind": "KafkaConsumer",
        "metadata": {
            "self": f"{api.url}{here}/consumers/{member_id}",
            "resource_name": (
                f"crn:///kafka={api.cluster_id}/consumer-group={here.rpartition('/')[2]}/consumer={member_id}"
            ),
        },
        "cluster_id": api.cluster_id,
        "consumer_group_id": reader.group_id,
        "consumer_id": member["consumer_id"],
        "instance_id": "at-the-door",
        "client_id": "reader",
        "assignments": {"related": f"{api.url}{here}/consumers/{member_id}/assignments"},
    }
    assert api.get(member["metadata"]["self"]) == member


def test_the_assignments_of_a_member_are_listed(api: Api, reader: Reader, topic: str) -> None:
    [member] = api.get(f"{path_of(api, reader)}/consumers")["data"]

    listed = api.get(member["assignments"]["related"])["data"]

    assert [(one["topic_name"], one["partition_id"]) for one in listed] == [(topic, 0), (topic, 1)]
    assert listed[1]["partition"] == {"related": f"{api.url}{api.v3}/topics/{topic}/partitions/1"}
    assert api.get(listed[1]["metadata"]["self"]) == listed[1]
    assert api.get(listed[1]["lag"]["related"])["partition_id"] == 1
    api.get(f"{member['assignments']['related']}/{topic}/partitions/2", 404)


def test_the_lag_is_returned(api: Api, reader: Reader, topic: str) -> None:
    here = path_of(api, reader)
    [member] = api.get(f"{here}/consumers")["data"]

    lags = api.get(f"{here}/lags")["data"]
    summary = api.get(f"{here}/lag-summary")

    assert [(one["partition_id"], one["lag"]) for one in lags] == [(0, 6), (1, 0)]
    lag = lags[0]
    assert {name: lag[name] for name in ("current_offset", "log_end_offset", "consumer_id", "client_id")} == {
        "current_offset": 4,
        "log_end_offset": 10,
        "consumer_id": member["consumer_id"],
        "client_id": "reader",
    }
    assert api.get(lag["metadata"]["self"]) == lag
    assert {name: value for name, value in summary.items() if "lag" in name and "consumer" not in name} == {
        "max_lag_instance_id": "at-the-door",
        "max_lag_client_id": "reader",
        "max_lag_topic_name": topic,
        "max_lag_partition_id": 0,
        "max_lag": 6,
        "total_lag": 6,
        "max_lag_partition": {"related": f"{api.url}{api.v3}/topics/{topic}/partitions/0"},
    }
    assert summary["max_lag_consumer"] == {"related": member["metadata"]["self"]}
    assert summary["metadata"]["self"] == f"{api.url}{here}/lag-summary"
    api.get(f"{here}/lags/{topic}/partitions/7", 404)


def test_a_group_that_only_commits_has_lag_and_no_consumers(
    rest_cluster: Cluster, api: Api, topic: str
) -> None:
    group_id = name_of("simple")
    consumer = Consumer({"bootstrap.servers": rest_cluster.bootstrap, "group.id": group_id, **QUIET})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    here = f"{api.v3}/consumer-groups/{group_id}"

    group, [lag] = api.get(here), api.get(f"{here}/lags")["data"]

    assert (group["is_simple"], group["state"], group["type"]) == (True, "EMPTY", "CLASSIC")
    assert (lag["lag"], lag["consumer_id"], lag["instance_id"], lag["client_id"]) == (9, "", None, "")
    assert api.get(f"{here}/consumers")["data"] == []
    assert api.get(f"{here}/lag-summary")["max_lag_consumer_id"] == ""
    api.get(f"{here}/consumers/nobody", 404)
    api.get(f"{here}/consumers/nobody/assignments", 404)


@pytest.mark.parametrize("path", ["", "/consumers", "/consumers/a", "/lags", "/lag-summary"])
def test_a_missing_group_is_not_found(api: Api, path: str) -> None:
    body = api.get(f"{api.v3}/consumer-groups/{name_of('none')}{path}", 404)

    assert body["error_code"] == 404
    assert body["message"].endswith("could not be found.")
