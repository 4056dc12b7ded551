"""Topics, their settings, partitions and replicas, as Confluent's clients request them, through any node."""

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_admin import move_partitions
from ottla.node.client.cluster_client import Client, parse_bootstrap
from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api, eventually, name_of

pytestmark = pytest.mark.slow


def make(api: Api, *, partitions: int = 2, replicas: int = 3, **configs: str) -> str:
    """Create a topic; underscores in settings stand for dots."""
    name = name_of("topic")
    body = {
        "topic_name": name,
        "partitions_count": partitions,
        "replication_factor": replicas,
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    api.post(f"{api.v3}/topics", body, 201)
    return name


@pytest.fixture(scope="module")
def topic(api: Api) -> str:
    """Create a topic that tests leave unchanged: two partitions, three replicas, one setting."""
    return make(api, retention_ms="86400000")


def fill(cluster: Cluster, topic: str) -> None:
    """Produce more than a throttle of one byte a second lets through in a second."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for _ in range(3):
        producer.produce(topic, b"x" * 500_000, partition=0)
    assert producer.flush(30) == 0


def move(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    """Start a reassignment of partition 0."""

    async def ask() -> None:
        async with Client(parse_bootstrap(cluster.bootstrap), timeout_s=30) as client:
            await move_partitions(client, {TopicPartition(topic, 0): replicas})

    asyncio.run(ask())


# ---- topics --------------------------------------------------------------------------------------


def test_a_topic_is_created_found_on_every_node_and_deleted(apis: list[Api]) -> None:
    first, second, third = apis
    name = name_of("topic")

    reply = first.ask(
        "POST",
        f"{first.v3}/topics",
        {"topic_name": name, "partitions_count": 3, "replication_factor": 2},
    )
    made = reply.json
    again = second.post(f"{second.v3}/topics", {"topic_name": name}, 400)
    seen = eventually(lambda: third.ask("GET", f"{third.v3}/topics/{name}").status == 200)
    third.delete(f"{third.v3}/topics/{name}")
    gone = third.get(f"{third.v3}/topics/{name}", 404)

    here = f"{first.url}{first.v3}/topics/{name}"
    assert reply.status == 201 and reply.headers["Location"] == here and seen
    assert made == {
        "kind": "KafkaTopic",
        "metadata": {"self": here, "resource_name": f"crn:///kafka={first.cluster_id}/topic={name}"},
        "cluster_id": first.cluster_id,
        "topic_name": name,
        "is_internal": False,
        "replication_factor": 2,
        "partitions_count": 3,
        "partitions": {"related": f"{here}/partitions"},
        "configs": {"related": f"{here}/configs"},
        "partition_reassignments": {"related": f"{here}/partitions/-/reassignment"},
        "authorized_operations": [],
    }
    assert again["error_code"] == 40002 and "already exists" in again["message"]
    assert gone["error_code"] == 40403
    assert gone["message"].startswith("This server does not host this topic-partition.")


def test_a_topic_that_is_only_validated_is_not_created(api: Api) -> None:
    name = name_of("topic")

    could_be = api.post(f"{api.v3}/topics", {"topic_name": name, "validate_only": True}, 200)

    assert could_be["topic_name"] == name and could_be["partitions_count"] == 1
    api.get(f"{api.v3}/topics/{name}", 404)


def test_replicas_are_on_the_assigned_brokers(api: Api) -> None:
    name = name_of("topic")
    body = {"topic_name": name, "replicas_assignments": {"0": [2, 0], "1": [1, 2]}}

    made = api.post(f"{api.v3}/topics", body, 201)
    replicas = api.get(f"{api.v3}/topics/{name}/partitions/0/replicas")["data"]

    assert (made["partitions_count"], made["replication_factor"]) == (2, 2)
    assert [one["broker_id"] for one in replicas] == [2, 0]


def test_a_topic_takes_its_settings_from_the_request(api: Api) -> None:
    name = name_of("topic")
    configs = [
        {"name": "retention.ms", "value": 1000},
        {"name": "cleanup.policy", "value": "compact"},
        {"name": "preallocate", "value": False},
    ]

    api.post(f"{api.v3}/topics", {"topic_name": name, "configs": configs}, 201)
    settings = {one["name"]: one for one in api.get(f"{api.v3}/topics/{name}/configs")["data"]}

    assert settings["retention.ms"]["value"] == "1000"
    assert settings["cleanup.policy"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert settings["preallocate"]["value"] == "false"


def test_topics_are_listed_by_name_without_the_internal_ones(api: Api) -> None:
    names = sorted(make(api) for _ in range(3))

    listed = api.get(f"{api.v3}/topics")
    found = [one["topic_name"] for one in listed["data"]]

    assert listed["kind"] == "KafkaTopicList"
    assert listed["metadata"] == {"self": f"{api.url}{api.v3}/topics", "next": None}
    assert set(names) <= set(found) and found == sorted(found)
    assert not any(one["is_internal"] for one in listed["data"])


def test_authorized_operations_are_returned_on_request(api: Api, topic: str) -> None:
    found = api.get(f"{api.v3}/topics/{topic}?include_authorized_operations=true")
    listed = api.get(f"{api.v3}/topics?includeAuthorizedOperations=true")["data"]

    everything = {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE"}
    everything |= {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
    assert set(found["authorized_operations"]) == everything
    assert all(set(one["authorized_operations"]) == everything for one in listed)


def test_a_topic_grows_and_does_not_shrink(api: Api) -> None:
    name = make(api, partitions=2)

    grown = api.patch(f"{api.v3}/topics/{name}", {"partitions_count": 5})
    shrunk = api.patch(f"{api.v3}/topics/{name}", {"partitions_count": 3}, 400)
    unknown = api.patch(f"{api.v3}/topics/{name_of('none')}", {"partitions_count": 3}, 404)

    assert grown["partitions_count"] == 5 and grown["replication_factor"] == 3
    assert shrunk["error_code"] == 40002 and unknown["error_code"] == 40403
    eventually(lambda: len(api.get(f"{api.v3}/topics/{name}/partitions")["data"]) == 5)


REFUSED: list[tuple[Any, int, int]] = [
    ({"topic_name": "a/b"}, 422, 422),
    ({"topic_name": ".."}, 422, 422),
    ({"topic_name": ""}, 422, 422),
    ({"topic_name": "x" * 250}, 422, 422),
    (None, 422, 422),
    ({}, 400, 400),
    ([], 400, 400),
    ({"topic_name": 5}, 400, 400),
    ({"topic_name": "t", "partitions_count": "many"}, 400, 400),
    ({"topic_name": "t", "partitions_count": 2**31}, 400, 400),
    ({"topic_name": "t", "partitions_count": 0}, 400, 40002),
    ({"topic_name": "t", "replication_factor": 9}, 400, 40002),
    ({"topic_name": "t", "replicas_assignments": {"one": [0]}}, 400, 400),
    ({"topic_name": "t", "replicas_assignments": {"0": [0], "2": [1]}}, 400, 40002),
    ({"topic_name": "t", "configs": [{"name": "no.such", "value": "1"}]}, 400, 40002),
    ({"topic_name": "t", "configs": [{"value": "1"}]}, 400, 400),
]


@pytest.mark.parametrize(("body", "status", "code"), REFUSED)
def test_an_invalid_topic_is_rejected(api: Api, body: Any, status: int, code: int) -> None:
    error = api.post(f"{api.v3}/topics", body, status)

    assert error["error_code"] == code and error["message"]


# ---- settings ------------------------------------------------------------------------------------


def test_settings_of_a_topic_have_their_source_and_synonyms(api: Api, topic: str) -> None:
    listed = api.get(f"{api.v3}/topics/{topic}/configs")
    one = api.get(f"{api.v3}/topics/{topic}/configs/retention.ms")

    here = f"{api.url}{api.v3}/topics/{topic}/configs"
    assert listed["kind"] == "KafkaTopicConfigList" and listed["metadata"]["self"] == here
    assert one in listed["data"]
    assert one == {
        "kind": "KafkaTopicConfig",
        "metadata": {
            "self": f"{here}/retention.ms",
            "resource_name": f"crn:///kafka={api.cluster_id}/topic={topic}/config=retention.ms",
        },
        "cluster_id": api.cluster_id,
        "topic_name": topic,
        "name": "retention.ms",
        "value": "86400000",
        "is_default": False,
        "is_read_only": False,
        "is_sensitive": False,
        "source": "DYNAMIC_TOPIC_CONFIG",
        "synonyms": one["synonyms"],
    }
    assert one["synonyms"][0] == {
        "name": "retention.ms",
        "value": "86400000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    assert api.get(f"{api.v3}/topics/{topic}/configs/no.such", 404)["error_code"] == 404


def test_settings_have_their_documentation_on_request(api: Api, topic: str) -> None:
    listed = api.get(f"{api.v3}/topics/{topic}/configs?include_documentation=true")["data"]

    assert {one["name"]: one["type"] for one in listed}["retention.ms"] == "LONG"
    assert all(one["documentation"] for one in listed)


def test_a_setting_is_set_and_reset(apis: list[Api]) -> None:
    first, second, _ = apis
    place = f"{first.v3}/topics/{make(first)}/configs/retention.ms"

    def shown_by(api: Api) -> tuple[str, bool]:
        found = api.get(place)
        return found["value"], found["is_default"]

    first.put(place, {"value": "5000"}, 204)
    eventually(lambda: shown_by(second) == ("5000", False), "another node knows the value")
    second.delete(place)
    eventually(lambda: shown_by(first) == ("604800000", True), "the first node knows the default")


def test_settings_are_altered_all_or_none(api: Api) -> None:
    place = f"{api.v3}/topics/{make(api, retention_ms='5000')}/configs"
    changes = [
        {"name": "cleanup.policy", "value": "compact"},
        {"name": "retention.ms", "operation": "DELETE"},
    ]
    wrong = [{"name": "min.insync.replicas", "value": "2"}, {"name": "retention.ms", "value": "soon"}]

    api.post(f"{place}:alter", {"data": changes, "validate_only": True}, 204)
    before = api.get(f"{place}/cleanup.policy")["value"]
    api.post(f"{place}:alter", {"data": changes}, 204)
    refused = api.post(f"{place}:alter", {"data": wrong}, 400)
    unknown = api.post(f"{place}:alter", {"data": [{"name": "no.such", "value": "1"}]}, 404)

    assert before == "delete"
    eventually(lambda: api.get(f"{place}/cleanup.policy")["value"] == "compact", "the node knows the change")
    assert api.get(f"{place}/retention.ms")["is_default"]
    assert refused["error_code"] == 40002 and api.get(f"{place}/min.insync.replicas")["value"] == "1"
    assert unknown["error_code"] == 404 and "Config no.such cannot be found for TOPIC" in unknown["message"]


def test_settings_of_several_topics_are_altered_at_once(api: Api) -> None:
    good, other = make(api), make(api)
    change = {"name": "retention.ms", "value": "7000"}
    wrong = {"name": "retention.ms", "value": "soon"}

    def alter(*entries: tuple[str, dict[str, str]], status: int) -> Any:
        data = [{"topic_name": name, "configs": [config]} for name, config in entries]
        return api.post(f"{api.v3}/topics/-/configs:alter", {"data": data}, status)

    alter((good, change), (other, change), status=204)
    partly = alter((good, change), (other, wrong), status=207)

    def values() -> list[str]:
        every = api.get(f"{api.v3}/topics/-/configs")["data"]
        found = {one["topic_name"]: one["value"] for one in every if one["name"] == "retention.ms"}
        return [found[good], found[other]]

    [failure] = partly["failures"]
    assert (failure["topic_name"], failure["error_code"]) == (other, 40002)
    eventually(lambda: values() == ["7000", "7000"], "the node knows the changes")


def test_the_settings_that_a_new_topic_would_have_are_listed(api: Api) -> None:
    name = name_of("future")

    defaults = api.get(f"{api.v3}/topics/{name}/default-configs")

    settings = {one["name"]: one for one in defaults["data"]}
    here = f"{api.url}{api.v3}/topics/{name}"
    assert defaults["metadata"]["self"] == f"{here}/default-configs"
    assert settings["cleanup.policy"]["value"] == "delete" and settings["cleanup.policy"]["is_default"]
    assert settings["cleanup.policy"]["metadata"]["self"] == f"{here}/configs/cleanup.policy"
    assert len(settings) > 20


# ---- partitions and replicas ---------------------------------------------------------------------


def test_partitions_lead_to_their_replicas(api: Api, topic: str) -> None:
    listed = api.get(f"{api.v3}/topics/{topic}/partitions")
    one = api.get(f"{api.v3}/topics/{topic}/partitions/1")
    leader = api.get(one["leader"]["related"])

    here = f"{api.url}{api.v3}/topics/{topic}/partitions/1"
    assert [part["partition_id"] for part in listed["data"]] == [0, 1] and one in listed["data"]
    assert one["kind"] == "KafkaPartition" and one["metadata"]["self"] == here
    assert one["replicas"] == {"related": f"{here}/replicas"}
    assert one["reassignment"] == {"related": f"{here}/reassignment"}
    assert leader["is_leader"] and leader["is_in_sync"] and leader["kind"] == "KafkaReplica"
    assert api.get(leader["broker"]["related"])["broker_id"] == leader["broker_id"]


def test_a_partition_is_returned_with_its_offsets(api: Api, topic: str) -> None:
    offsets = api.get(f"{api.v3}/topics/{topic}/partitions/0/offset")
    unknown = api.get(f"{api.v3}/topics/{topic}/partitions/9/offset", 404)
    wrong = api.get(f"{api.v3}/topics/{topic}/partitions/0/offset?offset_type=newest", 400)

    assert offsets["kind"] == "KafkaPartitionWithOffsets"
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 0)
    assert offsets["metadata"]["resource_name"].endswith("/partition=0/offset_type=earliest_and_latest")
    assert unknown == {"error_code": 40402, "message": "Partition not found."}
    assert wrong == {"error_code": 400, "message": "offset_type:newest is invalid"}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("9", "Topic {topic} has no partition 9."),
        ("9/replicas", "Topic {topic} has no partition 9."),
        ("0/replicas/9", "Broker 9 has no replica of {topic}-0."),
        ("-1", "partition_id must be at least 0."),
        ("one", "partition_id must be an integer."),
        ("0/reassignment", "No reassignment of {topic}-0 is in progress."),
    ],
)
def test_a_missing_partition_or_replica_is_404(api: Api, topic: str, path: str, words: str) -> None:
    error = api.get(f"{api.v3}/topics/{topic}/partitions/{path}", 404)

    assert error == {"error_code": 404, "message": words.format(topic=topic)}


def test_a_reassignment_is_seen_while_it_is_under_way(rest_cluster: Cluster, api: Api) -> None:
    name = name_of("topic")
    rate = f"{api.v3}/brokers/0/configs/leader.replication.throttled.rate"
    throttled = [{"name": "leader.replication.throttled.replicas", "value": "*"}]
    body = {"topic_name": name, "replicas_assignments": {"0": [0]}, "configs": throttled}
    api.post(f"{api.v3}/topics", body, 201)
    fill(rest_cluster, name)
    before = api.get(f"{api.v3}/topics/{name}/partitions/-/reassignment")
    api.put(rate, {"value": "1"}, 204)
    eventually(lambda: api.get(rate)["value"] == "1")

    move(rest_cluster, name, [1])
    here = f"{api.v3}/topics/{name}/partitions/0/reassignment"
    one = eventually(lambda: (found := api.ask("GET", here)).status == 200 and found.json)
    of_topic = api.get(f"{api.v3}/topics/{name}/partitions/-/reassignment")
    every = api.get(f"{api.v3}/topics/-/partitions/-/reassignment")
    api.delete(rate)
    eventually(lambda: api.ask("GET", here).status == 404, "the reassignment is complete")

    assert before["kind"] == "KafkaReassignmentList" and before["data"] == []
    assert one["kind"] == "KafkaReassignment" and one["metadata"]["self"] == f"{api.url}{here}"
    assert (one["adding_replicas"], one["removing_replicas"]) == ([1], [0])
    assert of_topic["data"] == [one] and one in every["data"]


# ---- malformed requests --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"topic_name": NaN}', 400),
        (b"[" * 100_000 + b"]" * 100_000, 400),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400),
        (b'{"topic_name": "' + b"x" * 1_000_000 + b'"}', 422),
        (b" " * (11 * 1024 * 1024), 413),
        (b"null", 422),
    ],
)
def test_a_malformed_body_is_rejected(api: Api, content: bytes, status: int) -> None:
    reply = api.ask("POST", f"{api.v3}/topics", content=content)

    assert reply.status == status and json.loads(reply.content)["error_code"] == status


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"]
)
def test_a_body_of_another_type_is_rejected(api: Api, kind: str) -> None:
    """A page of a foreign site can send these without a preflight request."""
    headers = {"Content-Type": kind}

    reply = api.ask("POST", f"{api.v3}/topics", content=b'{"topic_name": "t"}', headers=headers)

    assert reply.status == 415


def test_a_compressed_body_is_rejected(api: Api) -> None:
    reply = api.ask("POST", f"{api.v3}/topics", content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    assert reply.status == 415


@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "%2e%2e", "%00", "a%20b", "x" * 300, "%F0%9F%98%80"])
def test_a_name_that_no_topic_can_have_is_rejected(api: Api, name: str) -> None:
    for path in (name, f"{name}/configs", f"{name}/partitions"):
        reply = api.ask("GET", f"{api.v3}/topics/{path}")

        assert reply.status in (400, 404) and reply.json["message"]
    assert api.ask("DELETE", f"{api.v3}/topics/{name}").status in (400, 404, 405)


def test_unknown_query_parameters_are_ignored_and_values_are_validated(api: Api, topic: str) -> None:
    assert api.get(f"{api.v3}/topics?no_such=1&page_size=x")["data"]
    assert api.get(f"{api.v3}/topics?include_internal=maybe", 400)["error_code"] == 400
    assert api.get(f"{api.v3}/topics?include_internal=true&include_internal=false", 400)["error_code"] == 400
