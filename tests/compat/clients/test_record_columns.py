"""librdkafka and the pipeline's columns: each reads the records that the other writes, through a node."""

import time
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.logstore.compression import Compression
from ottla.pipeline.columns.batch_encoder import encode_batches
from ottla.pipeline.columns.fetched_batches import Fetched, open_fetched
from ottla.pipeline.columns.header_columns import HEADERS_TYPE
from ottla.pipeline.columns.row_columns import RowColumns
from tests.compat.wire_client import WireClient
from tests.unit.pipeline.columns.fetches import MAX_OFFSET, rows_of

WAIT_S = 60
RECORDS = 200
FETCH_BYTES = 8 * 1024 * 1024

Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

pytestmark = pytest.mark.slow


def some_rows() -> list[Row]:
    return [
        (
            None if number % 5 == 0 else b"key-%d" % number,
            None if number % 7 == 0 else b"value " * (number % 50),
            (("number", b"%d" % number), ("null", None))[: number % 3],
        )
        for number in range(RECORDS)
    ]


def fetch(client: WireClient, topic: str, start: int = 0) -> Fetched:
    partition = {"partition": 0, "fetch_offset": start, "partition_max_bytes": FETCH_BYTES}
    answer: Any = client.call(
        "fetch",
        11,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=1,
        topics=[{"topic": topic, "partitions": [partition]}],
    )
    (found,) = answer.responses[0].partitions
    assert found.error_code == 0
    return open_fetched(
        found.records or b"",
        aborted=found.aborted_transactions or (),
        read_committed=True,
        start=start,
        end=MAX_OFFSET,
        with_headers=True,
    )


def fetch_all(client: WireClient, topic: str) -> list[Row]:
    rows: list[Row] = []
    fetched = fetch(client, topic)
    next_offset = 0
    while fetched.next_offset > next_offset:
        rows += [(one.key, one.value, one.headers) for one in rows_of(fetched)]
        next_offset = fetched.next_offset
        fetched = fetch(client, topic, next_offset)
    return rows


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_columns_read_what_librdkafka_writes(client: WireClient, topic: str, compression: str) -> None:
    producer = Producer(
        {"bootstrap.servers": client.bootstrap, "compression.type": compression, "linger.ms": 5}
    )
    for key, value, headers in some_rows():
        producer.produce(topic, key=key, value=value, headers=list(headers), partition=0)
    assert producer.flush(WAIT_S) == 0

    assert fetch_all(client, topic) == some_rows()


def test_columns_leave_out_what_librdkafka_aborts(client: WireClient, topic: str) -> None:
    producer = Producer({"bootstrap.servers": client.bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    for number in range(6):
        producer.begin_transaction()
        for place in range(3):
            producer.produce(topic, value=b"%d-%d" % (number, place), partition=0)
        producer.flush(WAIT_S)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)

    seen = [value for _, value, _ in fetch_all(client, topic)]

    assert seen == [b"%d-%d" % (number, place) for number in (0, 2, 4) for place in range(3)]


@pytest.mark.parametrize("compression", Compression)
def test_librdkafka_reads_what_columns_write(
    client: WireClient, topic: str, compression: Compression
) -> None:
    rows = some_rows()
    batches = encode_batches(
        RowColumns(
            keys=pa.array([row[0] for row in rows], pa.binary()),
            values=pa.array([row[1] for row in rows], pa.binary()),
            headers=pa.array([[{"key": k, "value": v} for k, v in row[2]] for row in rows], HEADERS_TYPE),
            timestamps_ms=None,
        ),
        compression=compression,
        level=None,
        producer=None,
        base_sequence=-1,
        is_transactional=False,
        max_batch_bytes=5000,
        now_ms=int(time.time() * 1000),
    )
    for batch in batches:
        partition = {"index": 0, "records": bytes(batch.data)}
        answer: Any = client.call(
            "produce",
            8,
            transactional_id=None,
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"name": topic, "partition_data": [partition]}],
        )
        assert answer.responses[0].partition_responses[0].error_code == 0

    assert consumed(client.bootstrap, topic, len(rows)) == rows


def consumed(bootstrap: str, topic: str, count: int) -> list[Row]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "check.crcs": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        rows: list[Row] = []
        deadline = time.monotonic() + WAIT_S
        while len(rows) < count and time.monotonic() < deadline:
            for message in consumer.consume(count, timeout=1.0):
                assert message.error() is None
                rows.append((message.key(), message.value(), tuple(message.headers() or ())))
        return rows
    finally:
        consumer.close()
