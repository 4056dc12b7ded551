"""Kafka's text checkpoints: their bytes, and the contents that are rejected."""

from pathlib import Path

import pytest

from ottla.logstore.checkpoint import (
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
    read_offsets,
    read_partition_metadata,
    write_partition_metadata,
)
from ottla.logstore.disk import MemoryDisk, OsDisk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition

PATH = Path("/data/replication-offset-checkpoint")
OFFSETS = {TopicPartition("b", 1): 2**62, TopicPartition("a", 10): 0, TopicPartition("a", 2): 7}


def test_offsets_are_written_in_kafkas_format() -> None:
    content = encode_offsets(OFFSETS)

    assert content == b"0\n3\na 2 7\na 10 0\nb 1 4611686018427387904\n"
    assert decode_offsets(content, PATH) == OFFSETS


def test_epochs_are_written_in_kafkas_format() -> None:
    content = encode_epochs([(0, 0), (3, 120)])

    assert content == b"0\n2\n0 0\n3 120\n"
    assert decode_epochs(content, PATH) == [(0, 0), (3, 120)]


@pytest.mark.parametrize(
    "content",
    [
        b"",  # a power cut may leave this, as the file is replaced without a sync
        b"0\n",
        b"1\n0\n",
        b"0\n2\n1 5\n",
        b"0\n1\n1\n",
        b"0\n1\nx 5\n",
        b"0\n1\n-1 5\n",
        b"\xff",
        b"0\n1\n1 2 3\n",
        b"0\n1\n3 12",  # cut off from 3 120: a number without its last digits is still a number
    ],
)
def test_an_epoch_file_that_is_malformed_or_cut_off_is_rejected(content: bytes) -> None:
    with pytest.raises(KafkaError, match=str(PATH)) as refused:
        decode_epochs(content, PATH)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("content", [b"", b"0\n", b"0\n0\n"])
def test_an_empty_checkpoint_has_no_offsets(content: bytes) -> None:
    assert decode_offsets(content, PATH) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n2\na 1 1\n",
        b"0\n1\na 1 1\nb 1 1\n",
        b"0\n1\na 1\n",
        b"0\n1\na 1 x\n",
        b"0\n1\na 1 9223372036854775808\n",
        b"0\n1\na 1 " + b"9" * 10_000 + b"\n",
        b"0\nx\n",
        b"x",
        b"\0" * 50,
        b"0\n1\n\xff\xfe 1 1\n",
        b"0\n-1\n",
    ],
)
def test_a_corrupt_checkpoint_is_named(content: bytes) -> None:
    with pytest.raises(KafkaError, match=r"/data/replication-offset-checkpoint") as caught:
        decode_offsets(content, PATH)

    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_checkpoint_cut_off_at_any_byte_is_empty_or_rejected() -> None:
    content = encode_offsets(OFFSETS)

    for size in range(len(b"0\n") + 1):
        assert decode_offsets(content[:size], PATH) == {}
    for size in range(len(b"0\n") + 1, len(content)):
        with pytest.raises(KafkaError):
            decode_offsets(content[:size], PATH)


def test_a_failed_write_leaves_the_old_checkpoint() -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    disk.write_file(PATH, encode_offsets(OFFSETS), sync=True)
    disk.fail_at = disk.steps + 1

    with pytest.raises(OSError):
        disk.write_file(PATH, encode_offsets({}), sync=True)

    disk.repair()
    assert read_offsets(disk, PATH) == OFFSETS


def test_partition_metadata_is_written_in_kafkas_format(tmp_path: Path) -> None:
    topic_id = bytes(range(16))
    write_partition_metadata(OsDisk(), tmp_path, topic_id, sync=True)

    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_partition_metadata(OsDisk(), tmp_path) == topic_id
    assert read_partition_metadata(OsDisk(), tmp_path / "none") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\n", b"version: 0\ntopic_id: short"],
)
def test_partition_metadata_that_names_no_topic_is_rejected(content: bytes) -> None:
    with pytest.raises(KafkaError):
        decode_partition_metadata(content, PATH)


def test_partition_metadata_with_the_zero_id_is_rejected() -> None:
    with pytest.raises(KafkaError):
        decode_partition_metadata(encode_partition_metadata(bytes(16)), PATH)
