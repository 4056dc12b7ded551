"""Confluent's REST API v2: the flows of its documentation."""

import base64
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from ottla.node.rest_api import v2_instances
from tests.integration.rest.conftest import Api, Reply, eventually, name_of

pytestmark = pytest.mark.slow
V2 = "application/vnd.kafka.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"


class Proxy:
    """A client that sends requests as those of Confluent's proxy do."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def ask(
        self, method: str, path: str, body: Any = None, status: int = 200, *, kind: str = V2, accept: str = V2
    ) -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept} | ({} if body is None else {"Content-Type": kind})
        reply: Reply = self.api.ask(method, path, content=content, headers=headers)
        assert reply.status == status, (reply.status, reply.content[:500])
        return reply.json if reply.content else None

    def produce(self, topic: str, records: Sequence[Any], *, kind: str = JSON, path: str = "") -> Any:
        return self.ask("POST", f"/topics/{topic}{path}", {"records": records}, kind=kind)

    def consumer(self, group: str, **config: Any) -> str:
        """Create a consumer, and return its URL."""
        given = {"format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
        made = self.ask("POST", f"/consumers/{group}", given | config)
        assert made["base_uri"].endswith(f"/consumers/{group}/instances/{made['instance_id']}")
        return str(made["base_uri"])

    def read(self, consumer: str, count: int, accept: str = JSON) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def are_there() -> bool:
            found.extend(self.ask("GET", f"{consumer}/records?timeout=1000", accept=accept))
            return len(found) >= count

        assert eventually(are_there)
        return found


@pytest.fixture(scope="module")
def proxy(apis: list[Api]) -> Proxy:
    return Proxy(apis[0])


@pytest.fixture
def topic(rest_cluster: Cluster, proxy: Proxy) -> str:
    name = name_of("v2")
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    assert eventually(lambda: proxy.api.ask("GET", f"/topics/{name}").status == 200)
    return name


@pytest.fixture
def one_partition(rest_cluster: Cluster, proxy: Proxy) -> str:
    name = name_of("v2-one")
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    assert eventually(lambda: proxy.api.ask("GET", f"/topics/{name}").status == 200)
    return name


# ---- topics and records ------------------------------------------------------------------------------------


def test_topics_partitions_and_brokers_are_listed(proxy: Proxy, topic: str) -> None:
    assert topic in eventually(lambda: proxy.ask("GET", "/topics"))
    reply = proxy.ask("GET", f"/topics/{topic}")
    partitions = proxy.ask("GET", f"/topics/{topic}/partitions")
    offsets = proxy.ask("GET", f"/topics/{topic}/partitions/0/offsets")

    assert reply["name"] == topic and reply["configs"]["cleanup.policy"] == "delete"
    assert reply["partitions"] == partitions
    assert [one["partition"] for one in partitions] == [0, 1]
    assert proxy.ask("GET", f"/topics/{topic}/partitions/1") == partitions[1]
    [replica] = partitions[0]["replicas"]
    assert replica == {"broker": partitions[0]["leader"], "leader": True, "in_sync": True}
    assert offsets == {"beginning_offset": 0, "end_offset": 0}
    assert proxy.ask("GET", "/brokers") == {"brokers": [0, 1, 2]}
    assert proxy.ask("GET", "/topics/missing", status=404)["error_code"] == 40401
    assert proxy.ask("GET", f"/topics/{topic}/partitions/9", status=404)["error_code"] == 40402


def test_records_are_produced_as_json_and_as_base64(proxy: Proxy, topic: str) -> None:
    reply = proxy.produce(topic, [{"value": {"name": "testUser"}}, {"key": 1, "value": None, "partition": 1}])
    to_partition = proxy.produce(
        topic,
        [{"key": "a2V5", "value": "Y29uZmx1ZW50"}, {"value": "a2Fma2E=", "partition": 1}],
        kind=BINARY,
        path="/partitions/0",
    )

    assert reply.keys() == {"offsets", "key_schema_id", "value_schema_id"}
    assert all(one["error_code"] is None and one["error"] is None for one in reply["offsets"])
    assert reply["offsets"][1]["partition"] == 1 and reply["offsets"][1]["offset"] in (0, 1)
    assert [one["partition"] for one in to_partition["offsets"]] == [0, 1]


@pytest.mark.parametrize(
    ("records", "kind", "status"),
    [
        ([], JSON, 422),
        ([{"value": "no base64!"}], BINARY, 400),
        ([{"value": 1, "other": 2}], JSON, 422),
        ([{"value": 1, "partition": 99}], JSON, 404),
        ([{"value": 1}], V2, 415),
        *(
            ([{"value": 1}], f"application/vnd.kafka.{kind}.v2+json", 422)
            for kind in ("avro", "jsonschema", "protobuf")
        ),
    ],
)
def test_a_request_with_a_wrong_record_produces_nothing(
    proxy: Proxy, topic: str, records: list[Any], kind: str, status: int
) -> None:
    good = [{"value": "AA=="}] if records else []

    proxy.ask("POST", f"/topics/{topic}", {"records": good + records}, status, kind=kind)

    ends = [proxy.ask("GET", f"/topics/{topic}/partitions/{n}/offsets")["end_offset"] for n in (0, 1)]
    assert ends == [0, 0]


def test_a_missing_topic_is_not_created(proxy: Proxy) -> None:
    name = name_of("nowhere")

    refused = proxy.ask("POST", f"/topics/{name}", {"records": [{"value": 1}]}, 404, kind=JSON)

    assert refused["error_code"] == 40401
    assert name not in proxy.ask("GET", "/topics")


# ---- consumers ---------------------------------------------------------------------------------------------


def test_a_consumer_subscribes_reads_commits_and_is_deleted(proxy: Proxy, one_partition: str) -> None:
    """The flow of the quickstart of Confluent's proxy."""
    group = name_of("my_json_consumer")
    proxy.produce(one_partition, [{"value": {"foo": "bar"}}, {"key": "k", "value": [1.50, "x"]}])
    consumer = proxy.consumer(group, name="my_consumer_instance")
    proxy.ask("POST", f"{consumer}/subscription", {"topics": [one_partition]}, 204)

    records = proxy.read(consumer, 2)
    subscribed = proxy.ask("GET", f"{consumer}/subscription")
    assigned = proxy.ask("GET", f"{consumer}/assignments")
    places = {"partitions": [{"topic": one_partition, "partition": 0}]}
    before = proxy.ask("GET", f"{consumer}/offsets", places)
    proxy.ask("POST", f"{consumer}/offsets")
    after = proxy.ask("GET", f"{consumer}/offsets", places)
    proxy.ask("DELETE", consumer, status=204)

    here = {"topic": one_partition, "partition": 0}
    assert records == [
        {**here, "key": None, "value": {"foo": "bar"}, "offset": 0},
        {**here, "key": "k", "value": [1.5, "x"], "offset": 1},
    ]
    assert subscribed == {"topics": [one_partition]}
    assert assigned == places
    assert before == {"offsets": []}
    assert after == {"offsets": [{**here, "offset": 2, "metadata": ""}]}
    assert proxy.ask("GET", f"{consumer}/records", status=404, accept=JSON)["error_code"] == 40403
    proxy.produce(one_partition, [{"value": "third"}])
    following = proxy.consumer(group)
    proxy.ask("POST", f"{following}/subscription", {"topics": [one_partition]}, 204)
    assert [one["value"] for one in proxy.read(following, 1)] == ["third"], (
        "the group continues after the committed offset"
    )
    proxy.ask("DELETE", following, status=204)


def test_two_consumers_of_a_group_share_the_partitions(proxy: Proxy, topic: str) -> None:
    group = name_of("pair")
    consumers = [proxy.consumer(group) for _ in range(2)]
    for one in consumers:
        proxy.ask("POST", f"{one}/subscription", {"topics": [topic]}, 204)

    def each_has_one() -> bool:
        for one in consumers:
            proxy.ask("GET", f"{one}/records?timeout=100", accept=JSON)
        assignments = [proxy.ask("GET", f"{one}/assignments")["partitions"] for one in consumers]
        return sorted(place["partition"] for one in assignments for place in one) == [0, 1] and all(
            assignments
        )

    assert eventually(each_has_one)
    proxy.ask("DELETE", f"{consumers[0]}/subscription", status=204)
    assert eventually(lambda: len(proxy.ask("GET", f"{consumers[1]}/assignments")["partitions"]) == 2)
    for one in consumers:
        proxy.ask("DELETE", one, status=204)


def test_partitions_are_assigned_by_hand_and_positions_are_sought(proxy: Proxy, one_partition: str) -> None:
    proxy.produce(
        one_partition, [{"value": base64.b64encode(b"%d" % n).decode()} for n in range(4)], kind=BINARY
    )
    consumer = proxy.consumer(name_of("seekers"), format="binary", **{"auto.offset.reset": "latest"})
    here = {"topic": one_partition, "partition": 0}
    proxy.ask("POST", f"{consumer}/assignments", {"partitions": [here]}, 204)

    def offsets() -> list[int]:
        return [one["offset"] for one in proxy.ask("GET", f"{consumer}/records?timeout=500", accept=BINARY)]

    assert offsets() == [], "the consumer starts at the end"
    proxy.ask("POST", f"{consumer}/positions/beginning", {"partitions": [here]}, 204)
    assert offsets() == [0, 1, 2, 3]
    proxy.ask("POST", f"{consumer}/positions", {"offsets": [{**here, "offset": 2}]}, 204)
    assert offsets() == [2, 3]
    proxy.ask("POST", f"{consumer}/positions/end", {"partitions": [here]}, 204)
    assert offsets() == []
    # A client gives the offset it has processed, and the group continues after it.
    proxy.ask("POST", f"{consumer}/offsets", {"offsets": [{**here, "offset": 1}]})
    committed = proxy.ask("GET", f"{consumer}/offsets", {"partitions": [here]})
    assert [one["offset"] for one in committed["offsets"]] == [2]
    for path, body in (
        ("subscription", {"topics": [one_partition]}),
        ("positions/end", {"partitions": [{**here, "partition": 7}]}),
    ):
        assert proxy.ask("POST", f"{consumer}/{path}", body, 409)["error_code"] == 40903
    proxy.ask("DELETE", consumer, status=204)


def test_max_bytes_ends_an_answer_and_loses_nothing(proxy: Proxy, one_partition: str) -> None:
    proxy.produce(one_partition, [{"value": "x" * 100} for _ in range(10)])
    consumer = proxy.consumer(name_of("small"))
    proxy.ask("POST", f"{consumer}/subscription", {"topics": [one_partition]}, 204)
    found: list[int] = []
    sizes = []

    def are_all_there() -> bool:
        page = proxy.ask("GET", f"{consumer}/records?timeout=1000&max_bytes=250", accept=JSON)
        sizes.append(len(page))
        found.extend(one["offset"] for one in page)
        return len(found) >= 10

    assert eventually(are_all_there)
    assert found == list(range(10)) and max(sizes) == 2
    proxy.ask("DELETE", consumer, status=204)


def test_automatic_commits_are_of_records_returned_before(proxy: Proxy, one_partition: str) -> None:
    proxy.produce(one_partition, [{"value": 1}])
    consumer = proxy.consumer(name_of("alone"), **{"auto.commit.enable": "true"})
    proxy.ask("POST", f"{consumer}/subscription", {"topics": [one_partition]}, 204)
    places = {"partitions": [{"topic": one_partition, "partition": 0}]}

    proxy.read(consumer, 1)
    before = proxy.ask("GET", f"{consumer}/offsets", places)["offsets"]
    proxy.ask("GET", f"{consumer}/records?timeout=0", accept=JSON)
    after = proxy.ask("GET", f"{consumer}/offsets", places)["offsets"]

    assert (before, [one["offset"] for one in after]) == ([], [1])
    proxy.ask("DELETE", consumer, status=204)


def test_records_in_another_format_are_reported_and_not_lost(proxy: Proxy, one_partition: str) -> None:
    proxy.produce(one_partition, [{"value": "/w=="}], kind=BINARY)
    consumer = proxy.consumer(name_of("formats"))
    proxy.ask("POST", f"{consumer}/subscription", {"topics": [one_partition]}, 204)

    def is_refused() -> bool:
        headers = {"Accept": JSON}
        reply = proxy.api.ask("GET", f"{consumer}/records?timeout=1000", headers=headers)
        return reply.status == 422 and reply.json["error_code"] == 42203

    assert eventually(is_refused)
    assert is_refused(), "the record is still there"
    other = proxy.ask("GET", f"{consumer}/records", status=406, accept=BINARY)
    assert other["error_code"] == 40601
    avro = "application/vnd.kafka.avro.v2+json"
    assert proxy.ask("GET", f"{consumer}/records", status=406, accept=avro)["error_code"] == 40601
    proxy.ask("DELETE", consumer, status=204)


@pytest.mark.parametrize(
    ("config", "status", "code"),
    [
        ({"format": "xml"}, 422, 422),
        ({"format": "avro"}, 422, 42204),
        ({"auto.offset.reset": "middle"}, 422, 42204),
        ({"auto.commit.enable": "perhaps"}, 422, 42204),
        ({"fetch.min.bytes": "many"}, 422, 40001),
        ({"fetch.min.bytes": 10_000_001}, 422, 40001),
        ({"consumer.request.timeout.ms": 99_999_999}, 422, 42204),
        ({"unknown": 1}, 400, 400),
    ],
)
def test_a_wrong_configuration_creates_no_consumer(
    proxy: Proxy, config: dict[str, Any], status: int, code: int
) -> None:
    assert proxy.ask("POST", "/consumers/g", config, status)["error_code"] == code


def test_a_name_is_unique_in_a_group(proxy: Proxy) -> None:
    group = name_of("named")
    consumer = proxy.consumer(group, name="one")

    assert proxy.ask("POST", f"/consumers/{group}", {"name": "one"}, 409)["error_code"] == 40902
    proxy.ask("DELETE", consumer, status=204)
    proxy.ask("DELETE", consumer, status=404)


def test_an_id_has_precedence_over_a_name(proxy: Proxy) -> None:
    """Clients of v1 gave ids; the name may then differ, and the id counts."""
    made = proxy.ask("POST", f"/consumers/{name_of('named')}", {"name": "one", "id": "two"})

    assert made["instance_id"] == "two"
    proxy.ask("DELETE", made["base_uri"], status=204)


def test_positions_are_sought_by_time(proxy: Proxy, one_partition: str) -> None:
    for moment in ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z"):
        record = {"timestamp": moment, "value": {"type": "JSON", "data": moment}}
        proxy.api.post(f"{proxy.api.v3}/topics/{one_partition}/records", record)
    consumer = proxy.consumer(name_of("times"))
    here = {"topic": one_partition, "partition": 0}
    proxy.ask("POST", f"{consumer}/assignments", {"partitions": [here]}, 204)

    def read_from(moment: str) -> list[int]:
        body = {"timestamps": [{**here, "timestamp": moment}]}
        proxy.ask("POST", f"{consumer}/positions", body, 204)
        return [one["offset"] for one in proxy.ask("GET", f"{consumer}/records?timeout=500", accept=JSON)]

    assert read_from("2024-01-02T00:00:00Z") == [1, 2]
    assert read_from("2024-01-02T13:00:00+12:00") == [2]
    assert read_from("2024-02-01T00:00:00Z") == []
    body = {"timestamps": [{**here, "timestamp": "yesterday"}]}
    assert "yesterday" in proxy.ask("POST", f"{consumer}/positions", body, 400)["message"]
    body = {
        "offsets": [{**here, "offset": 0}],
        "timestamps": [{**here, "partition": 9, "timestamp": "2024-01-02T00:00:00Z"}],
    }
    assert proxy.ask("POST", f"{consumer}/positions", body, 409)["error_code"] == 40903
    assert proxy.ask("GET", f"{consumer}/records?timeout=500", accept=JSON) == [], "no position was changed"
    proxy.ask("DELETE", consumer, status=204)


def test_metadata_is_kept_beside_an_offset(proxy: Proxy, one_partition: str) -> None:
    consumer = proxy.consumer(name_of("metadata"))
    here = {"topic": one_partition, "partition": 0}

    proxy.ask("POST", f"{consumer}/offsets", {"offsets": [{**here, "offset": 4, "metadata": "mine"}]})
    committed = proxy.ask("GET", f"{consumer}/offsets", {"partitions": [here]})
    too_long = {"offsets": [{**here, "offset": 4, "metadata": "x" * 5_000}]}
    refused = proxy.ask("POST", f"{consumer}/offsets", too_long, 400)

    assert committed["offsets"] == [{**here, "offset": 5, "metadata": "mine"}]
    assert refused["error_code"] == 40002 and "OFFSET_METADATA_TOO_LARGE" in refused["message"]
    proxy.ask("DELETE", consumer, status=204)


def test_a_pattern_subscribes_to_topics_that_match_and_to_later_ones(
    proxy: Proxy, rest_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(v2_instances, "LOOK_S", 0.5)
    word = name_of("pattern")
    first, later, other = f"{word}-a", f"{word}-b", f"other-{word}-a"
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap})

    def create(*names: str) -> None:
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            made.result()
        for name in names:
            assert eventually(lambda name=name: proxy.api.ask("GET", f"/topics/{name}").status == 200)

    create(first, other)
    consumer = proxy.consumer(name_of("by-pattern"))
    proxy.ask("POST", f"{consumer}/subscription", {"topic_pattern": f"{word}.*"}, 204)
    proxy.produce(first, [{"value": 1}])

    assert proxy.ask("GET", f"{consumer}/subscription") == {"topics": [first]}
    assert [one["topic"] for one in proxy.read(consumer, 1)] == [first]
    proxy.ask("POST", f"{consumer}/offsets")
    create(later)
    proxy.produce(later, [{"value": 2}])
    assert [one["topic"] for one in proxy.read(consumer, 1)] == [later]
    assert proxy.ask("GET", f"{consumer}/subscription") == {"topics": [first, later]}
    exclusive = proxy.ask("POST", f"{consumer}/subscription", {"topics": [other]}, 409)
    assert exclusive["error_code"] == 40903
    proxy.ask("POST", f"{consumer}/subscription", {"topic_pattern": f"{other}|__.*"}, 204)
    assert proxy.ask("GET", f"{consumer}/subscription") == {"topics": [other]}, "no internal topic"
    proxy.ask("DELETE", f"{consumer}/subscription", status=204)
    proxy.ask("POST", f"{consumer}/subscription", {"topics": [other]}, 204)
    proxy.ask("DELETE", consumer, status=204)


def test_a_consumer_without_partitions_waits_and_one_without_a_subscription_fails(proxy: Proxy) -> None:
    consumer = proxy.consumer(name_of("idle"))
    without = proxy.ask("GET", f"{consumer}/records", status=409, accept=JSON)
    proxy.ask("POST", f"{consumer}/subscription", {"topic_pattern": name_of("nothing")}, 204)
    proxy.ask("GET", f"{consumer}/records?timeout=1000", accept=JSON)  # it joins its group
    began_s = time.monotonic()

    records = proxy.ask("GET", f"{consumer}/records?timeout=1500", accept=JSON)

    assert records == [] and time.monotonic() - began_s >= 1.5
    assert without["error_code"] == 40903 and "not subscribed to any topics" in without["message"]
    proxy.ask("DELETE", consumer, status=204)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({}, 400, "either topics or topic_pattern"),
        ({"topics": ["a"], "topic_pattern": "b"}, 400, "either topics or topic_pattern"),
        ({"topic_pattern": "a(?=b)"}, 40002, "topic_pattern `a(?=b)` is not a valid regular expression"),
        ({"topic_pattern": "a" * 1_001}, 400, "more than 1000 characters"),
    ],
)
def test_a_wrong_subscription_is_rejected(proxy: Proxy, body: Any, code: int, words: str) -> None:
    consumer = proxy.consumer(name_of("wrong"))

    refused = proxy.ask("POST", f"{consumer}/subscription", body, 400)

    assert refused["error_code"] == code and words in refused["message"]
    assert proxy.ask("GET", f"{consumer}/subscription") == {"topics": []}
    proxy.ask("DELETE", consumer, status=204)


# ---- bounds ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bounded() -> Iterator[Proxy]:
    overrides = {
        "ottla.rest.consumers.max": "3",
        "ottla.rest.consumers.max.per.address": "2",
        "ottla.rest.consumers.timeout.ms": "2000",
    }
    with Cluster(1, rest=True, overrides=overrides) as cluster:
        yield Proxy(Api(cluster.rest_urls[0], cluster.cluster_id))


def test_consumers_of_an_address_are_limited_and_idle_ones_end(bounded: Proxy) -> None:
    first = bounded.consumer("g")
    bounded.consumer("g")

    refused = bounded.ask("POST", "/consumers/g", {}, 429)

    assert "consumers of the REST API v2" in refused["message"]
    time.sleep(4)  # requests in the meantime would keep it
    assert bounded.ask("GET", f"{first}/assignments", status=404)["error_code"] == 40403


def test_an_idle_consumer_leaves_its_group(bounded: Proxy) -> None:
    topic = name_of("read")
    bounded.api.post(f"{bounded.api.v3}/topics", {"topic_name": topic, "partitions_count": 1}, 201)
    consumer = eventually(lambda: bounded.consumer("leaves"), "consumers of the other test have ended")
    bounded.ask("POST", f"{consumer}/subscription", {"topics": [topic]}, 204)
    bounded.ask("GET", f"{consumer}/records?timeout=1000", accept=JSON)

    def members() -> int:
        reply = bounded.api.ask("GET", f"{bounded.api.v3}/consumer-groups/leaves/consumers")
        return len(reply.json["data"]) if reply.status == 200 else -1

    assert eventually(lambda: members() == 1)
    assert eventually(lambda: members() <= 0)
    assert bounded.ask("GET", f"{consumer}/records", status=404, accept=JSON)["error_code"] == 40403
