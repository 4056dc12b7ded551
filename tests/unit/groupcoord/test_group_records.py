"""The records of __consumer_offsets, against bytes of Apache Kafka 4.3.1's GroupCoordinatorRecordSerde."""

import pytest

from ottla.groupcoord.group_records import (
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    OffsetRecord,
)
from ottla.groupcoord.offsets.offset_values import (
    CommittedOffsets,
    pack_key_head,
    pack_key_tails,
    pack_offset_value,
)
from ottla.groupcoord.record_codec import (
    GroupRecord,
    decode_record,
    encode_key,
    encode_value,
    record_size_bytes,
)
from ottla.logstore.open_batch import OpenBatch
from ottla.logstore.words.errors import ErrorCode, KafkaError

COMMITTED_MS = 1_700_000_000_000
OFFSET_KEY = "000100086d792d67726f75700007666c696768747300000003"
GROUP_KEY = "000200086d792d67726f7570"
TOPIC_ID = bytes(range(1, 17))


def offset(value: OffsetCommitValue | None) -> OffsetRecord:
    return OffsetRecord("my-group", "flights", 3, value)


GOLDEN: dict[str, tuple[GroupRecord, str, str | None]] = {
    "an offset": (
        offset(
            OffsetCommitValue(
                offset=42, leader_epoch=7, metadata="some metadata", commit_timestamp=COMMITTED_MS
            )
        ),
        OFFSET_KEY,
        "0004000000000000002a000000070e736f6d65206d657461646174610000018bcfe5680000",
    ),
    "an offset with a retention of its own": (
        offset(
            OffsetCommitValue(offset=42, commit_timestamp=COMMITTED_MS, expire_timestamp=1_700_000_009_999)
        ),
        OFFSET_KEY,
        "0001000000000000002a00000000018bcfe568000000018bcfe58f0f",
    ),
    "a negative offset without leader epoch": (
        OffsetRecord("日本", "flights", 0, OffsetCommitValue(offset=-5, commit_timestamp=COMMITTED_MS)),
        "00010006e697a5e69cac0007666c696768747300000000",
        "0004fffffffffffffffbffffffff010000018bcfe5680000",
    ),
    "an offset with a topic id": (
        offset(
            OffsetCommitValue(
                offset=42, leader_epoch=7, metadata="m", commit_timestamp=COMMITTED_MS, topic_id=TOPIC_ID
            )
        ),
        OFFSET_KEY,
        "0004000000000000002a00000007026d0000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
    ),
    "the removal of an offset": (offset(None), OFFSET_KEY, None),
    "the removal of a group": (GroupMetadataRecord("my-group", None), GROUP_KEY, None),
    "a stable group": (
        GroupMetadataRecord(
            "my-group",
            GroupMetadataValue(
                protocol_type="consumer",
                generation=1,
                protocol="range",
                leader="m-1",
                current_state_timestamp=1_699_999_999_999,
                members=[
                    MemberMetadata(
                        member_id="m-1",
                        client_id="client",
                        client_host="/127.0.0.1",
                        rebalance_timeout=300_000,
                        session_timeout=45_000,
                        subscription=b"\0\0\1",
                        assignment=b"\5\6",
                    ),
                    MemberMetadata(
                        member_id="m-2",
                        group_instance_id="inst",
                        client_id="client2",
                        client_host="/127.0.0.2",
                        rebalance_timeout=60_000,
                        session_timeout=6_000,
                        subscription=b"\0\0\1",
                    ),
                ],
            ),
        ),
        GROUP_KEY,
        "00030008636f6e73756d657200000001000572616e676500036d2d310000018bcfe567ff0000000200036d2d31ffff0006636c6965"
        "6e74000a2f3132372e302e302e31000493e00000afc80000000300000100000002050600036d2d320004696e73740007636c69656e"
        "7432000a2f3132372e302e302e320000ea60000017700000000300000100000000",
    ),
    "an empty group": (
        GroupMetadataRecord(
            "my-group",
            GroupMetadataValue(
                protocol_type="consumer", generation=2, current_state_timestamp=1_699_999_999_999
            ),
        ),
        GROUP_KEY,
        "00030008636f6e73756d657200000002ffffffff0000018bcfe567ff00000000",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_records_are_apache_kafkas_bytes(name: str) -> None:
    record, key_hex, value_hex = GOLDEN[name]

    key, value = encode_key(record), encode_value(record)

    assert key.hex() == key_hex
    assert (value.hex() if value is not None else None) == value_hex


@pytest.mark.parametrize("name", GOLDEN)
def test_records_are_read_back(name: str) -> None:
    record, key_hex, value_hex = GOLDEN[name]

    decoded = decode_record(bytes.fromhex(key_hex), bytes.fromhex(value_hex) if value_hex else None)

    assert decoded == record


@pytest.mark.parametrize("name", GOLDEN)
def test_a_record_is_never_larger_than_its_estimate(name: str) -> None:
    record, key_hex, value_hex = GOLDEN[name]

    assert record_size_bytes(record) >= (len(key_hex) + len(value_hex or "")) // 2


@pytest.mark.parametrize("count", [3, 60, 9_000])
@pytest.mark.parametrize("topic", ["t", "日本", "x" * 249])
def test_the_estimate_of_a_commit_is_never_too_small_and_not_far_too_large(topic: str, count: int) -> None:
    value = pack_offset_value(OffsetCommitValue(offset=42, commit_timestamp=COMMITTED_MS, topic_id=TOPIC_ID))
    commit = CommittedOffsets("my-group", topic, range(count), [value] * count)
    batch = OpenBatch()
    batch.append_alike(pack_key_head("my-group", topic), pack_key_tails(range(count)), commit.values, 1)

    size = len(batch.seal())

    assert size <= record_size_bytes(commit) <= 1.3 * size


def test_keys_of_the_oldest_kind_are_offsets_too() -> None:
    key = b"\0\0" + bytes.fromhex(OFFSET_KEY)[2:]
    value = bytes.fromhex("0000" + "000000000000002a" + "0000" + "0000018bcfe56800")

    decoded = decode_record(key, value)

    assert decoded == offset(OffsetCommitValue(offset=42, commit_timestamp=COMMITTED_MS))


@pytest.mark.parametrize("kind", [9, 17, 20, 0x7FFF])
def test_kinds_of_other_protocols_are_skipped(kind: int) -> None:
    assert decode_record(kind.to_bytes(2) + b"whatever", b"\0\0anything") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", "0003"),
        ("00", None),
        ("0001", None),
        ("00010008", None),
        ("ffff0000", None),
        (OFFSET_KEY, ""),
        (OFFSET_KEY, "0009" + "00" * 30),
        (OFFSET_KEY, "0004000000000000002a"),
        (GROUP_KEY, "00037fff"),
        (GROUP_KEY, "0003000000000000ffffffff0000018bcfe567ff7fffffff"),
    ],
)
def test_bytes_that_are_no_record_raise_a_kafka_error(key: str, value: str | None) -> None:
    with pytest.raises(KafkaError) as raised:
        decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value))

    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
