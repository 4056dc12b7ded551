"""Kafka's small text files: offsets of a log directory's partitions, leader epochs, topic ids.

    0                      the version
    2                      the number of lines that follow
    flights 0 1200         topic, partition, offset   (leader-epoch-checkpoint: epoch, start offset)
    flights 1 900

Each file is replaced as a whole, so a reader sees the old or the new one. A file that cannot be parsed raises
KAFKA_STORAGE_ERROR with its path and line; the caller decides whether the log can restore its content.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ottla.logstore.disk import Disk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
VERSION: Final = 0

# A million partitions with names of the maximum length; a larger file was not written by a node.
MAX_CHECKPOINT_BYTES: Final = 300 * 1024 * 1024
_INT64 = range(-(2**63), 2**63)
_NUMBER = re.compile(rb"[+-]?[0-9]{1,19}")


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of an offset checkpoint, in order of topic and partition."""
    return _encode(f"{name.topic} {name.partition} {offset}" for name, offset in sorted(offsets.items()))


def decode_offsets(content: bytes, path: Path) -> dict[TopicPartition, int]:
    """Return the offsets in an offset checkpoint; an empty file has none."""
    offsets: dict[TopicPartition, int] = {}
    for number, line in _decode(content, path):
        fields = line.split()
        if len(fields) != 3:
            raise _malformed(path, number)
        offset = _integer(fields[2], path, number)
        offsets[TopicPartition(_text(fields[0], path, number), _integer(fields[1], path, number))] = offset
    return offsets


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return the content of a leader-epoch-checkpoint with these (epoch, start offset) in the given order."""
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def decode_epochs(content: bytes, path: Path) -> list[tuple[int, int]]:
    """Return (epoch, start offset) of each line of a leader-epoch-checkpoint.

    An empty file is broken, because no node writes one.
    """
    if content.count(b"\n") < 2:
        raise _corrupt(path, "is cut off")
    epochs: list[tuple[int, int]] = []
    for number, line in _decode(content, path):
        fields = line.split()
        if len(fields) != 2:
            raise _malformed(path, number)
        epoch, start_offset = _integer(fields[0], path, number), _integer(fields[1], path, number)
        if epoch < 0 or start_offset < 0:
            raise _malformed(path, number)
        epochs.append((epoch, start_offset))
    return epochs


def read_offsets(disk: Disk, path: Path) -> dict[TopicPartition, int]:
    """Return the offsets in the checkpoint at `path`, none if there is no file."""
    content = _read(disk, path)
    return decode_offsets(content, path) if content is not None else {}


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """Return the content of a partition directory's partition.metadata file."""
    return f"version: {VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(content: bytes, path: Path) -> bytes:
    """Return the topic id in a partition.metadata file."""
    fields = dict(line.split(b":", 1) for line in content.splitlines() if b":" in line)
    if fields.get(b"version", b"").strip() != b"0":
        raise _malformed(path, 1)
    try:
        topic_id = uuid_from_text(fields.get(b"topic_id", b"").strip().decode("ascii", "replace"))
    except KafkaError:
        raise _malformed(path, 2) from None
    if topic_id == ZERO_UUID:
        raise _malformed(path, 2)
    return topic_id


def write_partition_metadata(disk: Disk, directory: Path, topic_id: bytes, *, sync: bool) -> None:
    """Write the topic's id into a partition directory."""
    disk.write_file(directory / PARTITION_METADATA, encode_partition_metadata(topic_id), sync=sync)


def read_partition_metadata(disk: Disk, directory: Path) -> bytes | None:
    """Return the topic id in a partition directory, or None if it has no such file."""
    path = directory / PARTITION_METADATA
    content = _read(disk, path)
    return decode_partition_metadata(content, path) if content else None


def _encode(lines: Iterable[str]) -> bytes:
    rows = list(lines)
    return "".join(f"{row}\n" for row in (str(VERSION), str(len(rows)), *rows)).encode()


def _decode(content: bytes, path: Path) -> list[tuple[int, bytes]]:
    """Return (line number, line) of each entry after checking version and count."""
    lines = content.splitlines()
    if len(lines) < 2:  # Kafka creates an empty checkpoint before it first writes one.
        if content.strip() not in (b"", b"0"):
            raise _malformed(path, 1)
        return []
    if not content.endswith(b"\n"):  # A number without its last digits would still be a number.
        raise _corrupt(path, "is cut off")
    version = _integer(lines[0], path, 1)
    if version != VERSION:
        raise _corrupt(path, f"has version {version}, but only version {VERSION} is supported")
    count = _integer(lines[1], path, 2)
    if count != len(lines) - 2:
        raise _corrupt(path, f"should have {count} entries, but has {len(lines) - 2}")
    return [(number, line) for number, line in enumerate(lines[2:], 3)]


def _read(disk: Disk, path: Path) -> bytes | None:
    try:
        if disk.file_size(path) > MAX_CHECKPOINT_BYTES:
            raise _corrupt(path, f"is larger than {MAX_CHECKPOINT_BYTES} bytes")
        return disk.read_file(path)
    except FileNotFoundError:
        return None


def _text(field: bytes, path: Path, number: int) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise _malformed(path, number) from None


def _integer(field: bytes, path: Path, number: int) -> int:
    if not _NUMBER.fullmatch(field) or (value := int(field)) not in _INT64:
        raise _malformed(path, number)
    return value


def _malformed(path: Path, number: int) -> KafkaError:
    return _corrupt(path, f"cannot be read at line {number}")


def _corrupt(path: Path, problem: str) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The file {path} {problem}.")
