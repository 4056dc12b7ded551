"""Commands from Confluent's quickstarts, its v2 reference and its example in Python, run unchanged.

Only the address and the id of the cluster are ours.
"""

import http.client
import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually

pytestmark = pytest.mark.slow
TOPICS = ("jsontest", "jsontest2", "test", "topic_1")
CONSUMERS = (
    "/consumers/my_json_consumer/instances/my_consumer_instance",
    "/consumers/testgroup/instances/my_consumer",
)
V2, JSON, BINARY = (f"application/vnd.kafka.{kind}v2+json" for kind in ("", "json.", "binary."))


class Shell:
    """A runner of curl commands, in which REST and CLUSTER stand for the address and the id of a cluster.

    A call returns the status, and the JSON documents of the response.
    """

    def __init__(self, api: Api) -> None:
        self.api = api

    def __call__(self, line: str) -> tuple[int, Any]:
        line = line.replace("REST/", f"{self.api.url}/").replace("CLUSTER", self.api.cluster_id)
        command = ["curl", "--silent", "--show-error", "--write-out", "\n%{http_code}", *shlex.split(line)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        content, _, status = done.stdout.rpartition("\n")
        return int(status), list(documents(content))

    def one(self, line: str, status: int = 200) -> Any:
        """Run a command whose answer is one document, and return that."""
        code, found = self(line)
        assert code == status, (code, found)
        [document] = found
        return document

    def none(self, line: str) -> None:
        assert self(line) == (204, [])


def documents(text: str) -> Iterator[Any]:
    """Yield the concatenated JSON documents of a text."""
    decoder = json.JSONDecoder()
    text = text.lstrip()
    while text:
        found, end = decoder.raw_decode(text)
        yield found
        text = text[end:].lstrip()


@pytest.fixture(scope="module")
def curl(apis: list[Api]) -> Shell:
    return Shell(apis[0])


@pytest.fixture(autouse=True)
def names_can_be_used_again(rest_cluster: Cluster, curl: Shell) -> Iterator[None]:
    """Delete the topics and consumers of an example at its end: the names are given by the example."""
    yield
    for path in CONSUMERS:
        curl.api.ask("DELETE", path)
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0})
    for deleted in admin.delete_topics([*TOPICS]).values():
        with suppress(KafkaException):  # the example did not create it
            deleted.result(TIMEOUT_S)


def test_the_quickstart_of_v3_works_as_it_is_written(curl: Shell) -> None:
    topics, records = "REST/v3/clusters/CLUSTER/topics", "REST/v3/clusters/CLUSTER/topics/jsontest/records"
    post = '-X POST -H "Content-Type: application/json"'

    clusters = curl.one("REST/v3/clusters")
    made = curl.one(
        f"""-X POST -H "Content-Type:application/json" -d '{{"topic_name":"jsontest"}}' {topics}""", 201
    )
    one = curl.one(f"""{post} -d '{{"value":{{"type":"JSON","data":{{"name":"testUser"}}}}}}' {records}""")
    two = curl(
        f"""{post} -d '{{"value":{{"type":"JSON","data":"ONE"}}}} {{"value":{{"type":"JSON","data":"TWO"}}}}'
        {records}"""
    )
    text = curl.one(f"""{post} -d '{{"value":{{"type":"STRING","data":"REST"}}}}' {records}""")
    entries = (
        '{"entries":[{"id":"first","value":{"type":"JSON","data":"ONE"}}, '
        '{"id":"second","value":{"type":"BINARY","data":"Message$"}}]}'
    )
    batch = curl.one(f"{post} -d '{entries}' {records}:batch", 207)

    assert [one["cluster_id"] for one in clusters["data"]] == [curl.api.cluster_id]
    assert made["partitions_count"] >= 1 and made["metadata"]["resource_name"].endswith("/topic=jsontest")
    listed = eventually(lambda: [one for one in curl.one(topics)["data"] if one["topic_name"] == "jsontest"])
    assert listed == [made | {"authorized_operations": []}]
    assert one.keys() == {
        "error_code", "cluster_id", "topic_name", "partition_id", "offset", "timestamp", "value"
    }  # fmt: skip
    assert one["error_code"] == 200 and one["value"] == {"type": "JSON", "size": 19}
    assert two[0] == 200 and [report["value"]["size"] for report in two[1]] == [5, 5]
    assert text["value"] == {"type": "STRING", "size": 4}
    assert [success["id"] for success in batch["successes"]] == ["first"]
    [failure] = batch["failures"]
    assert (failure["id"], failure["error_code"]) == ("second", 400)
    assert "Message$" in failure["message"] and "is not a valid base64 string" in failure["message"]


def test_the_quickstart_of_v2_works_as_it_is_written(curl: Shell) -> None:
    instance = "REST/consumers/my_json_consumer/instances/my_consumer_instance"
    curl.one("""-H "Content-Type: application/json" -d '{"topic_name": "jsontest2", "partitions_count": 1}'
        REST/v3/clusters/CLUSTER/topics""", 201)  # fmt: skip
    produce = f"""-X POST -H "Content-Type: {JSON}" -H "Accept: {V2}"
        --data '{{"records":[{{"value":{{"name": "testUser"}}}}]}}' REST/topics/jsontest2"""

    produced = eventually(lambda: curl(produce)[1] if curl(produce)[0] == 200 else None)
    topic = curl.one("REST/topics/jsontest2")
    made = curl.one(f"""-X POST -H "Content-Type: {V2}" -H "Accept: {V2}"
        -d '{{"name": "my_consumer_instance", "format": "json", "auto.offset.reset": "earliest"}}'
        REST/consumers/my_json_consumer""")  # fmt: skip
    curl.none(f"""-X POST -H "Content-Type: {V2}" -d '{{"topics":["jsontest2"]}}' {instance}/subscription""")
    records = eventually(lambda: curl.one(f'-X GET -H "Accept: {JSON}" {instance}/records'))
    curl.none(f'-X DELETE -H "Accept: {V2}" {instance}')

    assert produced[0].keys() == {"offsets", "key_schema_id", "value_schema_id"}
    assert "jsontest2" in curl.one("REST/topics") and topic["name"] == "jsontest2"
    assert made == {
        "instance_id": "my_consumer_instance",
        "base_uri": instance.replace("REST", curl.api.url),
    }
    first = {"topic": "jsontest2", "key": None, "value": {"name": "testUser"}, "partition": 0, "offset": 0}
    assert records[0] == first


def test_the_requests_in_the_reference_of_v2_work_as_they_are_written(curl: Shell) -> None:
    """Assignments, positions, offsets and a pattern, in binary."""
    curl.one("""-H "Content-Type: application/json" -d '{"topic_name": "test", "partitions_count": 1}'
        REST/v3/clusters/CLUSTER/topics""", 201)  # fmt: skip
    produce = f"""-X POST -H "Content-Type: {BINARY}"
        --data '{{"records":[{{"key":"a2V5","value":"Y29uZmx1ZW50"}},{{"value":"a2Fma2E="}}]}}'
        REST/topics/test/partitions/0"""
    assert eventually(lambda: curl(produce)[0] == 200)
    instance = "REST/consumers/testgroup/instances/my_consumer"
    post = f'-X POST -H "Content-Type: {V2}"'
    curl.one(
        f"""{post} -d '{{"name": "my_consumer", "format": "binary", "auto.offset.reset": "earliest",
        "auto.commit.enable": "false", "fetch.min.bytes": 1, "consumer.request.timeout.ms": "5000"}}'
        REST/consumers/testgroup"""
    )
    place = '{"topic": "test", "partition": 0}'

    curl.none(f"""{post} -d '{{"partitions": [{place}]}}' {instance}/assignments""")
    assigned = curl.one(f'-H "Accept: {V2}" {instance}/assignments')
    read = curl.one(f'-H "Accept: {BINARY}" "{instance}/records?timeout=3000&max_bytes=300000"')
    curl.none(f"""{post} -d '{{"partitions": [{place}]}}' {instance}/positions/beginning""")
    curl.none(f"""{post} -d '{{"partitions": [{place}]}}' {instance}/positions/end""")
    offsets = '{"offsets": [{"topic": "test", "partition": 0, "offset": 1, "metadata": "of mine"}]}'
    curl.none(f"{post} -d '{offsets}' {instance}/positions")
    again = curl.one(f'-H "Accept: {BINARY}" {instance}/records')
    curl(f"{post} -d '{offsets}' {instance}/offsets")
    get = f'-X GET -H "Content-Type: {V2}"'
    committed = curl.one(f"""{get} -d '{{"partitions": [{place}]}}' {instance}/offsets""")
    curl.none(f"-X DELETE {instance}/subscription")
    curl.none(f"""{post} -d '{{"topic_pattern": "tes(t)"}}' {instance}/subscription""")
    subscribed = curl.one(f'-H "Accept: {V2}" {instance}/subscription')
    curl.none(f"-X DELETE {instance}")

    assert assigned == {"partitions": [{"topic": "test", "partition": 0}]}
    assert [(one["key"], one["value"]) for one in read[:2]] == [("a2V5", "Y29uZmx1ZW50"), (None, "a2Fma2E=")]
    assert again[0]["offset"] == 1
    assert committed == {
        "offsets": [{"topic": "test", "partition": 0, "offset": 2, "metadata": "of mine"}],
    }
    assert subscribed == {"topics": ["test"]}


def test_requests_that_need_a_schema_registry_are_rejected_as_by_a_proxy_without_one(curl: Shell) -> None:
    schema = '{\\"type\\": \\"record\\", \\"name\\": \\"User\\", \\"fields\\": []}'
    body = f'{{"value_schema": "{schema}", "records": [{{"value": {{"name": "testUser"}}}}]}}'
    avro = "application/vnd.kafka.avro.v2+json"

    reply = curl.one(
        f"""-X POST -H "Content-Type: {avro}" -H "Accept: {V2}" --data '{body}' REST/topics/avrotest""", 422
    )
    consumer = curl.one(f"""-X POST -H "Content-Type: {V2}" --data '{{"name": "a", "format": "avro"}}'
        REST/consumers/my_avro_consumer""", 422)  # fmt: skip

    message = "Payload error. Schema Registry must be configured when using schemas."
    assert reply == {"error_code": 42206, "message": message}
    assert consumer["error_code"] == 42204 and "schema registry" in consumer["message"]


def test_receipts_come_while_records_are_sent(curl: Shell) -> None:
    """The example in Python: one connection on which requests are written while answers are read."""
    api = curl.api
    api.post(f"{api.v3}/topics", {"topic_name": "topic_1", "partitions_count": 1}, 201)
    place = urlsplit(api.url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=TIMEOUT_S)
    connection.putrequest("POST", f"{api.v3}/topics/topic_1/records")
    for name, value in (
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Transfer-Encoding", "chunked"),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    response: http.client.HTTPResponse | None = None
    receipts = []
    for number in range(5):
        record = json.dumps(
            {
                "value": {"type": "STRING", "data": f"value_{number}"},
                "key": {"type": "STRING", "data": f"key_{number}"},
            }
        ).encode()
        connection.send(b"%x\r\n%b\r\n" % (len(record), record))
        if response is None:
            response = http.client.HTTPResponse(connection.sock)
            response.begin()
        receipts.append(json.loads(response.readline()))
    connection.send(b"0\r\n\r\n")

    assert response is not None and response.status == 200 and response.readline() == b""
    connection.close()
    assert [(one["error_code"], one["offset"]) for one in receipts] == [(200, n) for n in range(5)]
