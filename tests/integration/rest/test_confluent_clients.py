"""Confluent's own clients: the requests that they send, and the fields that they look for in answers.

The requests were recorded from Confluent's Go clients, whose calls were run against three nodes: the client
of its REST Proxy, which its command line uses, and that of its cloud, which its Terraform provider uses.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, Reply, eventually, name_of

pytestmark = pytest.mark.slow
GO_CLIENT = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "User-Agent": "OpenAPI-Generator/1.0.0/go",
    # Passwords are not required here, but clients that have one send it.
    "Authorization": "Basic a2V5OnNlY3JldA==",
}
# Links without a target while there is no authorizer, and no reassignment is under way.
NOTHING_THERE = {"/acls": 400, "/reassignment": 404}


@pytest.fixture(params=["", "/kafka"], ids=["proxy", "server"])
def root(request: pytest.FixtureRequest) -> str:
    """Return the prefix of /v3."""
    return str(request.param)


@pytest.fixture(scope="module")
def group(rest_cluster: Cluster, api: Api) -> Iterator[str]:
    """Start a group whose one member has a partition with a lag of three records."""
    topic = name_of("read")
    api.post(f"{api.v3}/topics", {"topic_name": topic}, 201)
    cluster = {"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0}
    producer = Producer(cluster)
    for number in range(3):
        producer.produce(topic, str(number))
    producer.flush(TIMEOUT_S)
    name = name_of("group")
    consumer = Consumer({**cluster, "group.id": name, "enable.auto.commit": False})
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the member has the partition")
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    yield name
    consumer.close()


def ask(api: Api, method: str, path: str, body: Any = None) -> Reply:
    return api.ask(method, path, body, headers=GO_CLIENT)


def links_of(answer: Any) -> Iterator[str]:
    """Yield every link in an answer."""
    if isinstance(answer, list):
        for one in answer:
            yield from links_of(one)
    elif isinstance(answer, dict):
        for key, one in answer.items():
            if key in ("self", "related", "next") and one is not None:
                yield one
            else:
                yield from links_of(one)


def shape_of(path: str) -> str:
    """Return a path without the names in it: links of one shape lead to the same handler."""
    return re.sub(
        r"(clusters|brokers|topics|partitions|replicas|consumers|groups|lags|assignments|configs)/[^/]+",
        r"\1/*",
        path,
    )


def test_every_link_leads_somewhere_and_keeps_its_prefix(api: Api, root: str, group: str) -> None:
    here = f"{root}{api.v3}"
    [lag] = ask(api, "GET", f"{here}/consumer-groups/{group}/lags").json["data"]
    topic = f"{here}/topics/{lag['topic_name']}"
    # The test's own topic comes first: the state of other tests' topics is unknown.
    waiting = deque(
        [
            f"{here}/consumer-groups/{group}",
            lag["metadata"]["self"],
            topic,
            f"{topic}/default-configs",
            f"{here}/topics/-/configs",
            f"{here}/brokers/-/configs",
            f"{root}/v3/clusters",
        ]
    )
    seen = set[str]()
    while waiting:
        path = urlsplit(waiting.popleft()).path
        if shape_of(path) in seen:
            continue
        seen.add(shape_of(path))
        reply = ask(api, "GET", path)
        nothing = next((status for end, status in NOTHING_THERE.items() if path.endswith(end)), 200)
        assert reply.status in (200, nothing), (path, reply.content[:300])
        links = list(links_of(reply.json))
        assert all(link.startswith(f"{api.url}{root}/v3/clusters") for link in links), (path, links)
        waiting += links

    assert len(seen) > 20, sorted(seen)


@pytest.mark.parametrize("path", ["/v3/clusters/", "/kafka/v3/clusters", "/kafka/v3/clusters/"])
def test_a_path_may_be_written_in_several_ways(api: Api, path: str) -> None:
    [cluster] = ask(api, "GET", path).json["data"]

    assert cluster["cluster_id"] == api.cluster_id
    assert ask(api, "DELETE", path).status == 405
    assert ask(api, "GET", f"/kafka{path}").status == (404 if "kafka" in path else 200)


@pytest.mark.parametrize("path", ["/v1/health/", "/kafka/v1/health", "/kafka"])
def test_paths_of_our_own_have_one_spelling(api: Api, path: str) -> None:
    assert ask(api, "GET", path).status == 404


def test_the_go_client_creates_alters_and_deletes_a_topic(api: Api, root: str) -> None:
    topics = f"{root}{api.v3}/topics"
    name = name_of("go")
    listed = [{"partition_id": 1, "broker_ids": [2, 1]}, {"partition_id": 0, "broker_ids": [0, 2]}]
    body = {
        "topic_name": name,
        "replicas_assignments": listed,
        "configs": [{"name": "retention.ms", "value": "1000"}],
    }

    made = ask(api, "POST", topics, body)
    again = ask(api, "POST", topics, {"topic_name": name, "configs": []})
    grown = ask(api, "PATCH", f"{topics}/{name}", {"partitions_count": 3})
    changes = {
        "data": [
            {"name": "retention.ms", "value": None, "operation": "DELETE"},
            {"name": "cleanup.policy", "value": "compact"},
        ]
    }
    altered = ask(api, "POST", f"{topics}/{name}/configs:alter", changes)
    replicas = ask(api, "GET", f"{topics}/{name}/partitions/1/replicas").json["data"]
    gone = ask(api, "DELETE", f"{topics}/{name}")
    unknown = ask(api, "DELETE", f"{topics}/{name}")

    assert (made.status, made.json["partitions_count"], made.json["replication_factor"]) == (201, 2, 2)
    assert [one["broker_id"] for one in replicas] == [2, 1]
    # The command line compares these texts and codes.
    assert (again.status, again.json) == (
        400,
        {"error_code": 40002, "message": f"Topic '{name}' already exists."},
    )
    assert (grown.status, grown.json["partitions_count"]) == (200, 3)
    assert (altered.status, gone.status) == (204, 204)
    message = "This server does not host this topic-partition."
    assert (unknown.status, unknown.json) == (404, {"error_code": 40403, "message": message})


def test_a_partition_that_is_listed_twice_is_rejected(api: Api) -> None:
    listed = [{"partition_id": 0, "broker_ids": [0]}, {"partition_id": 0, "broker_ids": [1]}]
    body = {"topic_name": name_of("go"), "replicas_assignments": listed}

    error = api.post(f"{api.v3}/topics", body, 400)

    assert error == {"error_code": 400, "message": "replicas_assignments names a partition twice."}


def test_a_record_is_stored_as_the_go_client_sends_it(api: Api, root: str) -> None:
    name = name_of("go")
    api.post(f"{api.v3}/topics", {"topic_name": name}, 201)
    body = {
        "partition_id": 0,
        "headers": [{"name": "h", "value": "aGk="}],
        "key": {"type": "STRING", "data": "k"},
        "value": {"type": "JSON", "data": {"a": 1}},
        "timestamp": "2026-01-31T12:00:00.123456789+01:00",
    }

    report = ask(api, "POST", f"{root}{api.v3}/topics/{name}/records", body).json

    assert report == {
        "error_code": 200,
        "cluster_id": api.cluster_id,
        "topic_name": name,
        "partition_id": 0,
        "offset": 0,
        "timestamp": "2026-01-31T11:00:00.123Z",
        "key": {"type": "STRING", "size": 1},
        "value": {"type": "JSON", "size": 7},
    }
