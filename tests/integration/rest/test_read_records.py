"""Reading records through the REST API: pages, filters, formats, and a live tail."""

import asyncio
import http.client
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.node.embedded import Cluster
from ottla.node.rest_api import read_records
from ottla.node.rest_api.route import RestContext
from ottla.node.settings.config import parse_config
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, name_of
from tests.integration.rest.test_produce_records import create

pytestmark = pytest.mark.slow
QUIET = {"log_level": 0}
LETTERS = "abcdefghij"


def produce(cluster: Cluster, topic: str, *values: Any, partition: int = 0, **settings: Any) -> None:
    """Produce values with timestamps one second apart, from 1000 s after 1970 on."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **given, **QUIET})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=1_000_000 + 1000 * number)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.fixture(scope="module")
def letters(rest_cluster: Cluster) -> str:
    """Create a topic of one partition with a letter at each offset from 0 to 9."""
    topic = create(rest_cluster)
    produce(rest_cluster, topic, *LETTERS)
    return topic


def page(api: Api, topic: str, query: str = "") -> Any:
    return api.get(f"{api.v3}/topics/{topic}/records?{query}")


def values(found: Any) -> list[Any]:
    return [one["value"]["data"] for one in found["data"]]


def test_a_page_ends_before_a_given_offset(api: Api, letters: str) -> None:
    last = page(api, letters, "offset=-3")
    before = page(api, letters, f"offset=0:2&before={last['begin']}")
    first = page(api, letters, f"offset=0:0&before={before['begin']}&count=1")

    assert values(before) == list("cdefg") and before["is_end"] and not before["is_start"]
    assert values(first) == ["a"] and first["is_start"] and not first["is_end"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", LETTERS),
        ("offset=earliest", LETTERS),
        ("offset=latest", ""),
        ("offset=7", "hij"),
        ("offset=-3", "hij"),
        ("offset=-300", LETTERS),
        ("offset=10", ""),
        ("offset=999999999999", ""),
        ("offset=0:8", "ij"),
        ("offset=4&count=2", "ef"),
        ("timestamp=1005000", "fghij"),
        ("timestamp=1004001", "fghij"),
        ("timestamp=1970-01-01T00:16:45Z", "fghij"),
        ("timestamp=1970-01-01T01:16:45%2B01:00&count=1", "f"),
        ("timestamp=99999999999", ""),
        ("filter=c", "c"),
        ("filter=nothing", ""),
        ("max_bytes=2", "ab"),
    ],
)
def test_a_page_begins_and_ends_as_requested(
    apis: list[Api], letters: str, query: str, expected: str
) -> None:
    for number, api in enumerate(apis):
        path = f"{letters}/partitions/0" if number % 2 else letters

        assert values(page(api, path, query)) == list(expected)


def test_pages_follow_each_other_to_the_end(api: Api, letters: str) -> None:
    found = page(api, letters, "count=4&format=STRING")
    seen = values(found)
    while found["metadata"]["next"] is not None:
        assert not found["is_end"]
        found = api.get(found["metadata"]["next"])
        seen += values(found)

    assert seen == list(LETTERS)
    assert found["is_end"] and found["cursor"] == "0:10"
    assert page(api, letters, f"offset={found['cursor']}")["data"] == []


def test_a_record_is_shown_whole(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    producer = Producer({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})
    headers = [("h", b"\xff"), ("n", None)]
    producer.produce(topic, b'{"a": 1e2}', b"\xff", headers=headers, timestamp=1_612_552_482_123)
    producer.produce(topic, None, b"key", timestamp=0)
    producer.flush(TIMEOUT_S)

    shown, tombstone = page(api, topic)["data"]

    assert shown == {
        "topic_name": topic,
        "partition_id": 0,
        "offset": 0,
        "timestamp": "2021-02-05T19:14:42.123Z",
        "timestamp_ms": 1_612_552_482_123,
        "headers": [{"name": "h", "value": "/w=="}, {"name": "n", "value": None}],
        "key": {"type": "BINARY", "size": 1, "data": "/w=="},
        "value": {"type": "JSON", "size": 10, "data": {"a": 100.0}},
    }
    assert tombstone["value"] is None and tombstone["key"]["data"] == "key"
    assert page(api, topic, "format=BINARY&count=1")["data"][0]["value"]["data"] == "eyJhIjogMWUyfQ=="


def test_records_that_were_read_can_be_produced_again(rest_cluster: Cluster, api: Api) -> None:
    source, target = create(rest_cluster), create(rest_cluster)
    produce(rest_cluster, source, b'{"a":[1]}', b"text", b"\xff\0", None)

    for shown in page(api, source)["data"]:
        content = {
            name: shown[name] and {field: shown[name][field] for field in ("type", "data")}
            for name in ("key", "value")
        }
        sent = {**content, "headers": shown["headers"], "timestamp": shown["timestamp"]}
        assert api.post(f"{api.v3}/topics/{target}/records", sent)["error_code"] == 200

    ours, theirs = page(api, source)["data"], page(api, target)["data"]
    assert [one | {"topic_name": ""} for one in ours] == [one | {"topic_name": ""} for one in theirs]


def test_partitions_are_read_together_by_time(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster, partitions=3)
    for number, some in enumerate(("adgj", "behk", "cfil")):
        producer = Producer({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})
        for letter in some:
            producer.produce(topic, letter, partition=number, timestamp=ord(letter) * 1000)
        producer.flush(TIMEOUT_S)

    found = page(api, topic, "count=5")

    assert values(found) == list("abcde")
    assert found["cursor"] == "0:2,1:2,2:1"
    assert values(api.get(found["metadata"]["next"])) == list("fghij")
    assert values(page(api, topic, "offset=-1")) == list("jkl")
    assert values(page(api, topic, "offset=1:3,2:0")) == list("cfikl")
    assert values(page(api, f"{topic}/partitions/1", "offset=1:3")) == ["k"]
    api.get(f"{api.v3}/topics/{topic}/partitions/1/records?offset=0:3", 400)
    api.get(f"{api.v3}/topics/{topic}/records?offset=3:0", 404)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_and_stored(rest_cluster: Cluster, api: Api, compression: str) -> None:
    topic = create(rest_cluster, compression_type=compression)
    produce(rest_cluster, topic, *LETTERS, compression_type=compression)

    entry = {"value": {"type": "STRING", "data": "x" * 5000}}
    assert api.post(f"{api.v3}/topics/{topic}/records", entry)["offset"] == 10

    assert values(page(api, topic)) == [*LETTERS, "x" * 5000]
    assert values(page(api, topic, "offset=5&count=2")) == ["f", "g"]


def test_a_filter_finds_fields_of_json(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    documents = [{"id": number, "to": {"n": [number % 3]}} for number in range(20)]
    produce(rest_cluster, topic, *map(json.dumps, documents))

    found = page(api, topic, f"filter={quote('$.to.n[0]=2')}")
    assert [one["id"] for one in values(found)] == [2, 5, 8, 11, 14, 17]
    found = page(api, topic, f"count=1&filter={quote('$.id=7')}")
    assert values(found) == [{"id": 7, "to": {"n": [1]}}]
    assert found["cursor"] == "0:8"


def test_only_committed_records_are_read_on_request(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    settings = {"bootstrap.servers": rest_cluster.bootstrap, "transactional.id": name_of("txn"), **QUIET}
    producer = Producer(settings)
    producer.init_transactions(TIMEOUT_S)
    for value, ends in (("aborted", producer.abort_transaction), ("kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(TIMEOUT_S)
        ends(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(TIMEOUT_S)

    committed = page(api, topic, "isolation_level=read_committed")
    every = page(api, topic)
    producer.abort_transaction(TIMEOUT_S)

    assert values(committed) == ["kept"]
    assert (committed["is_end"], committed["cursor"]) == (True, "0:4")
    assert values(every) == ["aborted", "kept", "open"]


@pytest.mark.parametrize(
    "query",
    [
        "offset=x",
        "offset=1.5",
        "offset=1:",
        "offset=0:1,0:2",
        "offset=1&timestamp=1",
        "offset=" + "9" * 30,
        "timestamp=tomorrow",
        "timestamp=-1",
        "timestamp=2021-13-01T00:00:00Z",
        "count=0",
        "count=10001",
        "count=99999999999999999999",
        "max_bytes=0",
        "max_bytes=99999999999",
        "timeout_ms=30001",
        "format=XML",
        "isolation_level=all",
        "filter=%24.a",
        "filter=" + "x" * 1001,
        "count=1&count=2",
    ],
)
def test_invalid_requests_are_rejected(api: Api, letters: str, query: str) -> None:
    assert api.get(f"{api.v3}/topics/{letters}/records?{query}", 400)["error_code"] == 400


def test_missing_topics_and_partitions_are_not_found(api: Api, letters: str) -> None:
    assert api.get(f"{api.v3}/topics/{name_of('none')}/records", 404)["error_code"] == 40403
    api.get(f"{api.v3}/topics/{letters}/partitions/1/records", 404)
    api.get(f"{api.v3}/topics/{letters}/partitions/x/records", 404)


# ---- the live tail -------------------------------------------------------------------------------


class Event(NamedTuple):
    kind: str
    id: str
    data: Any


class Tail:
    """A reader of server-sent events."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self) -> Event:
        """Return the next event, or a comment or an id that stands alone."""
        fields = {"event": "", "id": "", "data": "null"}
        while line := self._response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name or "event"] = value
        return Event(fields["event"], fields["id"], json.loads(fields["data"]))


@contextmanager
def tail(api: Api, topic: str, query: str = "", **headers: str) -> Iterator[Tail]:
    """Open a live tail, and wait for its first cursor."""
    parts = urlsplit(api.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_S)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(
            "GET",
            f"{api.v3}/topics/{topic}/records?{query}",
            headers={"Accept": "text/event-stream", **given},
        )
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")
        yield Tail(response)
    finally:
        connection.close()


def next_record(events: Tail) -> Event:
    """Return the next record; on a slow machine a heartbeat may come before it."""
    while (one := events.next()).kind != "record":
        pass
    return one


def test_a_tail_shows_new_records_and_resumes_where_it_was_disconnected(
    rest_cluster: Cluster, apis: list[Api]
) -> None:
    topic = create(rest_cluster)
    produce(rest_cluster, topic, "before")

    with tail(apis[0], topic) as events:
        begin = events.next()
        produce(rest_cluster, topic, "one", "two")
        first, second = events.next(), events.next()
    produce(rest_cluster, topic, "three")
    with tail(apis[1], topic, "offset=earliest", Last_Event_ID=first.id) as events:
        resumed = [events.next() for _ in range(3)]

    assert begin.id == "0:1"
    assert (first.kind, first.id, first.data["value"]["data"]) == ("record", "0:2", "one")
    assert second.id == "0:3"
    assert resumed[0].id == "0:2"
    assert [one.data["value"]["data"] for one in resumed[1:]] == ["two", "three"]


def test_a_tail_of_many_partitions_can_be_filtered(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster, partitions=3)
    for number in range(3):
        produce(rest_cluster, topic, "wanted", "not so", partition=number)

    with tail(api, topic, "offset=earliest&filter=wanted") as events:
        events.next()
        found = [events.next() for _ in range(3)]

    assert {one.data["partition_id"] for one in found} == {0, 1, 2}
    assert {one.data["value"]["data"] for one in found} == {"wanted"}


def test_a_tail_of_a_topic_includes_partitions_that_are_added_later(
    rest_cluster: Cluster, apis: list[Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_records, "NEW_PARTITIONS_S", 0.0)
    api, topic = apis[0], create(rest_cluster)
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})

    with tail(api, topic) as whole, tail(api, topic, "offset=0:0") as named:
        whole.next(), named.next()
        for grown in admin.create_partitions([NewPartitions(topic, 2)]).values():
            grown.result(TIMEOUT_S)
        path = f"/v1/topics/{topic}/partitions"
        eventually(lambda: all(len(one.get(path)["partitions"]) == 2 for one in apis))
        produce(rest_cluster, topic, "new", partition=1)
        of_whole = next_record(whole)
        produce(rest_cluster, topic, "old", partition=0)
        of_named = next_record(named)
    with tail(api, topic, Last_Event_ID="0:0") as resumed:
        begin = resumed.next()

    assert (of_whole.id, of_whole.data["value"]["data"]) == ("0:0,1:1", "new")
    assert (of_named.id, of_named.data["value"]["data"]) == ("0:1", "old")
    assert begin.id == "0:0,1:0"


def test_a_tail_reports_records_that_were_deleted_before_it_read_them(
    rest_cluster: Cluster, api: Api
) -> None:
    topic = create(rest_cluster)
    produce(rest_cluster, topic, *LETTERS)
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})
    with tail(api, topic) as events:
        events.next()
        produce(rest_cluster, topic, "last")
        at_end = events.next()
        for deleted in admin.delete_records([TopicPartition(topic, 0, 8)]).values():
            deleted.result(TIMEOUT_S)

    with tail(api, topic, Last_Event_ID="0:2") as events:
        begin, gap, record = events.next(), events.next(), events.next()

    assert (at_end.id, begin.id) == ("0:11", "0:2")
    assert gap == Event("gap", "0:8", [{"partition_id": 0, "from_offset": 2, "to_offset": 8}])
    assert record.data["offset"] == 8


def test_an_idle_tail_sends_heartbeats(api: Api, letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_records, "HEARTBEAT_S", 0.1)

    with tail(api, letters, "offset=earliest&filter=nothing") as events:
        events.next()

        assert events.next() == Event("heartbeat", "0:10", None)


def test_tails_of_an_address_are_limited(api: Api, letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most = parse_config({}).ottla_rest_tails_max_per_address
    monkeypatch.setattr(read_records, "HEARTBEAT_S", 0.1)

    for _ in range(2):  # a client that disconnects frees its slot
        with ExitStack() as opened:
            for _ in range(most):
                eventually(lambda opened=opened: opened.enter_context(status_of_tail(api, letters)) == 200)

            assert opened.enter_context(status_of_tail(api, letters)) == 429


def test_a_page_and_a_tail_end_with_their_clients(
    api: Api, letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_s: list[float] = []

    async def page_without_end(context: RestContext, *_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            left_s.append(context.deadline.remaining_s)

    def running(kind: str) -> int:
        metrics = api.ask("GET", "/metrics").content.decode()
        found = re.search(rf'^ottla_rest_work{{kind="{kind}",state="running"}} (\d+)', metrics, re.M)
        assert found is not None
        return int(found[1])

    monkeypatch.setattr(read_records, "read_page", page_without_end)
    monkeypatch.setattr(read_records, "HEARTBEAT_S", 3600.0)
    eventually(lambda: running("tails") == running("reads") == 0, "reads of other tests have ended")
    parts = urlsplit(api.url)
    page = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_S)
    page.request("GET", f"{api.v3}/topics/{letters}/records?timeout_ms=30000")
    with status_of_tail(api, letters) as status:
        assert status == 200
        eventually(lambda: running("tails") == running("reads") == 1, "a tail and a page are being read")
    page.close()

    eventually(lambda: running("tails") == running("reads") == 0, "both have ended")
    assert left_s[0] > 0.1, "the page ended before its deadline"


SSE = {"Accept": "text/event-stream"}


@contextmanager
def status_of_tail(api: Api, topic: str) -> Iterator[int]:
    """Yield the status of a request for a live tail, which may be open or rejected."""
    parts = urlsplit(api.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_S)
    connection.request("GET", f"{api.v3}/topics/{topic}/records", headers=SSE)
    yield connection.getresponse().status
    connection.close()


def test_a_tail_ends_with_a_reason(rest_cluster: Cluster, api: Api) -> None:
    topic = create(rest_cluster)
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, **QUIET})

    with tail(api, topic) as events:
        events.next()
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        end = events.next()

    assert end.kind == "error"
    assert end.data["error_code"] == 40403


def test_a_tail_of_a_missing_topic_is_rejected(api: Api) -> None:
    assert api.ask("GET", f"{api.v3}/topics/{name_of('none')}/records", headers=SSE).status == 404
    bad = {**SSE, "Last-Event-ID": "0:1,0:2"}
    assert api.ask("GET", f"{api.v3}/topics/any/records", headers=bad).status == 400
