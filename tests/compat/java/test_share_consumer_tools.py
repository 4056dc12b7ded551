"""`kafka-verifiable-share-consumer` and `kafka-share-consumer-perf-test` at a node and at Apache Kafka."""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.servers import Server

pytestmark = [pytest.mark.java, pytest.mark.slow]
RECORDS, PARTITIONS = 60, 2


class Consumed(NamedTuple):
    """The output of the verifiable consumer, without times and the sizes of its polls."""

    names: list[str]  # of its events, without repetitions
    consumed: dict[int, list[int]]  # offsets by partition
    acknowledged: dict[int, list[int]]
    counts: list[int]  # of records consumed and acknowledged
    values: list[str | None]
    failures: list[Any]


@pytest.fixture
def servers_with_records(ottla: Server, reference: Server) -> Iterator[list[tuple[Server, str]]]:
    """Give a node and Apache Kafka, each with a topic of the same records."""
    filled = [(one, _fill(one)) for one in (ottla, reference)]
    yield filled
    for server, topic in filled:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})  # must outlive the future
        admin.delete_topics([topic])[topic].result(30)


def _fill(server: Server) -> str:
    topic = f"shared-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, f"value-{number}", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return topic


def _verified(tools: KafkaTools, server: Server, topic: str, *options: str) -> Consumed:
    ran = tools.run(
        "kafka-verifiable-share-consumer",
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group-id", f"workers-{topic}"),
        *("--max-messages", str(RECORDS), "--offset-reset-strategy", "earliest", "--verbose", *options),
    )
    assert ran.code == 0, ran.text
    events = [json.loads(line) for line in ran.lines() if line.startswith("{")]

    def named(name: str) -> list[dict[str, Any]]:
        return [one for one in events if one["name"] == name]

    consumed, acknowledged = named("records_consumed"), named("offsets_acknowledged")
    return Consumed(
        names=sorted({name for name, _ in groupby(one["name"] for one in events)}),
        consumed=_offsets(consumed),
        acknowledged=_offsets(acknowledged),
        counts=[sum(one["count"] for one in some) for some in (consumed, acknowledged)],
        values=sorted(one["value"] for one in named("record_data")),
        failures=[one for one in acknowledged if not one["success"]],
    )


def _offsets(events: list[dict[str, Any]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for event in events:
        for one in event["partitions"]:
            assert one["count"] == len(one["offsets"])
            found.setdefault(one["partition"], []).extend(one["offsets"])
    return {partition: sorted(offsets) for partition, offsets in sorted(found.items())}


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_kafka_verifiable_share_consumer_reports_the_same_of_both_servers(
    tools: KafkaTools, servers_with_records: list[tuple[Server, str]], mode: str
) -> None:
    ours, theirs = (
        _verified(tools, server, topic, "--acknowledgement-mode", mode)
        for server, topic in servers_with_records
    )

    every = {partition: list(range(RECORDS // PARTITIONS)) for partition in range(PARTITIONS)}
    assert ours == theirs
    assert (ours.consumed, ours.acknowledged, ours.counts) == (every, every, [RECORDS, RECORDS])
    assert (ours.failures, len(set(ours.values))) == ([], RECORDS)


def test_kafka_share_consumer_perf_test_consumes_all_records(
    tools: KafkaTools, servers_with_records: list[tuple[Server, str]]
) -> None:
    for server, topic in servers_with_records:
        group = f"workers-{topic}"
        configured = tools.run(
            "kafka-configs",
            *("--bootstrap-server", server.bootstrap, "--alter", "--entity-type", "groups"),
            *("--entity-name", group, "--add-config", "share.auto.offset.reset=earliest"),
        )
        assert configured.code == 0, configured.text
        ran = tools.run(
            "kafka-share-consumer-perf-test",
            *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group", group),
            *("--num-records", str(RECORDS), "--threads", "2", "--timeout", "20000"),
        )

        assert ran.code == 0, ran.text
        header, row = (line.split(", ") for line in ran.lines()[-2:])
        assert header[-2:] == ["data.consumed.in.nMsg", "fetch.time.ms"], ran.text
        assert row[-2] == str(RECORDS), ran.text
        assert "WARNING" not in ran.text
