"""kafka-python, unmodified, as a client of a node."""

import time
import warnings
from collections.abc import Iterator
from uuid import uuid4

import pytest

with warnings.catch_warnings():  # it reads its schemas with a function that Python 3.11 deprecates
    warnings.simplefilter("ignore")
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic
    from kafka.errors import TopicAlreadyExistsError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
WAIT_S = 60
RECORDS = 200


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin: KafkaAdminClient) -> Iterator[str]:
    name = f"kafka-python-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    yield name
    admin.delete_topics([name])


@pytest.mark.slow
@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_through_a_group(bootstrap: str, topic: str, compression: str | None) -> None:
    if compression == "snappy":
        pytest.importorskip("snappy", reason="kafka-python needs python-snappy for this")
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression
    )  # idempotent by default
    futures = [
        producer.send(topic, b"value-%d" % number, key=b"%d" % number, headers=[("n", b"%d" % number)])
        for number in range(RECORDS)
    ]
    producer.flush(WAIT_S)
    offsets = {(one.get(WAIT_S).partition, one.get(WAIT_S).offset) for one in futures}
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"group-{uuid4().hex[:8]}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )

    found = []
    for message in consumer:
        found.append((message.key, message.value, message.headers))
        if len(found) == RECORDS:
            break
    consumer.commit()
    consumer.close()

    assert len(offsets) == RECORDS
    assert sorted(value for _, value, _ in found) == sorted(b"value-%d" % number for number in range(RECORDS))
    assert all(list(headers) == [("n", key)] for key, _, headers in found)


@pytest.mark.slow
def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for stamp in (1_000, 2_000, 3_000):
        producer.send(topic, b"x", partition=0, timestamp_ms=stamp).get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    partition = TopicPartition(topic, 0)

    by_time = consumer.offsets_for_times({partition: 1_500})[partition]
    ends = consumer.end_offsets([partition])[partition]
    begins = consumer.beginning_offsets([partition])[partition]
    consumer.close()

    assert (by_time.offset, ends, begins) == (1, 3, 0)


def test_the_admin_client_creates_lists_and_describes(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    deadline = time.monotonic() + WAIT_S
    while topic not in admin.list_topics() and time.monotonic() < deadline:
        time.sleep(0.05)

    assert topic in admin.list_topics()
    assert admin.describe_cluster()["cluster_id"]
    assert admin.describe_topics([topic])
