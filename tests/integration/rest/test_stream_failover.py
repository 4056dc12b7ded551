"""A stream of records continues while its leader is killed: each record is stored once, in order."""

import json
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually
from tests.integration.rest.test_produce_records import create, send, stream

pytestmark = pytest.mark.slow
QUIET = {"log_level": 0}
RECORDS = 3_000
KILLED_AT = 500  # reports


@pytest.fixture
def three() -> Iterator[Cluster]:
    """Start three nodes, one of which will be killed."""
    with Cluster(nodes=3, rest=True) as cluster:
        yield cluster


def test_a_stream_outlives_the_leader_it_writes_to(three: Cluster) -> None:
    topic = create(three)
    leader = three.leader_of(topic, 0)
    other = next(number for number in three.node_ids if number != leader)
    api = Api(three.rest_urls[other], three.cluster_id)
    with stream(api, topic) as (connection, response):

        def write() -> None:
            for number in range(RECORDS):
                send(connection, b'{"value":{"type":"STRING","data":"%d"}}' % number)
            send(connection, b"")

        writer = threading.Thread(target=write)
        writer.start()
        response.begin()
        reports = []
        for line in response:
            reports.append(json.loads(line))
            if len(reports) == KILLED_AT:
                three.kill(leader)
        writer.join(TIMEOUT_S)

    assert [one["error_code"] for one in reports] == [200] * RECORDS
    assert [one["offset"] for one in reports] == list(range(RECORDS))
    eventually(lambda: three.leader_of(topic, 0) not in (-1, leader), "another broker leads")
    assert stored_values(three, topic, RECORDS) == [b"%d" % number for number in range(RECORDS)]


def test_partitions_that_are_led_are_written_and_read_while_another_is_not(three: Cluster) -> None:
    topic = create(three, partitions=3, replicas=1)
    leaders = {number: three.leader_of(topic, number) for number in range(3)}
    dead = leaders[0]
    apis = dict(zip(three.node_ids, three.rest_urls, strict=True))
    living = next(number for number in three.node_ids if number != dead)
    api = Api(apis[living], three.cluster_id)
    three.kill(dead)
    eventually(lambda: three.leader_of(topic, 0) < 0, "the partition has no leader")

    for number in range(1, 3):
        entry = {"partition_id": number, "value": {"type": "STRING", "data": "there"}}
        assert api.post(f"{api.v3}/topics/{topic}/records", entry)["error_code"] == 200
        found = api.get(f"{api.v3}/topics/{topic}/partitions/{number}/records")
        assert [one["value"]["data"] for one in found["data"]] == ["there"]


def stored_values(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    """Return the first `count` values of partition 0."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.partition.eof": True}
    consumer = Consumer({**settings, **QUIET})
    found: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for message in consumer.consume(count + 1, TIMEOUT_S):
            if message.error() is None:
                found.append(message.value())
    finally:
        consumer.close()
    return found
