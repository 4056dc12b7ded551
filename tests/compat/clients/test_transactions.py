"""Transactions of unmodified Python libraries: committed, aborted, fenced, with offsets of a group."""

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

with warnings.catch_warnings():  # it reads its schemas with a function that Python 3.11 deprecates
    warnings.simplefilter("ignore")
    import kafka
    import kafka.errors

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
WAIT_S = 60


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[str]:
    name = f"transactions-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(WAIT_S)
    yield name
    admin.delete_topics([name])[name].result(WAIT_S)


def seen(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes]:
    """Return all records up to the end of both partitions, at least `count`, as librdkafka reads them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": uuid4().hex, "isolation.level": isolation}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])
    found: list[bytes] = []
    ends: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while (len(ends) < 2 or len(found) < count) and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                found.append(message.value())
                ends.discard(message.partition())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ends.add(message.partition())
    consumer.close()
    return sorted(found)


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0)], WAIT_S)[0].offset
    consumer.close()
    return int(found)


def assert_only_what_was_committed_is_seen(
    bootstrap: str, topic: str, committed: list[bytes], aborted: list[bytes]
) -> None:
    assert seen(bootstrap, topic, "read_uncommitted", len(committed + aborted)) == sorted(committed + aborted)
    assert seen(bootstrap, topic, "read_committed", len(committed)) == sorted(committed)


# ---- librdkafka --------------------------------------------------------------------------------------------


def librdkafka(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **settings})
    producer.init_transactions(WAIT_S)
    return producer


def test_librdkafka_commits_and_aborts_with_offsets(bootstrap: str, topic: str) -> None:
    producer = librdkafka(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-{topic}"})
    for number, ends in enumerate((producer.commit_transaction, producer.abort_transaction) * 3):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"%d-%d" % (number, partition), partition=partition)
        offsets = [TopicPartition(topic, 0, 100 + number)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        if number % 2:
            producer.flush(WAIT_S)  # the aborted records have reached the log
        ends(WAIT_S)
    consumer.close()

    committed = [b"%d-%d" % (number, partition) for number in (0, 2, 4) for partition in range(2)]
    aborted = [b"%d-%d" % (number, partition) for number in (1, 3, 5) for partition in range(2)]
    assert_only_what_was_committed_is_seen(bootstrap, topic, committed, aborted)
    assert committed_offset(bootstrap, f"group-{topic}", topic) == 104


def test_librdkafka_is_fenced_by_its_successor(bootstrap: str, topic: str) -> None:
    old = librdkafka(bootstrap, topic)
    old.begin_transaction()
    old.produce(topic, b"of the old one", partition=0)
    old.flush(WAIT_S)
    new = librdkafka(bootstrap, topic)
    new.begin_transaction()
    new.produce(topic, b"of the new one", partition=0)

    with pytest.raises(KafkaException) as raised:
        old.commit_transaction(WAIT_S)

    assert raised.value.args[0].code() == KafkaError._FENCED and raised.value.args[0].fatal()
    new.commit_transaction(WAIT_S)
    assert_only_what_was_committed_is_seen(bootstrap, topic, [b"of the new one"], [b"of the old one"])


def test_librdkafka_goes_on_after_a_purge(bootstrap: str, topic: str) -> None:
    """librdkafka gives up the records in flight, and so bumps its epoch before the next transaction.

    If some had arrived and the others had not been sent yet, it knows of none in flight. The next transaction
    then fails because of the gap, with Apache Kafka too, and the epoch is bumped after that transaction.
    """
    producer = librdkafka(bootstrap, topic)
    producer.begin_transaction()
    for number in range(1_000):
        producer.produce(topic, b"given up %d" % number, partition=number % 2)
    producer.purge()
    producer.abort_transaction(WAIT_S)
    if not commits(producer, topic, b"after it"):
        producer.abort_transaction(WAIT_S)
        assert commits(producer, topic, b"after it")

    assert seen(bootstrap, topic, "read_committed", 1) == [b"after it"]


def commits(producer: Producer, topic: str, value: bytes) -> bool:
    """Return True if a transaction of one record can be committed.

    If it cannot, it must be possible to abort it.
    """
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    try:
        producer.commit_transaction(WAIT_S)
    except KafkaException as failed:
        assert failed.args[0].txn_requires_abort(), failed
        return False
    return True


# ---- aiokafka ----------------------------------------------------------------------------------------------


def test_aiokafka_commits_aborts_and_is_fenced(bootstrap: str, topic: str) -> None:
    async def run() -> list[bytes]:
        old = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await old.start()
        async with old.transaction():
            await old.send_and_wait(topic, b"committed", partition=0)
            offsets = {AioTopicPartition(topic, 0): 7}
            await old.send_offsets_to_transaction(offsets, f"group-{topic}")
        with pytest.raises(LookupError):
            async with old.transaction():
                await old.send_and_wait(topic, b"aborted", partition=0)
                await old.send_and_wait(topic, b"aborted", partition=1)
                raise LookupError
        await old.begin_transaction()
        await old.send_and_wait(topic, b"fenced", partition=1)
        new = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await new.start()
        async with new.transaction():
            await new.send_and_wait(topic, b"of the new one", partition=1)
        with pytest.raises(ProducerFenced):
            await old.commit_transaction()
        await new.stop()
        await old.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        found: list[bytes] = []
        while len(found) < 2:
            for messages in (await consumer.getmany(timeout_ms=100)).values():
                found += [message.value for message in messages]
        await consumer.stop()
        return sorted(found)

    found = asyncio.run(asyncio.wait_for(run(), WAIT_S))

    committed = [b"committed", b"of the new one"]
    assert found == committed
    assert_only_what_was_committed_is_seen(bootstrap, topic, committed, [b"aborted", b"aborted", b"fenced"])
    assert committed_offset(bootstrap, f"group-{topic}", topic) == 7


# ---- kafka-python ------------------------------------------------------------------------------------------


def test_kafka_python_commits_aborts_and_is_fenced(bootstrap: str, topic: str) -> None:
    old, new = (kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) for _ in range(2))

    def send(producer: kafka.KafkaProducer, value: bytes, partition: int) -> None:
        producer.send(topic, value, partition=partition).get(WAIT_S)

    old.init_transactions()
    old.begin_transaction()
    send(old, b"committed", 0)
    group = kafka.structs.ConsumerGroupMetadata(f"group-{topic}", -1, "", None)
    old.send_offsets_to_transaction(
        {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(7, "", -1)}, group
    )
    old.commit_transaction()
    old.begin_transaction()
    send(old, b"aborted", 0)
    send(old, b"aborted", 1)
    old.abort_transaction()
    old.begin_transaction()
    send(old, b"fenced", 1)
    new.init_transactions()
    new.begin_transaction()
    send(new, b"of the new one", 1)
    new.commit_transaction()

    assert is_fenced(old.commit_transaction)
    for producer in (old, new):
        producer.close(timeout=1)
    committed, aborted = [b"committed", b"of the new one"], [b"aborted", b"aborted", b"fenced"]
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    assert sorted(next(consumer).value for _ in committed) == committed
    consumer.close()
    assert_only_what_was_committed_is_seen(bootstrap, topic, committed, aborted)
    assert committed_offset(bootstrap, f"group-{topic}", topic) == 7


def is_fenced(act: Callable[[], object]) -> bool:
    try:
        act()
    except (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError):
        return True
    return False
