"""The header of a batch: read, check, patch."""

import struct

import pytest

from ottla.logstore.record import build_batch
from ottla.logstore.record_batch import (
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    TimestampType,
    check_batch,
    increment_sequence,
    iterate_headers,
    patch_offset_and_epoch,
    patch_timestamp,
    read_header,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError

BATCH = build_batch([(None, b"v", 10 + index, ()) for index in range(3)], base_offset=5)


def test_the_crc_covers_neither_base_offset_nor_leader_epoch() -> None:
    batch = bytearray(BATCH)

    patch_offset_and_epoch(batch, 1 << 40, len(BATCH) - LOG_OVERHEAD, 77)

    header = check_batch(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 77)
    assert header.next_offset == (1 << 40) + 3


def test_log_append_time_is_patched_with_its_crc() -> None:
    batch = bytearray(BATCH)

    patch_timestamp(batch, TimestampType.LOG_APPEND_TIME, 99)

    header = check_batch(batch)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 99)
    patch_timestamp(batch, TimestampType.CREATE_TIME, 12)
    assert batch == BATCH


# The leader changes the base offset and, at 12 to 15, the leader epoch.
@pytest.mark.parametrize("position", [*range(8, 12), *range(16, len(BATCH))])
def test_a_changed_byte_anywhere_after_the_offset_is_found(position: int) -> None:
    batch = bytearray(BATCH)
    batch[position] ^= 0x41

    with pytest.raises(KafkaError) as refused:
        check_batch(batch)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_cut_off_anywhere_is_rejected() -> None:
    for length in range(len(BATCH)):
        with pytest.raises(KafkaError):
            check_batch(BATCH[:length])


def test_batches_are_walked_up_to_a_torn_one() -> None:
    buffer = BATCH + BATCH + BATCH[:-1]

    walked = [(position, header.base_offset) for position, header in iterate_headers(buffer)]

    assert walked == [(0, 5), (len(BATCH), 5)]


def test_an_impossible_length_stops_the_walk() -> None:
    batch = bytearray(BATCH)
    struct.pack_into(">i", batch, 8, 3)

    with pytest.raises(KafkaError):
        list(iterate_headers(batch))


@pytest.mark.parametrize(
    ("sequence", "by", "expected"), [(0, 4, 4), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 3, 1)]
)
def test_sequences_wrap_to_zero(sequence: int, by: int, expected: int) -> None:
    assert increment_sequence(sequence, by) == expected


def test_a_missing_header_raises_a_kafka_error() -> None:
    with pytest.raises(KafkaError):
        read_header(b"\x00" * 60)
