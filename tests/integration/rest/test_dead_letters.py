"""Dead letters over REST: listed, shown, and redelivered. The tests write them as a broker does."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, Reply, eventually, name_of
from tests.integration.rest.test_share_groups import working

pytestmark = pytest.mark.slow


class Queue(NamedTuple):
    """A topic, a share group that reads it, and the topic of the group's dead letters."""

    bootstrap: str
    topic: str
    group: str
    letters: str

    def write(
        self,
        offset: int,
        *,
        key: bytes | None = b"k",
        value: bytes | None = b'{"a": 1}',
        headers: list[tuple[str, bytes]] | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> int:
        """Write a letter, and return its offset."""
        origin = {
            "topic": topic or self.topic,
            "partition": "1",
            "offset": str(offset),
            "group": group or self.group,
            "delivery.count": "5",
            "message": "Offset delivery count exceeded the threshold.",
        }
        context = [(f"__dlq.errors.{name}", text.encode()) for name, text in origin.items()]
        return send(self.bootstrap, self.letters, 0, key, value, [*(headers or []), *context])

    @property
    def path(self) -> str:
        return f"/v1/groups/{self.group}/dead-letters"


def send(
    bootstrap: str,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]],
) -> int:
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    producer.produce(
        topic,
        value,
        key,
        partition,
        headers=headers,
        on_delivery=lambda error, message: offsets.append(message.offset()),
    )
    assert producer.flush(TIMEOUT_S) == 0
    return offsets[0]


def read(bootstrap: str, topic: str, partition: int, offset: int) -> tuple[Any, Any, Any]:
    """Return the key, the value and the headers of one record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, offset)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None and message.offset() == offset
    return message.key(), message.value(), message.headers()


@pytest.fixture(scope="module")
def group(rest_cluster: Cluster) -> Iterator[str]:
    """Start a share group that exists while the tests run."""
    group = name_of("workers")
    topic = name_of("watched")
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(TIMEOUT_S)
    with working(rest_cluster.bootstrap, group, topic):
        yield group


@pytest.fixture
def queue(rest_cluster: Cluster, api: Api, group: str) -> Queue:
    topic, letters = name_of("orders"), name_of("letters")
    admin = AdminClient({"bootstrap.servers": rest_cluster.bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, 2, 3), NewTopic(letters, 1, 3)]).values():
        made.result(TIMEOUT_S)
    eventually(lambda: api.ask("GET", f"/v1/groups/{group}").status == 200, "the group exists")
    return Queue(rest_cluster.bootstrap, topic, group, letters)


def deliver(api: Api, queue: Queue, *offsets: int, topic: str | None = None) -> Reply:
    body = {
        "topic": topic or queue.topic,
        "letters": [{"partition": 0, "offset": one} for one in offsets],
    }
    return api.ask("POST", f"{queue.path}/deliver?topic={queue.letters}", body)


def test_letters_are_listed_with_origin_reason_and_content(api: Api, queue: Queue) -> None:
    send(queue.bootstrap, queue.letters, 0, None, b"no letter", [])
    queue.write(7, headers=[("trace", b"abc")])
    queue.write(8, group="others")
    queue.write(9, key=None, value=None)

    found = api.get(f"{queue.path}?topic={queue.letters}")

    first, second = found["letters"]
    assert first["origin"] == {"topic": queue.topic, "partition": 1, "offset": 7}
    assert (first["partition_id"], first["offset"]) == (0, 1)
    assert first["reason"] == "Offset delivery count exceeded the threshold."
    assert (first["delivery_count"], first["has_copy"]) == (5, True)
    assert first["value"] == {"type": "JSON", "size": 8, "data": {"a": 1}}
    assert [one["name"] for one in first["headers"]] == ["trace"]
    assert (second["origin"]["offset"], second["has_copy"], second["value"]) == (9, False, None)
    assert found["is_end"] and found["topic"] == queue.letters
    page = api.get(f"{queue.path}?topic={queue.letters}&count=1")
    assert len(page["letters"]) == 1 and not page["is_end"]
    rest = api.get(f"{queue.path}?topic={queue.letters}&offset={page['cursor']}")
    assert [one["offset"] for one in rest["letters"]] == [3]


def test_a_group_without_a_dead_letter_topic_has_no_letters(api: Api, queue: Queue) -> None:
    page = api.get(queue.path)

    assert (page["topic"], page["letters"], page["is_end"]) == (None, [], True)
    assert "no dead-letter topic" in api.get(f"{queue.path}/0/0", 404)["message"]
    body = {"topic": queue.topic, "letters": [{"partition": 0, "offset": 0}]}
    assert api.post(f"{queue.path}/deliver", body, 404)["message"]


def test_letters_outlive_their_group(api: Api, queue: Queue) -> None:
    gone = queue._replace(group=name_of("gone"))
    offset = gone.write(7, value=b"work")

    page = api.get(f"{gone.path}?topic={queue.letters}")
    reply = deliver(api, gone, offset)

    assert [one["offset"] for one in page["letters"]] == [offset]
    assert reply.json["delivered"][0]["to"]["offset"] == 0
    api.get(gone.path, 404)


def test_a_letter_is_delivered_again_without_its_own_headers(api: Api, queue: Queue) -> None:
    offset = queue.write(7, key=b"\x00\xff", value=b"work", headers=[("trace", b"abc")])

    reply = deliver(api, queue, offset, offset)

    assert reply.status == 200, reply.content
    assert reply.json == {
        "delivered": [
            {
                "partition": 0,
                "offset": offset,
                "to": {"topic": queue.topic, "partition": 1, "offset": 0},
                "content": "letter",
            }
        ],
        "failed": [],
    }
    assert read(queue.bootstrap, queue.topic, 1, 0) == (b"\x00\xff", b"work", [("trace", b"abc")])
    assert len(api.get(f"{queue.path}?topic={queue.letters}")["letters"]) == 1  # the letter stays


def test_a_note_is_delivered_from_its_origin(api: Api, queue: Queue) -> None:
    origin = send(queue.bootstrap, queue.topic, 1, b"k", b"work", [("trace", b"abc")])
    offset = queue.write(origin, key=None, value=None)

    shown = api.get(f"{queue.path}/0/{offset}?topic={queue.letters}")
    reply = deliver(api, queue, offset)

    assert (shown["content"], shown["message"], shown["has_copy"]) == ("origin", None, False)
    assert shown["value"]["data"] == "work"
    assert [one["name"] for one in shown["headers"]] == ["trace"]
    assert reply.json["delivered"][0]["content"] == "origin"
    assert read(queue.bootstrap, queue.topic, 1, origin + 1) == (b"k", b"work", [("trace", b"abc")])


def test_a_hundred_letters_go_back_in_their_order_in_one_request(api: Api, queue: Queue) -> None:
    for number in range(50):
        send(queue.bootstrap, queue.topic, 1, None, f"note {number}".encode(), [])
    letters = [queue.write(number, key=None, value=None) for number in range(50)]
    letters += [queue.write(number, value=f"copy {number}".encode()) for number in range(50)]
    begun = time.monotonic()

    reply = deliver(api, queue, *letters)

    assert reply.status == 200, reply.content
    assert time.monotonic() - begun < 10.0
    assert [one["to"]["offset"] for one in reply.json["delivered"]] == [*range(50, 150)]
    records = api.get(f"{api.v3}/topics/{queue.topic}/partitions/1/records?offset=50&count=200")["data"]
    expected = [f"note {number}" for number in range(50)] + [f"copy {number}" for number in range(50)]
    assert [one["value"]["data"] for one in records] == expected


@pytest.mark.parametrize("place", ["behind the end", "before the start", "of no topic"])
def test_a_note_whose_record_was_deleted_is_reported(api: Api, queue: Queue, place: str) -> None:
    origin = 99
    if place == "before the start":
        origin = send(queue.bootstrap, queue.topic, 1, b"k", b"work", [])
        admin = AdminClient({"bootstrap.servers": queue.bootstrap, "log_level": 0})
        for deleted in admin.delete_records([TopicPartition(queue.topic, 1, origin + 1)]).values():
            deleted.result(TIMEOUT_S)
    topic = name_of("never") if place == "of no topic" else queue.topic
    offset = queue.write(origin, key=None, value=None, topic=topic)

    shown = api.get(f"{queue.path}/0/{offset}?topic={queue.letters}")
    reply = deliver(api, queue, offset, topic=topic)

    assert (shown["content"], shown["value"]) == ("gone", None)
    assert "no longer has a record" in shown["message"]
    assert reply.status == 404


def test_a_letter_goes_where_the_caller_says_and_nowhere_else(api: Api, queue: Queue) -> None:
    """The headers of a letter are whatever a producer to the dead-letter topic has written."""
    of_another_topic = queue.write(0, topic="__consumer_offsets")
    mine = queue.write(0)
    other = queue.write(0, group="others")
    plain = send(queue.bootstrap, queue.letters, 0, None, b"no letter", [])

    reply = deliver(api, queue, of_another_topic, mine, other, plain, 10_000)

    assert [one["offset"] for one in reply.json["delivered"]] == [mine]
    failed = {one["offset"]: one["message"] for one in reply.json["failed"]}
    assert failed.keys() == {of_another_topic, other, plain, 10_000}
    assert "of topic __consumer_offsets" in failed[of_another_topic]
    assert "no dead letter of group" in failed[other]
    assert deliver(api, queue, of_another_topic).status == 400
    assert deliver(api, queue, plain).status == 404
    assert deliver(api, queue, of_another_topic, topic="__consumer_offsets").status in (400, 403)


def test_requests_are_validated(api: Api, queue: Queue) -> None:
    offset = queue.write(0)
    path = f"{queue.path}/deliver?topic={queue.letters}"

    bodies: list[Any] = [
        {"topic": queue.topic, "letters": []},
        {"topic": queue.topic, "letters": [{"partition": 0, "offset": one} for one in range(101)]},
        {"topic": queue.topic, "letters": [{"partition": -1, "offset": offset}]},
        {"letters": [{"partition": 0, "offset": offset}]},
    ]
    assert {api.ask("POST", path, one).status for one in bodies} <= {400, 422}
    assert deliver(api, queue, offset, topic="no-such-topic").status == 404
    api.get(f"{queue.path}/1/0?topic={queue.letters}", 404)
    api.get(f"{queue.path}/0/{2**63}?topic={queue.letters}", 404)
    api.get(f"{queue.path}?topic=no-such-topic", 404)
    assert api.get(f"{queue.path}/0/{offset}?topic={queue.letters}")["content"] == "letter"
