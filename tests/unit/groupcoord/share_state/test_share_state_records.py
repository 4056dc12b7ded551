"""Records of `__share_group_state`; in tests/compat/java Kafka reads them back."""

from dataclasses import replace

import pytest

from ottla.groupcoord.share_state.share_state import ShareState, Update
from ottla.groupcoord.share_state.share_state_config import MAX_DEAD_LETTERS_BYTES
from ottla.groupcoord.share_state.share_state_records import (
    ShareStateRecord,
    SnapshotRecord,
    UpdateRecord,
    decode_record,
    encode_record,
    record_size_bytes,
)
from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.unit.groupcoord.share_state.share_state_world import KEY, NOW_MS, batch, key_of

BATCHES = (batch(5, 9, 0, 1), batch(10, 10, 2, 2), batch(2**40, 2**40 + 5, 4, 32_767))
SNAPSHOT = ShareState(
    snapshot_epoch=3,
    state_epoch=2,
    leader_epoch=7,
    start_offset=5,
    delivery_complete_count=4,
    create_time_ms=NOW_MS,
    write_time_ms=NOW_MS + 1,
    batches=BATCHES,
)
UPDATE = Update(3, 7, -1, -1, BATCHES)
RECORDS: list[ShareStateRecord] = [
    SnapshotRecord(KEY, SNAPSHOT),
    SnapshotRecord(KEY, None),
    UpdateRecord(KEY, UPDATE),
    UpdateRecord(key_of("Zürich", 2, 1), UPDATE._replace(batches=(), delivery_complete_count=2**31 - 1)),
    UpdateRecord(KEY, UPDATE._replace(batches=tuple(batch(at, at) for at in range(0, 400, 2)))),
    SnapshotRecord(KEY, replace(SNAPSHOT, dead_letters=b"l" * MAX_DEAD_LETTERS_BYTES)),
    UpdateRecord(KEY, UPDATE._replace(dead_letters=b"letters")),
    UpdateRecord(KEY, UPDATE._replace(dead_letters=b"", delivery_complete_count=3)),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_as_it_was_written(record: ShareStateRecord) -> None:
    key, value = encode_record(record)

    assert decode_record(key, value) == record
    batches = record.state.batches if isinstance(record, SnapshotRecord) and record.state else ()
    batches = record.update.batches if isinstance(record, UpdateRecord) else batches
    letters = record.state.dead_letters if isinstance(record, SnapshotRecord) and record.state else b""
    letters = record.update.dead_letters or b"" if isinstance(record, UpdateRecord) else letters
    assert len(key) + len(value or b"") <= record_size_bytes(record.key, len(batches), len(letters))


def test_the_bytes_are_kafkas() -> None:
    key, value = encode_record(UpdateRecord(SharePartitionKey("g", bytes(16), 1), Update(1, 2, 3, 4, ())))

    assert key == b"\x00\x01\x00\x01g" + bytes(16) + b"\x00\x00\x00\x01"
    assert value == (
        b"\x00\x00"
        + b"\x00\x00\x00\x01"
        + b"\x00\x00\x00\x02"
        + b"\x00\x00\x00\x00\x00\x00\x00\x03"
        + b"\x01"
        + b"\x01\x00\x04\x00\x00\x00\x04"
    )


@pytest.mark.parametrize("record", RECORDS)
def test_half_a_record_is_rejected(record: ShareStateRecord) -> None:
    key, value = encode_record(record)

    for length in range(len(key)):
        with pytest.raises(KafkaError) as refused:
            decode_record(key[:length], value)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    for length in range(len(value or b"")):
        assert value is not None
        with pytest.raises(KafkaError) as refused:
            decode_record(key, value[:length])
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_records_of_other_kinds_are_skipped() -> None:
    key, value = encode_record(RECORDS[0])

    assert decode_record(b"\x00\x02" + key[2:], value) is None


@pytest.mark.parametrize("change", [b"\x00\x01", b"\xff\xff"], ids=["a later version", "a negative version"])
def test_unknown_versions_are_rejected(change: bytes) -> None:
    key, value = encode_record(RECORDS[0])
    assert value is not None

    with pytest.raises(KafkaError, match="unknown version"):
        decode_record(key, change + value[2:])


def test_a_count_beyond_the_bytes_takes_no_memory() -> None:
    key, value = encode_record(UpdateRecord(KEY, UPDATE._replace(batches=())))
    assert value is not None

    with pytest.raises(KafkaError, match="batches has only"):
        decode_record(key, value[:18] + b"\xff\xff\xff\xff\x0f" + value[19:])


def test_batches_that_another_program_wrote_out_of_order_are_sorted() -> None:
    unordered = UPDATE._replace(batches=(batch(10, 19, 0, 1), batch(5, 12, 2, 2)))

    decoded = decode_record(*encode_record(UpdateRecord(KEY, unordered)))

    assert isinstance(decoded, UpdateRecord)
    assert decoded.update.batches == (batch(5, 12, 2, 2), batch(13, 19, 0, 1))


def test_an_update_without_a_value_is_rejected() -> None:
    key, _ = encode_record(UpdateRecord(KEY, UPDATE))

    with pytest.raises(KafkaError, match="an update has no value"):
        decode_record(key, None)


def test_batches_before_the_start_are_left_out_of_another_programs_snapshot() -> None:
    decoded = decode_record(*encode_record(SnapshotRecord(KEY, replace(SNAPSHOT, start_offset=8))))

    assert isinstance(decoded, SnapshotRecord) and decoded.state is not None
    assert decoded.state.batches == (batch(8, 9, 0, 1), *BATCHES[1:])
