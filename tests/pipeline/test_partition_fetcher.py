"""Ranges of a partition: every row once, for any size of fetches and any leader."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.embedded import Cluster as Nodes
from ottla.node.wire.messages.fetch import FetchResponse, PartitionData
from ottla.pipeline.client import partition_fetcher
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.list_offsets import LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.partition_fetcher import OutOfRange, PartitionFetcher, TopicReplaced
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import TIMEOUT_S, fill, make_topic, settings_for

pytestmark = pytest.mark.slow

VALUES = [b"%d" % index for index in range(1_000)]


def read(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, **more: Any
) -> list[tuple[int, bytes]]:
    """Return offsets and values of the range."""
    rows: list[tuple[int, bytes]] = []
    fetcher = PartitionFetcher(cluster, with_headers=False)
    for fetched in fetcher.batches(OffsetRange(partition=partition, start=start, end=end, **more)):
        columns = fetched.columns
        assert columns is not None
        assert columns.values is not None
        rows += zip(columns.offsets.tolist(), columns.values.to_pylist(), strict=True)
    return rows


@pytest.fixture
def filled(bootstrap: str) -> TopicPartition:
    """Make a topic with VALUES in many batches."""
    name = make_topic(bootstrap)
    for start in range(0, len(VALUES), 100):
        fill(bootstrap, name, VALUES[start : start + 100])
    return TopicPartition(name, 0)


@pytest.mark.parametrize("most", ["1", "2000", "8388608"])
@pytest.mark.parametrize(("start", "end"), [(0, 1000), (7, 993), (500, 501), (0, 0), (1000, 1000)])
def test_a_range_is_read_whatever_the_size_of_a_fetch(
    client: MakeClient, filled: TopicPartition, start: int, end: int, most: str
) -> None:
    rows = read(client(max_partition_fetch_bytes=most), filled, start, end)

    assert rows == list(enumerate(VALUES))[start:end]


def test_a_reader_that_is_over_its_quota_waits_and_reads_on(
    client: MakeClient, filled: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache Kafka's answer is without a partition, and it reads the client's next request later."""
    cluster = client(max_partition_fetch_bytes="2000")
    receive, throttled = BrokerConnection.receive, []

    def receive_every_second_one(connection: BrokerConnection, pending: PendingRequest) -> Any:
        answer = receive(connection, pending)
        if isinstance(answer, FetchResponse) and len(throttled) % 2 == 0:
            answer = FetchResponse(throttle_time_ms=7)
        if isinstance(answer, FetchResponse):
            throttled.append(not answer.responses)
        return answer

    monkeypatch.setattr(BrokerConnection, "receive", receive_every_second_one)

    assert read(cluster, filled, 0, 1000) == list(enumerate(VALUES))
    assert throttled.count(True) > 2


def test_records_that_were_fetched_but_not_opened_are_fetched_again(
    client: MakeClient, filled: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next fetch is under way by then, and begins after the records that were not opened."""
    opens_less = partial(partition_fetcher.open_fetched, max_opened_records=30)
    monkeypatch.setattr(partition_fetcher, "open_fetched", opens_less)

    assert read(client(max_partition_fetch_bytes="2000"), filled, 0, 1000) == list(enumerate(VALUES))


def test_ranges_follow_each_other_on_one_connection(
    client: MakeClient, filled: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = client(max_partition_fetch_bytes="2000")
    made = []
    connect = BrokerConnection.connect
    monkeypatch.setattr(BrokerConnection, "connect", lambda *args: made.append(args) or connect(*args))

    for start in range(0, 1000, 250):
        assert read(cluster, filled, start, start + 250) == list(enumerate(VALUES))[start : start + 250]

    assert len(made) <= 2  # one for control, one for rows: no range fetches into the next


def test_a_range_that_is_abandoned_leaves_no_answer_behind(
    client: MakeClient, filled: TopicPartition
) -> None:
    cluster = client(max_partition_fetch_bytes="2000")
    fetcher = PartitionFetcher(cluster, with_headers=False)

    begun = fetcher.batches(OffsetRange(partition=filled, start=0, end=1000))
    next(begun)
    begun.close()

    assert read(cluster, filled, 0, 1000) == list(enumerate(VALUES))


def test_connections_that_are_cut_between_fetches_lose_no_row(
    client: MakeClient, filled: TopicPartition
) -> None:
    cluster = client(max_partition_fetch_bytes="2000")
    fetcher = PartitionFetcher(cluster, with_headers=False)
    offsets: list[int] = []

    for fetched in fetcher.batches(OffsetRange(partition=filled, start=0, end=1000)):
        assert fetched.columns is not None
        offsets += fetched.columns.offsets.tolist()
        leader = cluster.leader(filled)
        cluster.connections.to(leader.node_id, Purpose.FETCH).close()

    assert offsets == list(range(1000))


def test_a_leader_that_dies_is_followed_by_the_next(ottla_cluster_factory: Callable[..., Nodes]) -> None:
    nodes = ottla_cluster_factory(nodes=3)
    partition = TopicPartition(make_topic(nodes.bootstrap, replicas=3), 0)
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "batch.size": 2_000})
    for value in VALUES:
        producer.produce(partition.topic, value=value)
    assert producer.flush(TIMEOUT_S) == 0
    cluster = Cluster(settings_for(nodes.bootstrap, max_partition_fetch_bytes="2000"))
    fetcher = PartitionFetcher(cluster, with_headers=False)
    offsets: list[int] = []

    for fetched in fetcher.batches(OffsetRange(partition=partition, start=0, end=len(VALUES))):
        assert fetched.columns is not None
        if not offsets:
            nodes.kill(cluster.leader(partition).node_id)
        offsets += fetched.columns.offsets.tolist()

    assert offsets == list(range(len(VALUES)))
    cluster.close()


def test_a_range_ends_where_only_markers_are(bootstrap: str, client: MakeClient) -> None:
    """A reader that waits for the record before the end would wait there for ever."""
    name = make_topic(bootstrap)
    partition = TopicPartition(name, 0)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid4().hex})
    producer.init_transactions(TIMEOUT_S)
    for is_committed in (True, False):
        producer.begin_transaction()
        producer.produce(name, value=b"yes" if is_committed else b"no")
        assert producer.flush(TIMEOUT_S) == 0
        (producer.commit_transaction if is_committed else producer.abort_transaction)(TIMEOUT_S)
    committed = client(isolation_level="read_committed")
    while list_offsets(committed, {partition: LATEST})[partition] < 4:
        time.sleep(0.01)

    assert read(committed, partition, 0, 4) == [(0, b"yes")]
    assert read(committed, partition, 1, 2) == []
    assert read(client(), partition, 0, 4) == [(0, b"yes"), (2, b"no")]


def test_offsets_out_of_range_are_reported_with_the_range(client: MakeClient, filled: TopicPartition) -> None:
    with pytest.raises(OutOfRange, match=f"{filled} has offsets 0 to 1000, but not 1001"):
        read(client(), filled, 1001, 1002)


def test_waiting_for_missing_rows_times_out(client: MakeClient, filled: TopicPartition) -> None:
    cluster = client(default_api_timeout_ms="50", fetch_max_wait_ms="1")

    with pytest.raises(
        KafkaError, match="returns nothing from offset 1000 on, although offsets up to 1001 were expected"
    ) as failed:
        read(cluster, filled, 1000, 1001)

    assert failed.value.code is ErrorCode.OFFSET_NOT_AVAILABLE


@pytest.mark.parametrize("first_offset", [1000, 990])
def test_offsets_without_rows_at_the_end_of_a_log_are_skipped(
    client: MakeClient, filled: TopicPartition, monkeypatch: pytest.MonkeyPatch, first_offset: int
) -> None:
    """Compaction leaves such offsets.

    Responses are also empty while rows are still read from remote storage: the fetcher asks again.
    """
    real, empty = PartitionFetcher._partition_answer, []

    def compacted(self: PartitionFetcher, split: OffsetRange) -> PartitionData:
        assert self._in_flight is not None
        position = self._in_flight.position
        answer = real(self, split)
        if 950 <= position < first_offset and len(empty) < 5:
            empty.append(position)
            answer.records = b""
        return answer

    monkeypatch.setattr(PartitionFetcher, "_partition_answer", compacted)

    rows = read(client(), filled, 950, 990)

    if first_offset == 1000:
        assert (rows, empty) == ([], [950, 999])
    else:
        assert rows == [(index, VALUES[index]) for index in range(950, 990)]


def test_a_topic_that_is_created_again_is_another_one(
    bootstrap: str, client: MakeClient, filled: TopicPartition
) -> None:
    cluster = client()
    topic_id = cluster.topic(filled.topic).topic_id
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_topics([filled.topic]).values():
        deleted.result(TIMEOUT_S)

    with pytest.raises(TopicGone):
        read(cluster, filled, 0, 1, topic_id=topic_id)
    make_topic(bootstrap, name=filled.topic)
    with pytest.raises(TopicReplaced, match="was deleted and created again"):
        read(cluster, filled, 0, 1, topic_id=topic_id)
