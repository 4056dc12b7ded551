"""A leader that only its client can reach: it returns the metadata that it has, but accepts no writes."""

import signal
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode
from tests.compat.batches import batch, read_headers
from tests.compat.wire_client import WireClient, only
from tests.integration.cluster.conftest import MakeCluster, eventually
from tests.integration.cluster.test_cluster import create
from tests.integration.cluster.test_failures import leader_of

pytestmark = pytest.mark.slow
TIMEOUT_S = 60.0


def metadata(client: WireClient, topic: str) -> tuple[list[int], int, int, int]:
    """Return the brokers, and the error, leader and leader epoch of the only partition."""
    answer = client.call("metadata", 12, topics=[{"name": topic}])
    found = only(only(answer.topics).partitions)
    brokers = sorted(one.node_id for one in answer.brokers)
    return brokers, found.error_code, found.leader_id, found.leader_epoch


def produce(client: WireClient, topic: str, acks: int) -> int:
    wanted = {"name": topic, "partition_data": [{"index": 0, "records": batch()}]}
    answer = client.call("produce", 9, acks=acks, timeout_ms=500, topic_data=[wanted])
    return int(only(only(answer.responses).partition_responses).error_code)


def fetch(client: WireClient, topic: str) -> Any:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [wanted]}]
    answer = client.call("fetch", 11, max_wait_ms=0, min_bytes=0, topics=topics)
    return only(only(answer.responses).partitions)


def test_an_isolated_leader_rejects_writes_after_its_session_and_answers_the_rest_as_apache_kafka(
    make_cluster: MakeCluster,
) -> None:
    """Apache Kafka 4.3.1 answers likewise after 100 s, except that it acknowledges writes with acks=1."""
    cluster = make_cluster(3, "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
    cluster.start(0, 1, 2)
    topic = create(cluster, by=0, min_insync_replicas="2")
    eventually(lambda: leader_of(cluster, topic) >= 0, "all nodes know the new topic")
    leader = leader_of(cluster, topic)
    others = [one for one in (0, 1, 2) if one != leader]

    with WireClient(cluster.nodes[leader].bootstrap) as client:
        eventually(
            lambda: produce(client, topic, acks=-1) == ErrorCode.NONE, "the leader knows the new topic"
        )
        before, committed = metadata(client, topic), fetch(client, topic).high_watermark
        for other in others:
            cluster.signal(other, signal.SIGSTOP)
        try:
            eventually(
                lambda: produce(client, topic, acks=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER,
                "the isolated leader rejects writes",
                TIMEOUT_S,
            )
            refused = produce(client, topic, acks=-1)
            after, found = metadata(client, topic), fetch(client, topic)
        finally:
            for other in others:
                cluster.signal(other, signal.SIGCONT)
        assert before == ([0, 1, 2], ErrorCode.NONE, leader, before[3]) == after
        assert refused == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # The record that it accepted with acks=1 earlier is above the high watermark.
        assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, committed)
        assert len(read_headers(found.records)) == committed

    def takes_writes() -> bool:
        with WireClient(cluster.nodes[leader_of(cluster, topic)].bootstrap) as again:
            return produce(again, topic, acks=-1) == ErrorCode.NONE

    eventually(takes_writes, "a replica leads again", TIMEOUT_S)
