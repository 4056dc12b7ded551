"""Traps 20, 30, 39 and 42, and the header checks of section 4 of the map: the batches that are accepted."""

from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from tests.compat.batches import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    ZSTD,
    batch,
    now_ms,
    read_headers,
    record,
)
from tests.compat.conftest import create_topic, topic_id_of
from tests.compat.wire_client import WireClient, eventually, only

Connect = Callable[..., WireClient]
NONE, CORRUPT, UNKNOWN_TOPIC, INVALID_EPOCH, OUT_OF_ORDER, INVALID_RECORD = 0, 2, 3, 47, 45, 87
HOUR_MS = 3_600_000


def produce(client: WireClient, topic: str, records: bytes | None, *, version: int = 9, **fields: Any) -> Any:
    """Produce to one partition, and return its part of the response."""
    wanted: dict[str, Any] = {"partition_data": [{"index": fields.pop("partition", 0), "records": records}]}
    wanted["topic_id" if version >= 13 else "name"] = topic_id_of(client, topic) if version >= 13 else topic
    request = {"acks": -1, "timeout_ms": 5000, "topic_data": [wanted], **fields}
    return only(only(client.call("produce", version, **request).responses).partition_responses)


def test_trap_20_a_partition_that_does_not_exist_is_unknown_and_names_no_leader(
    client: WireClient, topic: str
) -> None:
    found = produce(client, topic, batch(), version=10, partition=5)

    assert found.error_code == UNKNOWN_TOPIC
    assert found.base_offset == -1
    assert found.current_leader.leader_id == -1


def new_producer(client: WireClient) -> int:
    answer = eventually(
        lambda: client.call("init_producer_id", 4, transactional_id=None, transaction_timeout_ms=60000),
        lambda found: found.error_code == 0,
    )
    assert answer.error_code == 0
    assert answer.producer_epoch == 0
    return int(answer.producer_id)


def test_trap_30_a_duplicate_of_the_last_five_batches_succeeds_with_its_old_offset(
    client: WireClient, topic: str
) -> None:
    producer = new_producer(client)
    sent = [batch(producer_id=producer, producer_epoch=0, base_sequence=number) for number in range(7)]
    offsets = [produce(client, topic, one).base_offset for one in sent]

    again = [produce(client, topic, one) for one in sent[2:]]
    too_old = produce(client, topic, sent[0])

    assert offsets == list(range(7))
    assert [one.error_code for one in again] == [NONE] * 5
    assert [one.base_offset for one in again] == offsets[2:]
    assert too_old.error_code == OUT_OF_ORDER, "older than the window of five"


def test_trap_30_a_gap_is_out_of_order_and_an_unknown_producer_may_begin_anywhere(
    client: WireClient, topic: str
) -> None:
    producer = new_producer(client)

    begins = produce(client, topic, batch(producer_id=producer, producer_epoch=0, base_sequence=17))
    gap = produce(client, topic, batch(producer_id=producer, producer_epoch=0, base_sequence=19))
    follows = produce(client, topic, batch(producer_id=producer, producer_epoch=0, base_sequence=18))

    assert [begins.error_code, gap.error_code, follows.error_code] == [NONE, OUT_OF_ORDER, NONE]


def test_trap_30_an_older_epoch_is_invalid_and_a_newer_one_begins_at_0(
    client: WireClient, topic: str
) -> None:
    producer = new_producer(client)
    first = produce(client, topic, batch(producer_id=producer, producer_epoch=3, base_sequence=0))
    not_from_0 = produce(client, topic, batch(producer_id=producer, producer_epoch=4, base_sequence=1))
    newer = produce(client, topic, batch(producer_id=producer, producer_epoch=4, base_sequence=0))
    older = produce(client, topic, batch(producer_id=producer, producer_epoch=3, base_sequence=1))

    codes = [one.error_code for one in (first, not_from_0, newer, older)]

    assert codes == [NONE, OUT_OF_ORDER, NONE, INVALID_EPOCH]


def test_trap_30_sequences_wrap_around(client: WireClient, topic: str) -> None:
    producer = new_producer(client)
    last = 2**31 - 1

    end = produce(client, topic, batch(producer_id=producer, producer_epoch=0, base_sequence=last))
    wrapped = produce(client, topic, batch(producer_id=producer, producer_epoch=0, base_sequence=0))
    across = batch(
        [b"a", b"b", b"c"], producer_id=producer + 1_000_000, producer_epoch=0, base_sequence=last - 1
    )
    follows = batch(producer_id=producer + 1_000_000, producer_epoch=0, base_sequence=1)

    assert [end.error_code, wrapped.error_code] == [NONE, NONE]
    assert [produce(client, topic, one).error_code for one in (across, follows)] == [NONE, NONE]


def test_trap_39_null_records_are_an_invalid_record_and_the_connection_goes_on(
    client: WireClient, topic: str, is_reference: bool
) -> None:
    if is_reference:
        pytest.skip("Apache Kafka up to 4.4.0 never answers this (NullPointerException), and Ottla should")
    for version in (8, 9, 12):
        assert produce(client, topic, None, version=version).error_code == INVALID_RECORD
    assert produce(client, topic, batch()).error_code == NONE


def test_trap_42_min_insync_replicas_is_limited_by_the_replication_factor(client: WireClient) -> None:
    name = create_topic(client, min_insync_replicas="2")

    every = produce(client, name, batch())
    alone = produce(client, name, batch(), acks=1)

    # Since Kafka 4.0 the replication factor limits min.insync.replicas, so errors 19 and 20 take a cluster.
    assert (every.error_code, every.base_offset) == (NONE, 0)
    assert (alone.error_code, alone.base_offset) == (NONE, 1)


TWO = batch() + batch()


@pytest.mark.parametrize(
    ("records", "error"),
    [
        pytest.param(batch(), NONE, id="right"),
        pytest.param(batch() + b"\0\0\0\0\0\0\0\0\0\0", NONE, id="partial-tail"),
        pytest.param(b"", INVALID_RECORD, id="empty"),
        pytest.param(batch()[:50], INVALID_RECORD, id="shorter-than-a-header"),
        pytest.param(batch()[:-1], INVALID_RECORD, id="truncated"),
        pytest.param(TWO, INVALID_RECORD, id="two-batches"),
        pytest.param(batch(magic=0), INVALID_RECORD, id="magic-0"),
        pytest.param(batch(magic=1), INVALID_RECORD, id="magic-1"),
        pytest.param(batch(magic=3), CORRUPT, id="magic-3"),
        pytest.param(batch(crc=1), CORRUPT, id="crc"),
        pytest.param(batch(batch_length=5), CORRUPT, id="length-below-a-header"),
        pytest.param(batch(base_offset=57), INVALID_RECORD, id="base-offset"),
        pytest.param(batch(records_count=0, last_offset_delta=-1), INVALID_RECORD, id="no-records"),
        pytest.param(batch(records_count=2), INVALID_RECORD, id="count-above-deltas"),
        pytest.param(batch(last_offset_delta=3), INVALID_RECORD, id="deltas-above-count"),
        pytest.param(batch(attributes=CONTROL), INVALID_RECORD, id="control-batch"),
        pytest.param(
            batch(producer_id=5, producer_epoch=0, base_sequence=-1), INVALID_RECORD, id="no-sequence"
        ),
    ],
)
def test_section_4_an_invalid_header_is_rejected(
    client: WireClient, topic: str, records: bytes, error: int
) -> None:
    assert produce(client, topic, records).error_code == error


def test_section_4_a_batch_may_not_be_larger_than_max_message_bytes(client: WireClient) -> None:
    name = create_topic(client, max_message_bytes="1000")

    assert produce(client, name, batch([b"x" * 1000])).error_code == 10
    assert produce(client, name, batch([b"x" * 800])).error_code == NONE


def test_section_4_zstd_needs_produce_7(client: WireClient, topic: str) -> None:
    sent = batch(attributes=ZSTD, records=zstandard.compress(record(0, b"value")))

    assert produce(client, topic, sent, version=6).error_code == 76
    assert produce(client, topic, sent, version=7).error_code == NONE


def test_section_4_an_unknown_compression_is_rejected(
    client: WireClient, topic: str, is_reference: bool
) -> None:
    found = produce(client, topic, batch(attributes=6))

    assert found.error_code == (-1 if is_reference else 76)  # Kafka throws an exception: UNKNOWN_SERVER_ERROR


def test_section_4_a_transactional_batch_needs_a_transactional_id(client: WireClient, topic: str) -> None:
    sent = batch(attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0)

    assert produce(client, topic, sent).error_code == 53


def test_section_4_timestamps_more_than_an_hour_ahead_are_invalid(client: WireClient, topic: str) -> None:
    found = produce(client, topic, batch(base_timestamp=now_ms() + 2 * HOUR_MS))

    assert found.error_code == 32
    assert only(found.record_errors).batch_index == 0
    for accepted in (-1, 0, now_ms() - 1000 * HOUR_MS):
        assert produce(client, topic, batch(base_timestamp=accepted)).error_code == NONE


def test_section_4_log_append_time_is_the_brokers_and_in_the_response(client: WireClient) -> None:
    name = create_topic(client, message_timestamp_type="LogAppendTime")
    before = now_ms()

    found = produce(client, name, batch(base_timestamp=1000))
    header = only(read_headers(fetch(client, name).records))

    assert before <= found.log_append_time_ms <= now_ms()
    assert header["max_timestamp"] == found.log_append_time_ms
    assert header["attributes"] & LOG_APPEND_TIME
    assert produce(client, name, batch(attributes=LOG_APPEND_TIME)).error_code == 32


def test_section_4_create_time_is_the_producers_and_the_response_has_no_time(
    client: WireClient, topic: str
) -> None:
    found = produce(client, topic, batch(base_timestamp=now_ms() - 5))

    assert found.log_append_time_ms == -1
    assert produce(client, topic, batch(attributes=LOG_APPEND_TIME)).error_code == NONE
    assert all(
        not header["attributes"] & LOG_APPEND_TIME for header in read_headers(fetch(client, topic).records)
    )


def test_section_4_a_compacted_topic_requires_keys(client: WireClient) -> None:
    name = create_topic(client, cleanup_policy="compact")

    found = produce(client, name, batch([b"a", b"b"], keys=[b"k", None]))

    assert found.error_code == INVALID_RECORD
    assert only(found.record_errors).batch_index == 1
    assert produce(client, name, batch([b"a"], keys=[b"k"])).error_code == NONE


@pytest.mark.parametrize("version", range(3, 14))
def test_section_1_every_version_of_produce_appends(client: WireClient, topic: str, version: int) -> None:
    found = produce(client, topic, batch([b"a", b"b"]), version=version)

    assert (found.error_code, found.base_offset) == (NONE, 0)


def test_section_1_an_unknown_topic_id_is_an_error(client: WireClient) -> None:
    wanted = {"topic_id": b"\x01" * 16, "partition_data": [{"index": 0, "records": batch()}]}

    answer = client.call("produce", 13, acks=1, timeout_ms=1000, topic_data=[wanted])

    assert only(only(answer.responses).partition_responses).error_code == 100


def fetch(client: WireClient, topic: str, offset: int = 0) -> Any:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    answer = client.call(
        "fetch", 11, max_wait_ms=0, min_bytes=0, topics=[{"topic": topic, "partitions": [wanted]}]
    )
    return only(only(answer.responses).partitions)
