"""The fast path for reading and writing an offset's value gives the results of the schema."""

import pytest

from ottla.groupcoord.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.groupcoord.offsets.offset_values import (
    is_offset_value,
    pack_offset_key,
    pack_offset_value,
    read_offset_value,
)
from ottla.logstore.words import schema_compiler
from ottla.logstore.words.errors import ErrorCode, KafkaError

TOPIC_ID = bytes(range(16))
VALUES = {
    "plain": OffsetCommitValue(offset=42, leader_epoch=7, commit_timestamp=5),
    "with a topic id": OffsetCommitValue(offset=42, commit_timestamp=5, topic_id=TOPIC_ID),
    "with metadata": OffsetCommitValue(offset=-1, metadata="überall", commit_timestamp=-1, topic_id=TOPIC_ID),
    "the longest short metadata": OffsetCommitValue(metadata="m" * 126, offset=2**63 - 1, commit_timestamp=5),
    "the shortest long metadata": OffsetCommitValue(metadata="m" * 127, offset=1, commit_timestamp=5),
    "long metadata": OffsetCommitValue(metadata="é" * 4_096, offset=1, commit_timestamp=5, topic_id=TOPIC_ID),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_is_packed_as_the_schema_says_and_read_back(value: OffsetCommitValue) -> None:
    packed = pack_offset_value(value)

    assert packed == b"\0\4" + schema_compiler.encode(value, 4)
    assert read_offset_value(packed) == value
    assert is_offset_value(packed)


def test_a_key_is_packed_as_the_schema_says() -> None:
    key = OffsetCommitKey(group="日本", topic="flights", partition=-3)

    assert pack_offset_key("日本", "flights", -3) == b"\0\1" + schema_compiler.encode(key, 0)
    with pytest.raises(ValueError, match="32768"):
        pack_offset_key("g", "t" * 32_768, 0)


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_read(version: int) -> None:
    value = OffsetCommitValue(offset=1, metadata="m", commit_timestamp=5)
    content = version.to_bytes(2) + schema_compiler.encode(value, version)

    assert read_offset_value(content) == value and is_offset_value(content)


def test_an_offset_with_its_own_retention_takes_the_version_that_has_room_for_it() -> None:
    value = OffsetCommitValue(offset=1, commit_timestamp=5, expire_timestamp=9)

    packed = pack_offset_value(value)

    assert packed[:2] == b"\0\1" and read_offset_value(packed) == value


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\0\4", b"\0\5" + bytes(30), b"\xff\xff" + bytes(30)]
    + [pack_offset_value(VALUES["with metadata"])[:cut] for cut in (15, 20, -17)]
    + [pack_offset_value(VALUES["plain"]).replace(b"\7\1", b"\7\0")]  # null metadata
    + [pack_offset_value(VALUES["with metadata"]).replace("ü".encode(), b"\xff\xff")],
)
def test_bytes_that_are_no_value_are_rejected(content: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        read_offset_value(content)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE and not is_offset_value(content)
