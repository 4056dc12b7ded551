"""confluent-kafka (librdkafka), unmodified, as a client of a node.

Groups of several members are in tests/compat/test_groups_of_every_client.py.
"""

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

WAIT_S = 60
RECORDS = 300


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[str]:
    name = f"confluent-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(WAIT_S)
    yield name
    admin.delete_topics([name])[name].result(WAIT_S)


def produce(bootstrap: str, topic: str, count: int = RECORDS, **settings: object) -> list[Message]:
    """Produce numbered records of 17 keys, wait for all, and return the delivered messages."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    delivered: list[Message] = []
    failed: list[KafkaError] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            delivered.append(message)

    for number in range(count):
        key, value = f"key-{number % 17}", f"value-{number}-" + "x" * 50
        producer.produce(
            topic, value, key, headers=[("number", str(number)), ("null", None)], on_delivery=report
        )
    assert producer.flush(WAIT_S) == 0
    assert not failed
    return delivered


def consume(bootstrap: str, topic: str, count: int, group: str = "", **settings: object) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or f"group-{uuid4().hex[:8]}",
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None
            found.append(message)
    consumer.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_whole_and_in_order_per_key(bootstrap: str, topic: str, compression: str) -> None:
    produce(bootstrap, topic, **{"compression.type": compression})

    found = consume(bootstrap, topic, RECORDS)

    assert len(found) == RECORDS
    by_key: dict[bytes, list[int]] = {}
    for message in found:
        headers = dict(message.headers() or [])
        assert headers["null"] is None
        by_key.setdefault(message.key(), []).append(int(headers["number"]))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert sorted(number for numbers in by_key.values() for number in numbers) == list(range(RECORDS))


@pytest.mark.slow
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(bootstrap: str, topic: str, acks: str) -> None:
    produce(bootstrap, topic, acks=acks)

    assert len(consume(bootstrap, topic, RECORDS)) == RECORDS


@pytest.mark.slow
def test_an_idempotent_producer_sends_each_record_once(bootstrap: str, topic: str) -> None:
    delivered = produce(bootstrap, topic, **{"enable.idempotence": True, "batch.num.messages": 7})

    assert len({(message.partition(), message.offset()) for message in delivered}) == RECORDS
    assert len(consume(bootstrap, topic, RECORDS)) == RECORDS


@pytest.mark.slow
@pytest.mark.parametrize("subscription", ["names", "expression"])
def test_members_of_the_consumer_protocol_share_partitions_and_none_is_stopped(
    bootstrap: str, topic: str, subscription: str
) -> None:
    """KIP-848: the first member keeps the partitions of its target assignment, and gives up only the rest."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"group-{uuid4().hex[:8]}",
        "group.protocol": "consumer",
    }
    members = [Consumer(settings), Consumer(settings)]
    lost: list[TopicPartition] = []
    wanted = [topic] if subscription == "names" else [f"^{topic}$"]

    def poll_until(shares: list[int], alive: list[Consumer]) -> bool:
        deadline = time.monotonic() + 3 * WAIT_S  # heartbeats are sent every 5 s
        while time.monotonic() < deadline:
            for member in alive:
                member.poll(0.05)
            if sorted(len(member.assignment()) for member in alive) == shares:
                return True
        return False

    members[0].subscribe(wanted, on_revoke=lambda _, partitions: lost.extend(partitions))
    assert poll_until([3], members[:1])
    members[1].subscribe(wanted)
    assert poll_until([1, 2], members)
    assert len(lost) == 3 - len(members[0].assignment())
    members[0].close()
    assert poll_until([3], members[1:])
    members[1].close()


@pytest.mark.slow
def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str, admin: AdminClient) -> None:
    group = f"group-{uuid4().hex[:8]}"
    produce(bootstrap, topic, 50)
    assert len(consume(bootstrap, topic, 50, group)) == 50
    produce(bootstrap, topic, 20)

    found = consume(bootstrap, topic, 20, group)

    assert len(found) == 20
    wanted = [ConsumerGroupTopicPartitions(group)]
    committed = admin.list_consumer_group_offsets(wanted)[group].result(WAIT_S).topic_partitions
    assert sum(one.offset for one in committed) == 70
    listed = admin.list_consumer_groups().result(WAIT_S).valid
    assert group in {one.group_id for one in listed}
    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    assert described.state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(WAIT_S)


@pytest.mark.slow
def test_a_static_member_stays_in_its_group_until_it_comes_back(
    bootstrap: str, topic: str, admin: AdminClient
) -> None:
    group, settings = f"group-{uuid4().hex[:8]}", {"group.instance.id": "one", "session.timeout.ms": 30_000}
    produce(bootstrap, topic, 10)

    first = consume(bootstrap, topic, 10, group, **settings)
    meanwhile = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    produce(bootstrap, topic, 5)
    second = consume(bootstrap, topic, 5, group, **settings)

    assert (len(first), len(second)) == (10, 5)
    assert meanwhile.state.name == "STABLE"
    [member] = meanwhile.members
    assert member.group_instance_id == "one" and len(member.assignment.topic_partitions) == 3


def test_topics_are_created_described_grown_and_deleted(admin: AdminClient) -> None:
    name = f"confluent-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "60000"})])[name].result(WAIT_S)

    with pytest.raises(KafkaException) as rejected:
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(WAIT_S)
    admin.create_partitions([NewPartitions(name, 4)])[name].result(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while len(admin.list_topics(name).topics[name].partitions) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)

    assert rejected.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert len(admin.list_topics(name).topics[name].partitions) == 4
    admin.delete_topics([name])[name].result(WAIT_S)
    while name in admin.list_topics().topics and time.monotonic() < deadline:
        time.sleep(0.05)
    assert name not in admin.list_topics().topics


def test_configurations_are_described_and_altered(admin: AdminClient, topic: str) -> None:
    def value(name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return str(admin.describe_configs([resource])[resource].result(WAIT_S)[name].value)

    change = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while value("retention.ms") != "123456" and time.monotonic() < deadline:
        time.sleep(0.05)

    assert value("retention.ms") == "123456"
    assert value("cleanup.policy") == "delete"


def test_offsets_are_found_by_time_and_records_deleted(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for stamp in (1_000, 2_000, 3_000):
        producer.produce(topic, b"x", partition=0, timestamp=stamp)
        producer.flush(WAIT_S)
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({partition: spec})[partition].result(WAIT_S).offset)

    assert offset(OffsetSpec.for_timestamp(1_500)) == 1
    assert offset(OffsetSpec.max_timestamp()) == 2
    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (0, 3)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "times"})
    assert consumer.offsets_for_times([TopicPartition(topic, 0, 2_500)], WAIT_S)[0].offset == 2
    deleted = admin.delete_records([TopicPartition(topic, 0, 2)])[TopicPartition(topic, 0, 2)].result(WAIT_S)
    assert deleted.low_watermark == 2
    assert consumer.get_watermark_offsets(partition, WAIT_S) == (2, 3)
    consumer.close()


def test_the_cluster_is_described(admin: AdminClient, bootstrap: str) -> None:
    found = admin.describe_cluster().result(WAIT_S)

    assert len(found.nodes) == 1
    assert f"{found.nodes[0].host}:{found.nodes[0].port}" == bootstrap
    assert found.cluster_id


@pytest.mark.slow
def test_a_waiting_consumer_gets_a_record_at_once(bootstrap: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "waiting", "fetch.wait.max.ms": 30_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(0.5)
    taken: list[float] = []

    def later() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        producer.list_topics(topic)
        taken.append(time.monotonic())
        producer.produce(topic, b"now", partition=0)
        producer.flush(WAIT_S)

    thread = threading.Thread(target=later)
    thread.start()
    message = consumer.poll(WAIT_S)
    arrived = time.monotonic()
    thread.join()
    consumer.close()

    assert message is not None
    assert message.value() == b"now"
    assert arrived - taken[0] < 20
