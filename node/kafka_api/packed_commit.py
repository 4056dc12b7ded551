"""OffsetCommit requests without metadata, as nearly all clients send them, read and answered by columns.

    entry of a request    partition (int32) | offset (int64), leader epoch (int32) | metadata: empty or null
                          `indexes`           `positions`

The general decoder reads requests of another shape (metadata, tags, versions without the leader epoch). This
way a commit of 100 partitions takes a sixth of the node's time.
"""

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.groupcoord.offsets.offset_commands import PackedOffsets
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.schema import ZERO_UUID, Buffer
from ottla.logstore.words.schema_compiler import Decoder
from ottla.logstore.words.schema_decode import read_uvarint
from ottla.logstore.words.schema_encode import uvarint
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.node.wire.request_limits import MAX_ID_BYTES

FIRST_LEADER_EPOCH_VERSION: Final = 6
FIRST_STATIC_VERSION: Final = 7
FIRST_FLEXIBLE_VERSION: Final = 8
FIRST_TOPIC_ID_VERSION: Final = 10
MAX_ELEMENTS: Final = 4_096  # topics and partitions: a request with more is read off the loop, in turns
_ENTRY_BYTES: Final = 18
# The length of the metadata, and the tag section after it, if both are empty or null.
_NO_METADATA: Final = ((b"\x00", b"\x00"), (b"\xff", b"\xff"))
_NO_METADATA_FLEXIBLE: Final = ((b"\x01", b"\x00"), (b"\x00", b"\x00"))
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_put_int16 = struct.Struct(">h").pack
_put_int32 = struct.Struct(">i").pack


class PackedTopic(NamedTuple):
    """A topic of a request, by name or by id, with its columns."""

    name: str
    topic_id: bytes
    partitions: tuple[int, ...]
    indexes: tuple[bytes, ...]  # the encoded partitions
    positions: tuple[bytes, ...]

    def offsets_to_commit(self, name: str, topic_id: bytes) -> PackedOffsets:
        """Return the offsets to commit, under the topic's name and id in the cluster."""
        return PackedOffsets(name, topic_id, self.partitions, self.positions)


class PackedCommit(NamedTuple):
    """An OffsetCommit request without metadata, whose partitions are columns."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[PackedTopic, ...]

    def opened(self) -> OffsetCommitRequest:
        """Return the request as the general decoder reads it, except that null metadata become empty."""
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id_or_member_epoch,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=each.partition,
                            committed_offset=each.offset,
                            committed_leader_epoch=each.leader_epoch,
                            committed_metadata="",
                        )
                        for each in topic.offsets_to_commit(topic.name, topic.topic_id).opened()
                    ],
                )
                for topic in self.topics
            ],
        )


def packing_decoder(
    version: int, decode: Decoder[OffsetCommitRequest]
) -> Decoder[OffsetCommitRequest | PackedCommit]:
    """Return a decoder of the version that reads requests of the packed shape by columns."""
    if version < FIRST_LEADER_EPOCH_VERSION:
        return decode

    def decode_packed(
        buffer: Buffer, position: int = 0, *left: int
    ) -> tuple[OffsetCommitRequest | PackedCommit, int]:
        try:
            packed = _read(version, buffer, position)
        except (IndexError, ValueError, struct.error):
            packed = None  # the general decoder reports the error
        if packed is not None:
            return packed, len(buffer)
        return decode(buffer, position, *left)

    return decode_packed


def encode_answer(version: int, commit: PackedCommit, error: ErrorCode) -> bytearray:
    """Return the body of the response, with the same error code for all partitions."""
    is_flexible = version >= FIRST_FLEXIBLE_VERSION
    count = len(commit.topics)
    body = bytearray(4)  # no throttle time
    body += uvarint(count + 1) if is_flexible else _put_int32(count)
    behind_index = _put_int16(error) + (b"\0" if is_flexible else b"")
    for topic in commit.topics:
        count = len(topic.indexes)
        name = topic.name.encode()
        if version >= FIRST_TOPIC_ID_VERSION:
            body += topic.topic_id
        else:
            body += uvarint(len(name) + 1) if is_flexible else _put_int16(len(name))
            body += name
        body += uvarint(count + 1) if is_flexible else _put_int32(count)
        body += behind_index.join(topic.indexes)
        body += behind_index
        if is_flexible:
            body += b"\0"
    if is_flexible:
        body += b"\0"
    return body


def _read(version: int, buffer: Buffer, position: int) -> PackedCommit | None:
    is_flexible = version >= FIRST_FLEXIBLE_VERSION
    # If the last partition has metadata, a request ends in them and the tag sections after them.
    if buffer[-4] > 1 if is_flexible else buffer[-1] not in (0x00, 0xFF):
        return None
    group_id, position = _read_string(buffer, position, is_flexible=is_flexible)
    (generation_id,) = _int32(buffer, position)
    member_id, position = _read_string(buffer, position + 4, is_flexible=is_flexible)
    instance_id = None
    if version >= FIRST_STATIC_VERSION:
        instance_id, position = _read_string(buffer, position, is_flexible=is_flexible)
    count, position = _read_count(buffer, position, is_flexible=is_flexible)
    if group_id is None or member_id is None or count * _ENTRY_BYTES > len(buffer) - position:
        return None
    topics = []
    elements = 0
    for _ in range(count):
        name: str | None = ""
        topic_id = ZERO_UUID
        if version >= FIRST_TOPIC_ID_VERSION:
            topic_id = bytes(buffer[position : position + 16])
            position += 16
        else:
            name, position = _read_string(buffer, position, is_flexible=is_flexible)
        partitions, position = _read_count(buffer, position, is_flexible=is_flexible)
        end = position + partitions * _ENTRY_BYTES
        elements += 1 + partitions
        if name is None or partitions < 1 or elements > MAX_ELEMENTS or end > len(buffer):
            return None
        entries = bytes(buffer[position:end])
        if not _are_without_metadata(entries, is_flexible=is_flexible):
            return None
        numbers, columns = _columns(partitions)
        pieces = columns.unpack(entries)
        topics.append(PackedTopic(name, topic_id, numbers.unpack(entries), pieces[::2], pieces[1::2]))
        position = end
        if is_flexible:
            if buffer[position]:
                return None  # tags
            position += 1
    if is_flexible:
        if buffer[position]:
            return None
        position += 1
    if not topics or position != len(buffer):
        return None
    return PackedCommit(group_id, generation_id, member_id, instance_id, tuple(topics))


def _are_without_metadata(entries: bytes, *, is_flexible: bool) -> bool:
    count = len(entries) // _ENTRY_BYTES
    lengths, rest = entries[16::_ENTRY_BYTES], entries[17::_ENTRY_BYTES]
    shapes = _NO_METADATA_FLEXIBLE if is_flexible else _NO_METADATA
    return any(lengths == length * count and rest == behind * count for length, behind in shapes)


@lru_cache(maxsize=64)
def _columns(count: int) -> tuple[struct.Struct, struct.Struct]:
    """Return structs that unpack `count` entries: the partitions as numbers, and pairs of the columns."""
    return struct.Struct(">" + "i14x" * count), struct.Struct("4s12s2x" * count)


def _read_string(buffer: Buffer, position: int, *, is_flexible: bool) -> tuple[str | None, int]:
    if is_flexible:
        length, position = read_uvarint(buffer, position)
        length -= 1
    else:
        (length,) = _int16(buffer, position)
        position += 2
    if length < 0:
        return None, position
    end = position + length
    if length > MAX_ID_BYTES or end > len(buffer):
        raise ValueError("a string is too long, or extends beyond the request")
    return str(buffer[position:end], "utf-8"), end


def _read_count(buffer: Buffer, position: int, *, is_flexible: bool) -> tuple[int, int]:
    if is_flexible:
        count, position = read_uvarint(buffer, position)
        return count - 1, position
    return _int32(buffer, position)[0], position + 4
