"""Batches are stored in order and once, though connections are cut before and after the leader has them."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.embedded import Cluster as Nodes
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.node.wire.messages.produce import ProduceRequest, TopicProduceData
from ottla.pipeline.client.batch_sender import UNKNOWN_OFFSET, BatchSender
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.partition_fetcher import PartitionFetcher
from ottla.pipeline.client.topic_admin import NewTopic, create_topics
from tests.compat.batches import batch
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import alter_everywhere, make_topic, settings_for

pytestmark = pytest.mark.slow

BATCHES = 12
ROWS = 3


def values_of(number: int) -> list[bytes]:
    return [b"%d.%d" % (number, row) for row in range(ROWS)]


class Producer:
    """Sends idempotent batches of ROWS rows to one partition."""

    def __init__(self, cluster: Cluster, partition: TopicPartition) -> None:
        answer = cluster.connections.to_any().request(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        )
        self.sender = BatchSender(cluster)
        self.partition = partition
        self.pair = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
        self.sent = 0

    def send(self) -> None:
        data = batch(values_of(self.sent), base_sequence=self.sent * ROWS, **self.pair)
        self.sender.send(self.partition, data, records_count=ROWS)
        self.sent += 1


def rows_of(cluster: Cluster, partition: TopicPartition, end: int) -> list[bytes]:
    rows: list[bytes] = []
    for fetched in PartitionFetcher(cluster, with_headers=False).batches(
        OffsetRange(partition=partition, start=0, end=end)
    ):
        assert fetched.columns is not None
        assert fetched.columns.values is not None
        rows += fetched.columns.values.to_pylist()
    return rows


def test_batches_are_placed_in_order(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap, partitions=2)
    first, second = (Producer(client(Role.SINK), TopicPartition(name, index)) for index in range(2))
    second.sender = first.sender

    for _ in range(BATCHES):
        first.send()
        second.send()
    placed = first.sender.flush()

    assert [one.partition.partition for one in placed] == [0, 1] * BATCHES
    assert [one.base_offset for one in placed[::2]] == [number * ROWS for number in range(BATCHES)]
    assert first.sender.flush() == []
    expected = [value for number in range(BATCHES) for value in values_of(number)]
    for partition in (first.partition, second.partition):
        assert rows_of(client(), partition, BATCHES * ROWS) == expected


@pytest.mark.parametrize("moment", ["before it is sent", "after it is sent", "after its answer"])
@pytest.mark.parametrize("at", [0, 1, 4, 7, BATCHES - 1])
def test_a_connection_that_is_cut_costs_no_row_and_repeats_none(
    bootstrap: str, client: MakeClient, monkeypatch: pytest.MonkeyPatch, at: int, moment: str
) -> None:
    partition = TopicPartition(make_topic(bootstrap), 0)
    producer = Producer(client(Role.SINK), partition)
    send, receive = BrokerConnection.send, BrokerConnection.receive
    seen = {"sent": 0, "received": 0}

    def cut_at_send(connection: BrokerConnection, request: object, **more: Any) -> PendingRequest:
        if not isinstance(request, ProduceRequest):
            return send(connection, request, **more)
        number, seen["sent"] = seen["sent"], seen["sent"] + 1
        if (number, moment) == (at, "before it is sent"):
            connection.close()
        pending = send(connection, request, **more)
        if (number, moment) == (at, "after it is sent"):
            connection.close()
        return pending

    def cut_at_receive(connection: BrokerConnection, pending: PendingRequest) -> Any:
        answer = receive(connection, pending)
        number, seen["received"] = seen["received"], seen["received"] + (pending.api_key == 0)
        if (number, moment, pending.api_key) == (at, "after its answer", 0):
            connection.close()
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the answer is lost")
        return answer

    monkeypatch.setattr(BrokerConnection, "send", cut_at_send)
    monkeypatch.setattr(BrokerConnection, "receive", cut_at_receive)

    for _ in range(BATCHES):
        producer.send()
    placed = producer.sender.flush()

    monkeypatch.undo()
    for number, one in enumerate(placed):
        assert one.base_offset in (number * ROWS, UNKNOWN_OFFSET)
    expected = [value for number in range(BATCHES) for value in values_of(number)]
    assert rows_of(client(), partition, BATCHES * ROWS) == expected


def test_no_batch_overtakes_a_first_batch_that_is_rejected(
    bootstrap: str, client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that does not know the topic yet rejects the first batch but may know it at the next."""
    partition = TopicPartition(make_topic(bootstrap), 0)
    producer = Producer(client(Role.SINK), partition)
    send, seen = BrokerConnection.send, []

    def send_the_first_elsewhere(
        connection: BrokerConnection, request: object, **more: Any
    ) -> PendingRequest:
        if not isinstance(request, ProduceRequest):
            return send(connection, request, **more)
        seen.append(request)
        [topic] = request.topic_data
        elsewhere = TopicProduceData(name=f"{topic.name}-unheard-of", partition_data=topic.partition_data)
        to = [elsewhere] if len(seen) == 1 else [topic]
        return send(connection, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=to), **more)

    monkeypatch.setattr(BrokerConnection, "send", send_the_first_elsewhere)
    for _ in range(BATCHES):
        producer.send()
    placed = producer.sender.flush()

    assert [one.base_offset for one in placed] == [number * ROWS for number in range(BATCHES)]


@pytest.mark.parametrize("kill_at", [1, 5, 9])
def test_a_leader_that_dies_costs_no_row_and_repeats_none(
    ottla_cluster_factory: Callable[..., Nodes], kill_at: int
) -> None:
    nodes = ottla_cluster_factory(nodes=3)
    partition = TopicPartition(make_topic(nodes.bootstrap, replicas=3), 0)
    cluster = Cluster(settings_for(nodes.bootstrap, Role.SINK))
    producer = Producer(cluster, partition)

    for number in range(BATCHES):
        if number == kill_at:
            nodes.kill(cluster.leader(partition).node_id)
        producer.send()
    producer.sender.flush()

    expected = [value for number in range(BATCHES) for value in values_of(number)]
    assert rows_of(cluster, partition, BATCHES * ROWS) == expected
    cluster.close()


def test_a_batch_that_is_too_large_is_rejected_with_the_limit(bootstrap: str, client: MakeClient) -> None:
    partition = TopicPartition(make_topic(bootstrap), 0)
    of_client = Producer(client(Role.SINK), partition)
    of_topic = Producer(client(Role.SINK, max_request_size="9000000"), partition)
    large = batch([bytes(3_000_000)], base_sequence=0, **of_topic.pair)

    with pytest.raises(
        KafkaError, match=r"a batch of 300\d+ bytes for .* is larger than kafka.max.request.size"
    ):
        of_client.sender.send(partition, large, records_count=1)
    of_topic.sender.send(partition, large, records_count=1)
    with pytest.raises(KafkaError, match=r"is larger than the topic's max.message.bytes"):
        of_topic.sender.flush()


def test_a_gap_of_our_own_making_fails_at_once(bootstrap: str, client: MakeClient) -> None:
    producer = Producer(client(Role.SINK), TopicPartition(make_topic(bootstrap), 0))
    producer.send()
    producer.sent = 2
    producer.send()

    with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        producer.sender.flush()


def test_a_topic_that_is_gone_is_an_error(client: MakeClient) -> None:
    producer = Producer(client(Role.SINK), TopicPartition("nowhere", 0))

    with pytest.raises(TopicGone):
        producer.send()


def test_batches_behind_a_rejected_one_come_too_early_and_are_sent_again(
    bootstrap: str, client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = TopicPartition(make_topic(bootstrap), 0)
    producer = Producer(client(Role.SINK), partition)
    request, rejected = producer.sender._request, []

    def damage_the_second(sent: Any) -> ProduceRequest:
        if sent.number != 1 or rejected:
            return request(sent)
        rejected.append(sent)
        whole, sent.data = (
            sent.data,
            sent.data[:-1] + b"\xff",
        )  # the CRC does not match: retriable, and not stored
        try:
            return request(sent)
        finally:
            sent.data = whole

    monkeypatch.setattr(producer.sender, "_request", damage_the_second)
    for _ in range(4):
        producer.send()

    assert [one.base_offset for one in producer.sender.flush()] == [0, 3, 6, 9]
    expected = [value for number in range(4) for value in values_of(number)]
    assert rows_of(client(), partition, 4 * ROWS) == expected


@pytest.mark.parametrize("limit", ["max.message.bytes", "segment.bytes"])
def test_batches_rejected_as_too_large_are_sent_in_halves_and_in_order(
    client: MakeClient, limit: str
) -> None:
    cluster = client(Role.SINK)
    partition = TopicPartition(f"t-{uuid4().hex}", 0)
    configs = {limit: "2000000" if limit == "segment.bytes" else "1000", "max.message.bytes": "9000000"}
    size = 600_000
    if limit == "max.message.bytes":
        configs, size = {limit: "1000"}, 300
    made = create_topics(
        cluster, [NewTopic(name=partition.topic, partitions_count=1, replication_factor=1, configs=configs)]
    )
    assert made == {partition.topic: None}
    producer = Producer(client(Role.SINK, max_request_size="9000000"), partition)
    values = [[b"%d" % row * size for row in range(count)] for count in (7, 1, 4)]
    sequence = 0
    for one in values:
        data = batch(one, base_sequence=sequence, **producer.pair)
        producer.sender.send(partition, data, records_count=len(one))
        sequence += len(one)

    placed = producer.sender.flush()

    assert [(one.base_offset, one.records_count) for one in placed] == [(0, 7), (7, 1), (8, 4)]
    assert rows_of(client(), partition, 12) == [value for one in values for value in one]


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_batch_that_is_too_large_after_a_lost_answer_is_there_once(
    bootstrap: str, client: MakeClient, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Java's producer takes the gap in the sequence for lost records, and stores the rows again."""
    partition = TopicPartition(make_topic(bootstrap), 0)
    producer = Producer(client(Role.SINK), partition)
    send, receive = BrokerConnection.send, BrokerConnection.receive
    waiting = [lost]

    def lose() -> None:
        alter_everywhere(bootstrap, partition.topic, {"max.message.bytes": "1000"})
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "it is lost")

    def lossy_send(connection: BrokerConnection, request: object, **more: Any) -> PendingRequest:
        if isinstance(request, ProduceRequest) and waiting == ["request"]:
            waiting.clear()
            connection.close()
            lose()
        return send(connection, request, **more)

    def lossy_receive(connection: BrokerConnection, pending: PendingRequest) -> Any:
        answer = receive(connection, pending)
        if pending.api_key == 0 and waiting == ["answer"]:
            waiting.clear()
            connection.close()
            lose()
        return answer

    monkeypatch.setattr(BrokerConnection, "send", lossy_send)
    monkeypatch.setattr(BrokerConnection, "receive", lossy_receive)
    values = [[b"%d.%d" % (number, row) * 100 for row in range(6)] for number in range(2)]
    for number, rows in enumerate(values):
        data = batch(rows, base_sequence=number * 6, **producer.pair)
        producer.sender.send(partition, data, records_count=6)

    placed = producer.sender.flush()

    monkeypatch.undo()
    assert waiting == []
    assert rows_of(client(), partition, 12) == [value for rows in values for value in rows]
    assert placed[0].base_offset == (0 if lost == "request" else UNKNOWN_OFFSET)
