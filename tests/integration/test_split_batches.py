"""Batches that a topic rejects as too large: the limit was lowered while a producer was at work."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import Record, iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import producer as producer_module
from ottla.node.client import topic_admin
from ottla.node.client.cluster_client import Client, parse_bootstrap
from ottla.node.client.consumer import fetch_once, records_in
from ottla.node.client.deadline import Deadline
from ottla.node.client.producer import Producer, ProducerRecord
from ottla.node.client.record_sender import RecordSender
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.produce import ProduceRequest
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded

pytestmark = pytest.mark.slow

LIMIT = 5_000
NAMES = (f"split-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    directory: Path = tmp_path_factory.mktemp("split")
    running = start_embedded(directory, num_partitions=2)
    yield running
    running.stop()


class Loss:
    """A fault that loses the next ProduceRequest or its response, and then lowers the topic's limit."""

    def __init__(self) -> None:
        self.part = ""  # that the next exchange loses: "request" or "answer"
        self.after_loss: Callable[[], Awaitable[None]]

    def lost_part(self, message: object) -> str:
        """Return the part of this exchange that is lost, or an empty text."""
        if not isinstance(message, ProduceRequest):
            return ""
        lost, self.part = self.part, ""
        return lost


@pytest.fixture
def loss(monkeypatch: pytest.MonkeyPatch) -> Loss:
    made, real = Loss(), PeerClient.request

    async def request(self: PeerClient, message: Any, *others: Any, **more: Any) -> Any:
        lost = made.lost_part(message)
        answer = None if lost == "request" else await real(self, message, *others, **more)
        if lost:
            await made.after_loss()
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was lost")
        return answer

    monkeypatch.setattr(PeerClient, "request", request)
    return made


def client_of(broker: EmbeddedBroker) -> Client:
    return Client(parse_bootstrap(broker.bootstrap), timeout_s=30)


async def set_limit(client: Client, topic: str, limit: int) -> None:
    await topic_admin.alter_configs(
        client,
        topic_admin.config_of_topic(topic),
        settings={"max.message.bytes": str(limit)},
        resets=[],
        only_check=False,
    )


async def stored(client: Client, topic: str) -> dict[int, tuple[list[str], list[int], list[int]]]:
    """Return the values of each partition, and the size and first sequence number of each of its batches."""
    found: dict[int, tuple[list[str], list[int], list[int]]] = {}
    for number, leader in (await client.topic_as_it_is(topic)).leaders.items():
        values, sizes, sequences = found.setdefault(number, ([], [], []))
        while True:
            place = TopicPartition(topic, number)
            fetched = await fetch_once(client, leader, {place: len(values)}, wait_ms=0)
            view = records_in(fetched[place])
            if not view:
                break
            for position, header in iterate_headers(view):
                records: list[Record] = list(iterate_records(view[position : position + header.size_bytes]))
                values += [(record.value or b"").decode() for record in records]
                sizes.append(header.size_bytes)
                sequences.append(header.base_sequence)
    return found


Log = dict[int, tuple[list[str], list[int], list[int]]]


def produce(
    broker: EmbeddedBroker, loss: Loss, part: str = "", topic: str = "", **options: Any
) -> tuple[int, Log]:
    """Produce 100 records to each of two partitions, and return the number acknowledged and the log.

    The limit is lowered before, or when the first request or response is lost.
    """
    topic = topic or next(NAMES)

    async def run() -> tuple[int, Log]:
        async with client_of(broker) as client:
            producer = Producer(client, topic, **options)
            await producer.start(may_create=True)
            for number in range(200):
                value = value_of(number).encode()
                producer.add(ProducerRecord(None, value, (("a", b"b"),), number % 2, 1_700_000_000_000))
            loss.part, loss.after_loss = part, partial(set_limit, client, topic, LIMIT)
            if not part:
                await loss.after_loss()
            await producer.flush()
            for number in range(200, 210):
                producer.add(ProducerRecord(None, str(number).encode(), (), number % 2))
            await producer.flush()
            return producer.acknowledged, await stored(client, topic)

    return asyncio.run(run())


def value_of(number: int) -> str:
    """Return 100 characters that compression reduces to 50 bytes at best."""
    return random.Random(number).randbytes(50).hex()


def expected(partition: int) -> list[str]:
    return [value_of(number) for number in range(partition, 200, 2)] + [
        str(number) for number in range(200 + partition, 210, 2)
    ]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_that_is_rejected_as_too_large_is_split_and_keeps_its_order(
    broker: EmbeddedBroker, loss: Loss, compression: Compression, idempotent: bool
) -> None:
    acknowledged, log = produce(broker, loss, compression=compression, idempotent=idempotent)

    assert acknowledged == 210
    for partition, (values, sizes, sequences) in log.items():
        assert values == expected(partition)
        assert len(sizes) > 3 and max(sizes) <= LIMIT
        if idempotent:  # as Java's: parts keep the sequence numbers of the whole batch
            assert sequences == sorted(sequences) and (sequences[0], sequences[-1]) == (0, 100)
        else:
            assert set(sequences) == {-1}


@pytest.mark.parametrize("part", ["request", "answer"])
def test_a_batch_that_became_too_large_after_its_request_or_answer_was_lost_is_stored_once(
    broker: EmbeddedBroker, loss: Loss, part: str
) -> None:
    """Java's producer takes the gap that the leader sees for a lost log, and stores the records twice."""
    acknowledged, log = produce(broker, loss, part)

    assert acknowledged == 210
    assert {partition: values for partition, (values, _, _) in log.items()} == {
        0: expected(0),
        1: expected(1),
    }
    # Batches that the log had were not sent again; the others were split.
    assert [len(sizes) > 3 for _, sizes, _ in log.values()] == [part == "request"] * 2


def test_a_producer_that_cannot_ask_the_leader_fails_and_stores_nothing_twice(
    broker: EmbeddedBroker, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        return None

    async def log() -> Log:
        async with client_of(broker) as client:
            return await stored(client, topic)

    monkeypatch.setattr(producer_module, "is_stored", refused)
    topic = next(NAMES)

    with pytest.raises(KafkaError) as failed:
        produce(broker, loss, "answer", topic)

    assert failed.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    values = [value for written, _, _ in asyncio.run(log()).values() for value in written]
    assert values and len(set(values)) == len(values)


def test_a_record_that_is_too_large_by_itself_is_rejected(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        topic = next(NAMES)
        async with client_of(broker) as client:
            producer = Producer(client, topic)
            await producer.start(may_create=True)
            producer.add(ProducerRecord(None, b"a", (), 0))
            producer.add(ProducerRecord(None, b"b" * LIMIT, (), 0))
            await set_limit(client, topic, LIMIT)
            try:
                await producer.flush()
            finally:
                assert (producer.acknowledged, (await stored(client, topic))[0][0]) == (1, ["a"])

    with pytest.raises(KafkaError) as failed:
        asyncio.run(run())

    assert failed.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("part", ["request", "answer"])
def test_records_of_the_rest_api_are_stored_once_after_a_lost_request_or_answer(
    broker: EmbeddedBroker, loss: Loss, part: str
) -> None:
    async def run() -> tuple[list[int | KafkaError], Log]:
        topic, deadline = next(NAMES), Deadline.after(30)
        async with client_of(broker) as client:
            await client.topic(topic, may_create=True)
            sender = RecordSender(client_of(broker))
            running = asyncio.ensure_future(sender.run())
            info = await sender.topic(topic, deadline)
            loss.part, loss.after_loss = part, partial(set_limit, client, topic, LIMIT)
            records = [ProducerRecord(None, f"{number:>100}".encode(), (), 0) for number in range(100)]
            deliveries = [sender.add(info, record, deadline) for record in records]
            await deliveries[-1].batch.done.wait()
            running.cancel()
            return [one.outcome for one in deliveries], await stored(client, topic)

    outcomes, log = asyncio.run(run())

    assert log[0][0] == [f"{number:>100}" for number in range(100)]
    # For a duplicate, the leader returns no offset.
    assert outcomes == ([-1] * 100 if part == "answer" else list(range(100)))
