"""Share groups in the console: partitions, acquired records, settings, dead letters and their redelivery."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import TIMEOUT_S, fill, make_topic
from tests.integration.rest.conftest import name_of

pytestmark = pytest.mark.slow
IMAGE = "<img src=x onerror=\"window.hacked='image'\">"
FOREIGN = "main img, main script, dialog img, dialog script"


@pytest.fixture
def topic(cluster: Cluster, producer: Producer) -> str:
    """Create a topic with ten records in one partition."""
    topic = make_topic(cluster, "shared")
    fill(producer, topic, *(b"work" for _ in range(10)))
    return topic


@pytest.fixture
def worker(console: ConsolePage, cluster: Cluster, topic: str) -> Iterator[str]:
    """Start a share group whose only member accepts three records and has the others in a second delivery."""
    group = name_of("workers")
    console.script(
        "const [group] = arguments;"
        " return fetch('/v3/clusters').then((one) => one.json()).then((page) =>"
        " fetch(`/v3/clusters/${page.data[0].cluster_id}/groups/${group}/configs/share.auto.offset.reset`, {"
        " method: 'PUT', headers: { 'Content-Type': 'application/json' },"
        " body: JSON.stringify({ value: 'earliest' }) }))",
        group,
    )
    stop, holds = threading.Event(), threading.Event()

    def work() -> None:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "client.id": "worker",
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        while not stop.is_set() and not holds.is_set():
            try:
                found = consumer.poll(0.2)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.COORDINATOR_NOT_AVAILABLE:
                    raise
                continue
            if not found:
                continue
            if found[0].offset() == 0:
                for message in found:
                    is_done = message.offset() < 3
                    kind = AcknowledgeType.ACCEPT if is_done else AcknowledgeType.RELEASE
                    consumer.acknowledge(message, kind)
                consumer.commit_sync(10)
            else:
                holds.set()
        stop.wait(TIMEOUT_S)
        consumer.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert holds.wait(TIMEOUT_S)
    yield group
    stop.set()
    thread.join(TIMEOUT_S)


def write_letter(
    producer: Producer,
    letters: str,
    group: str,
    topic: str,
    offset: int,
    value: bytes | None,
    key: bytes | None = None,
) -> None:
    """Write a dead letter as a broker does."""
    context = {
        "topic": topic,
        "partition": "0",
        "offset": str(offset),
        "group": group,
        "delivery.count": "5",
        "message": f"Offset delivery count exceeded the threshold. {IMAGE}",
    }
    headers: list[tuple[str, str | bytes | None]] = [
        (f"__dlq.errors.{name}", text.encode()) for name, text in context.items()
    ]
    producer.produce(letters, value, key, 0, headers=[("trace", b"abc"), *headers] if value else headers)
    assert producer.flush(TIMEOUT_S) == 0


def record_at(cluster: Cluster, topic: str, offset: int) -> tuple[Any, Any]:
    """Return the value and the headers of a record."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name_of("reader")})
    consumer.assign([TopicPartition(topic, 0, offset)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None and message.offset() == offset
    return message.value(), message.headers()


def test_a_share_group_shows_its_members_and_partitions(
    console: ConsolePage, topic: str, worker: str
) -> None:
    console.open("#/groups")
    console.click("only share groups")
    console.fill("Search", worker)
    console.row(worker, "share")
    console.click(worker)

    assert console.title() == worker
    console.sees("Members", "Partitions")
    assert console.fact("Type") == "share"
    cells = console.cells(topic, "2 of 5")
    assert (cells[0], cells[2:8], cells[9]) == (f"{topic} 0", ["10", "7", "7", "0", "0", "2 of 5"], "worker")
    console.sees("Delivered more than once", "Locks that end next")
    console.row(topic, "3 to 9", "2 of 5", "Acquired", "worker")
    assert "Rebalances" not in console.text()
    console.click("Dead letters")
    console.sees("This group has no dead-letter topic")


def test_a_consumer_group_has_no_dead_letters(console: ConsolePage, cluster: Cluster, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": (group := name_of("readers"))})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()

    console.open(f"#/groups/{group}")

    console.sees("Lag by partition", "Rebalances", "Configs")
    assert "Dead letters" not in console.text()


def test_the_settings_of_a_group_are_changed(console: ConsolePage, worker: str) -> None:
    console.open(f"#/groups/{worker}")
    console.click("Configs")
    console.fill("Search", "share.record.lock.duration.ms")
    console.click("Change share.record.lock.duration.ms")
    console.fill(f"Value for group {worker}", "20000")
    console.click("Set")

    console.sees(f"share.record.lock.duration.ms of group {worker} is set to 20000.")
    console.row("share.record.lock.duration.ms", "20000", "this group")


def test_a_dead_letter_is_shown_and_delivered_again(
    console: ConsolePage, cluster: Cluster, producer: Producer, topic: str, worker: str
) -> None:
    letters = make_topic(cluster, "letters")
    write_letter(producer, letters, worker, topic, 2, f"spoilt {IMAGE}".encode(), b"k")
    write_letter(producer, letters, name_of("others"), topic, 2, b"not mine")
    console.open(f"#/groups/{worker}/dead-letters")
    console.fill("Another topic", letters)
    console.click("Read")

    console.sees("1 dead letter, the newest first; searched back to the oldest record.", IMAGE)
    row = console.row(topic, "partition 0, offset 2", "Offset delivery count exceeded the threshold.", "5")
    assert "not mine" not in row.text
    console.click("Show letter at offset 0 of partition 0")
    console.sees("Dead letter at offset 0 of partition 0", "trace", "in the letter")
    assert "__dlq" not in console.text()
    console.click("Close")
    console.click("Deliver letter at offset 0 of partition 0 again")
    console.sees(f"A new record is written to {topic}, partition 0.", "The letter is kept")
    console.click("Deliver again")

    console.sees("1 letter was delivered again.", "delivered at offset 10")
    value, headers = record_at(cluster, topic, 10)
    assert (value, headers) == (f"spoilt {IMAGE}".encode(), [("trace", b"abc")])
    assert console.script("return document.querySelectorAll(arguments[0]).length", FOREIGN) == 0


def test_dead_letters_without_a_copy_are_read_at_their_origin_or_reported_as_deleted(
    console: ConsolePage, cluster: Cluster, producer: Producer, topic: str, worker: str
) -> None:
    letters = make_topic(cluster, "letters")
    write_letter(producer, letters, worker, topic, 3, None)
    write_letter(producer, letters, worker, topic, 4_000, None)
    console.open(f"#/groups/{worker}/dead-letters")
    console.fill("Another topic", letters)
    console.click("Read")

    console.sees("2 dead letters", "not in the letter")
    console.click("Show letter at offset 0 of partition 0")
    console.sees("read from its origin", "work")
    console.click("Close")
    console.click("Show letter at offset 1 of partition 0")
    console.sees("that partition no longer has a record at this offset")
    console.click("Close")
    console.click("Deliver letter at offset 1 of partition 0 again")
    console.click("Deliver again")
    console.eventually(
        lambda: "no longer has a record" in console.problem(), "no error says that the record is gone"
    )
    console.click("Cancel")
    console.click("Deliver these 2 again…")
    console.sees(f"2 new records are written to {topic}, each to the partition it came from.")
    console.click("Deliver again")

    console.sees("1 letter was delivered again. 1 was not")
    console.row("offset 4,000", "not delivered")
    console.row("offset 3", "delivered at offset 10")
    assert record_at(cluster, topic, 10)[0] == b"work"


def test_dead_letters_that_cannot_be_delivered_do_not_block_the_others(
    console: ConsolePage, cluster: Cluster, producer: Producer, topic: str, worker: str
) -> None:
    letters = make_topic(cluster, "letters")
    write_letter(producer, letters, worker, topic, 2, b"spoilt")
    write_letter(
        producer, letters, worker, name_of("gone"), 2, b"spoilt, too"
    )  # the newest, so delivered first
    console.open(f"#/groups/{worker}/dead-letters")
    console.fill("Another topic", letters)
    console.click("Read")

    console.click("Deliver these 2 again…")
    console.click("Deliver again")

    console.sees("1 letter was delivered again. 1 was not")
    assert record_at(cluster, topic, 10)[0] == b"spoilt"


def test_the_offsets_of_a_topic_are_not_deleted_while_the_group_has_members(
    console: ConsolePage, topic: str, worker: str
) -> None:
    console.open(f"#/groups/{worker}/reset")
    console.sees("For a share group, this resets its start offsets")
    console.click("Delete the offsets…")
    console.sees("Choose a topic.")
    console.choose("Offsets in topic", topic)
    console.click("Delete the offsets…")
    console.sees(f"Delete the offsets of {worker} in {topic}?")
    console.click("Delete the offsets")

    console.eventually(lambda: console.problem(), "that it has members is not said")
    console.click("Cancel")
