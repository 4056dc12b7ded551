"""The newest N records of a topic, across transaction markers and aborted records."""

import json
import random
import uuid
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.client import newest_records
from ottla.node.embedded import Cluster
from tests.compat.command_line import ottla
from tests.integration.rest.conftest import Api, name_of

pytestmark = pytest.mark.slow

PARTITIONS = 2
TRANSACTIONS = 40


@pytest.fixture(scope="module")
def written(rest_cluster: Cluster) -> tuple[str, dict[str, list[list[str]]]]:
    """Return a topic, and its records by isolation level of the reader and partition, oldest first."""
    topic, chance = name_of("newest"), random.Random(14)
    settings = {"bootstrap.servers": rest_cluster.bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    seen: dict[str, list[list[str]]] = {
        "read_uncommitted": [[] for _ in range(PARTITIONS)],
        "read_committed": [[] for _ in range(PARTITIONS)],
    }
    producer = Producer({**settings, "transactional.id": f"newest-{uuid.uuid4()}", "linger.ms": 0})
    producer.init_transactions()
    for number in range(TRANSACTIONS):
        # Transactions 20 to 29 are a run of aborted records, longer than the first search windows.
        is_aborted = chance.random() < 0.3 or 20 <= number < 30
        producer.begin_transaction()
        for index in range(chance.randrange(1, 4)):
            value, partition = f"{number}.{index}", chance.randrange(PARTITIONS)
            producer.produce(topic, value, partition=partition)
            seen["read_uncommitted"][partition].append(value)
            if not is_aborted:
                seen["read_committed"][partition].append(value)
        producer.flush()
        (producer.abort_transaction if is_aborted else producer.commit_transaction)()
    return topic, seen


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_newest_records_are_counted_across_hidden_ones(
    api: Api, written: tuple[str, dict[str, list[list[str]]]], isolation: str
) -> None:
    topic, seen = written

    for partition, values in enumerate(seen[isolation]):
        for count in (1, 2, 5, 13, len(values), len(values) + 7, 20_000):
            query = f"offset=-{count}&isolation_level={isolation}&count=1000&format=STRING"
            page = api.get(f"{api.v3}/topics/{topic}/partitions/{partition}/records?{query}")
            assert [one["value"]["data"] for one in page["data"]] == values[-count:]
            assert page["is_end"]
            [begin] = page["begins"]
            assert (page["fell_short"], begin["fell_short"], begin["partition_id"]) == (
                False,
                None,
                partition,
            )
            assert begin["is_start"] or count <= len(values)
            assert begin["timestamp_ms"] == page["data"][0]["timestamp_ms"]


def test_a_page_and_a_tail_report_where_offsets_were_counted_instead(
    api: Api, written: tuple[str, dict[str, list[list[str]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_records, "MAX_COUNTED", 3)
    topic, _ = written
    address = f"{api.v3}/topics/{topic}/records?offset=-4&isolation_level=read_committed"

    page = api.get(address)
    with urlopen(Request(api.url + address, headers={"Accept": "text/event-stream"}), timeout=30) as tail:
        lines = [tail.readline().decode().strip() for _ in range(6)]

    assert page["fell_short"]
    assert [one["fell_short"] for one in page["begins"]] == ["counted"] * PARTITIONS
    assert "event: fell_short" in lines
    [ends] = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert [(one["partition_id"], one["fell_short"]) for one in ends] == [(0, "counted"), (1, "counted")]


def test_the_command_prints_the_newest_records_and_ends(
    rest_cluster: Cluster, written: tuple[str, dict[str, list[list[str]]]]
) -> None:
    topic, seen = written
    options = ("--partition", "0", "--isolation", "read_committed", "--from", "-5", "-n", "5")

    output = ottla(rest_cluster.bootstrap, "consume", topic, *options)

    assert [line.split("\t")[-1] for line in output.splitlines()] == seen["read_committed"][0][-5:]
