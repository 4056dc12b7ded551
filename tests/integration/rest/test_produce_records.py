"""Producing records through the REST API, as Confluent's clients do."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.client.producer import partition_for
from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of

pytestmark = pytest.mark.slow
QUIET = {"log_level": 0}


def create(cluster: Cluster, *, partitions: int = 1, replicas: int = 3, **configs: str) -> str:
    """Create a topic that every node knows, with a leader for each partition."""
    name = name_of("records")
    config = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    admin.create_topics([NewTopic(name, partitions, replicas, config=config)])[name].result(TIMEOUT_S)
    for number in range(partitions):
        eventually(lambda number=number: cluster.leader_of(name, number) >= 0, "each partition has a leader")
    for url in cluster.rest_urls:
        path = f"/v3/clusters/{cluster.cluster_id}/topics/{name}"
        eventually(
            lambda url=url, path=path: Api(url, "").ask("GET", path).status == 200,
            "each node knows the topic",
        )
    return name


def stored(cluster: Cluster, topic: str, count: int) -> list[Any]:
    """Return the first `count` records of partition 0, as another client reads them."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", **QUIET})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, TIMEOUT_S)
    finally:
        consumer.close()
    assert len(found) == count and not any(one.error() for one in found)
    return found


def text(value: str) -> dict[str, str]:
    return {"type": "STRING", "data": value}


def reports(api: Api, topic: str, *documents: Any, between: str = "") -> list[Any]:
    """Return the reports of one request with these documents."""
    content = between.join(json.dumps(one) for one in documents).encode()
    reply = api.ask("POST", f"{api.v3}/topics/{topic}/records", content=content)
    assert reply.status == 200, reply.content
    return [json.loads(line) for line in reply.content.splitlines()]


def test_a_record_is_stored_and_reported(rest_cluster: Cluster, apis: list[Api]) -> None:
    topic = create(rest_cluster)
    document = {
        "partition_id": 0,
        "headers": [{"name": "h", "value": "AP8="}, {"name": "h", "value": None}],
        "key": {"type": "BINARY", "data": "AAE="},
        "value": {"type": "JSON", "data": {"n": [1, None, "ü"]}},
        "timestamp": "2021-02-05T19:14:42.123Z",
    }

    for offset, api in enumerate(apis):
        [report] = reports(api, topic, document)

        assert report == {
            "error_code": 200,
            "cluster_id": api.cluster_id,
            "topic_name": topic,
            "partition_id": 0,
            "offset": offset,
            "timestamp": "2021-02-05T19:14:42.123Z",
            "key": {"type": "BINARY", "size": 2},
            "value": {"type": "JSON", "size": 19},
        }
    record = stored(rest_cluster, topic, 3)[2]
    assert (record.key(), record.value()) == (b"\0\1", '{"n":[1,null,"ü"]}'.encode())
    assert record.headers() == [("h", b"\0\xff"), ("h", None)]
    assert record.timestamp()[1] == 1612552482123


def test_an_empty_document_is_a_record(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)

    [report] = reports(api, topic, {})

    assert report.keys() == {
        "error_code",
        "cluster_id",
        "topic_name",
        "partition_id",
        "offset",
        "timestamp",
    }
    [record] = stored(rest_cluster, topic, 1)
    assert (record.key(), record.value()) == (None, None)


@pytest.mark.parametrize("between", ["", "\n"])
def test_many_records_of_one_request_are_answered_in_order(
    rest_cluster: Cluster, api: Api, between: str
) -> None:
    topic = create(rest_cluster, partitions=3)
    documents = [{"key": text(f"key-{number}"), "value": text("}{")} for number in range(2000)]

    found = reports(api, topic, *documents, between=between)

    offsets = {0: -1, 1: -1, 2: -1}
    for number, report in enumerate(found):
        partition = partition_for(f"key-{number}".encode(), 3)
        assert (report["error_code"], report["partition_id"]) == (200, partition)
        assert report["offset"] == offsets[partition] + 1
        offsets[partition] += 1
    assert sum(offsets.values()) == 1997


def test_a_bad_record_does_not_end_the_stream_and_broken_json_does(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    good = {"value": text("good")}
    content = b"".join(
        [
            json.dumps(good).encode(),
            b'{"value":{"type":"BINARY","data":"%%%"}}',
            b'{"partition_id":1}{"partition_id":-1}',
            b'{"value":{"type":"AVRO","data":1}}{"records":[]}',
            json.dumps(good).encode(),
            b'{"value":}',
            json.dumps(good).encode(),
        ]
    )

    reply = api.ask("POST", f"{api.v3}/topics/{topic}/records", content=content)

    codes = [json.loads(line)["error_code"] for line in reply.content.splitlines()]
    assert codes == [200, 400, 40402, 40402, 422, 400, 200, 400]
    assert len(stored(rest_cluster, topic, 2)) == 2


def test_records_without_a_key_go_to_all_partitions(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster, partitions=3)

    found = reports(api, topic, *[{"value": text("x" * 1000)} for _ in range(100)])

    assert {one["partition_id"] for one in found} == {0, 1, 2}


@pytest.mark.parametrize("path", ["records", "records:batch"])
def test_requests_without_a_valid_destination_have_an_error_status(api: Api, path: str) -> None:
    entry = {"entries": [{"id": "1"}]}

    assert api.post(f"{api.v3}/topics/missing/{path}", entry, 404)["error_code"] == 40403
    assert api.post(f"/v3/clusters/other/topics/missing/{path}", entry, 404)["error_code"] == 404
    assert api.post(f"{api.v3}/topics/missing/{path}", status=422)["message"].startswith("Error: 4220")
    assert api.ask("POST", f"{api.v3}/topics/missing/{path}", headers={}, content=b"{}").status in (404, 400)
    page = api.ask("POST", f"{api.v3}/topics/m/{path}", content=b"{}", headers={"Content-Type": "text/plain"})
    assert page.status == 415


def test_a_deleted_topic_is_reported_soon(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    reports(api, topic, {})
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})

    admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def error_code() -> int:
        """Return the code of the report, or of the whole response."""
        return int(api.ask("POST", f"{api.v3}/topics/{topic}/records", {}).json["error_code"])

    eventually(lambda: error_code() == 40403, "the leader knows that the topic is deleted")
    eventually(lambda: api.post(f"{api.v3}/topics/{topic}/records", {}, 404), "the node knows it, too")


# ---- batches -------------------------------------------------------------------------------------


def test_a_batch_reports_each_entry(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    entries = [
        {"id": "a", "value": text("1")},
        {"id": "b", "value": {"type": "BINARY", "data": 1}},
        {"id": "c", "value": text("2"), "timestamp": "2021-02-05T19:14:42Z"},
    ]

    body = api.post(f"{api.v3}/topics/{topic}/records:batch", {"entries": entries}, 207)

    assert [(one["id"], one["offset"]) for one in body["successes"]] == [("a", 0), ("c", 1)]
    assert body["successes"][1] == {
        "id": "c",
        "cluster_id": api.cluster_id,
        "topic_name": topic,
        "partition_id": 0,
        "offset": 1,
        "timestamp": "2021-02-05T19:14:42Z",
        "value": {"type": "STRING", "size": 1},
    }
    [failure] = body["failures"]
    assert failure == {
        "id": "b",
        "error_code": 400,
        "message": "Bad Request: data=1 is not a base64 string.",
    }


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b'{"entries":[]}', 422, 422),
        (b'{"entries":[{"id":"a"},{"id":"a"}]}', 422, 422),
        (b'{"entries":[{"id":1}]}', 422, 422),
        (b'{"entries":[{"id":""}]}', 422, 422),
        (b'{"entries":[{"id":"a b"}]}', 422, 422),
        (b'{"entries":[{}]}', 422, 422),
        (b'{"entries":["a"]}', 422, 422),
        (b'{"entries":{}}', 400, 400),
        (b'{"entries":[{"id":"a"}],"more":1}', 400, 400),
        (b"[]", 400, 400),
        (b"null", 400, 400),
        (b'{"entries":', 400, 400),
        (b"[" * 100_000, 400, 400),
        (b'{"entries":[%s]}' % b",".join(b'{"id":"%d"}' % number for number in range(10_001)), 422, 422),
    ],
)
def test_a_malformed_batch_is_rejected(api: Api, content: bytes, status: int, code: int) -> None:
    reply = api.ask("POST", f"{api.v3}/topics/any/records:batch", content=content)

    assert (reply.status, reply.json["error_code"]) == (status, code)


def test_a_rejected_record_does_not_fail_its_batch(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster, cleanup_policy="compact")
    entries: list[dict[str, Any]] = [{"id": f"{number}", "key": text(f"{number}")} for number in range(9)]
    del entries[4]["key"]  # a compacted topic rejects records without a key

    body = api.post(f"{api.v3}/topics/{topic}/records:batch", {"entries": entries}, 207)

    assert [one["id"] for one in body["failures"]] == ["4"]
    assert [one["offset"] for one in body["successes"]] == list(range(8))


# ---- streams -------------------------------------------------------------------------------------


@contextmanager
def stream(api: Api, topic: str) -> Iterator[tuple[socket.socket, http.client.HTTPResponse]]:
    """Open a request whose body is sent piece by piece, while its answer is read."""
    parts = urlsplit(api.url)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=TIMEOUT_S) as connection:
        head = [
            f"POST {api.v3}/topics/{topic}/records HTTP/1.1",
            f"Host: {parts.netloc}",
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
        ]
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        with closing(http.client.HTTPResponse(connection, method="POST")) as response:
            yield connection, response


def send(connection: socket.socket, content: bytes) -> None:
    """Send one chunk; an empty one is the end."""
    connection.sendall(b"%x\r\n%b\r\n" % (len(content), content))


def test_a_stream_is_answered_while_it_is_sent(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)

    with stream(api, topic) as (connection, response):
        send(connection, b'{"value":{"type":"STRING",')
        send(connection, b'"data":"one"}}')
        response.begin()
        first = json.loads(response.readline())
        send(connection, b'{"value":{"type":"STRING","data":"two"}}{"val')
        second = json.loads(response.readline())
        send(connection, b'ue":null}')
        third = json.loads(response.readline())
        send(connection, b"")
        rest = response.read()

    assert [first["offset"], second["offset"], third["offset"]] == [0, 1, 2]
    assert rest == b""


def test_an_endless_document_is_cut_off(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    piece = b"x" * 1_000_000

    with stream(api, topic) as (connection, response):
        send(connection, b'{"value":null}{"value":{"type":"STRING","data":"')
        response.begin()
        assert json.loads(response.readline())["error_code"] == 200
        try:
            for _ in range(1000):
                send(connection, piece)
        except OSError:  # the node no longer reads it
            pass
        report = json.loads(response.readline())

    assert report["error_code"] == 400
    assert "larger than allowed" in report["message"]


def test_a_sender_that_reads_no_reports_is_not_read_for_ever(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    documents = b'{"value":{"type":"STRING","data":"x"}}' * 1000

    with stream(api, topic) as (connection, _):
        connection.settimeout(2)
        with pytest.raises(OSError):  # the node waits, or has closed the connection
            for _ in range(10_000):
                send(connection, documents)
    # Other clients are still served.
    assert reports(api, topic, {})[0]["error_code"] == 200


def test_records_of_a_client_that_disconnects_are_stored(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)

    with stream(api, topic) as (connection, response):
        send(connection, b'{"value":{"type":"STRING","data":"kept"}}{"value":')
        response.begin()
        assert json.loads(response.readline())["offset"] == 0

    [record] = stored(rest_cluster, topic, 1)
    assert record.value() == b"kept"
    assert reports(api, topic, {})[0]["offset"] == 1


def test_a_body_of_spaces_is_reported_as_empty(rest_cluster: Cluster, api: Api) -> None:
    reply = api.ask("POST", f"{api.v3}/topics/{create(rest_cluster)}/records", content=b" \n")

    assert reply.status == 200
    assert reply.json["error_code"] == 422 and "body is empty" in reply.json["message"]
