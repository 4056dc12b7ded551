"""Commits that are decoded and encoded by columns equal those of the general codec."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decode, decoder, encode
from ottla.node.kafka_api.packed_commit import PackedCommit, encode_answer, packing_decoder
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = st.integers(2, 10)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.just("x" * 200)
# The metadata that the partitions of a request may have.
METADATA: tuple[tuple[str | None, ...], ...] = (("",), (None,), ("", None), ("", None, "note", "n" * 300))
COUNTS = st.integers(0, 30) | st.integers(125, 135)  # a flexible count takes a second byte from 127 on
# Values are drawn from one number: drawing some hundred of each would be slow in hypothesis.


@st.composite
def requests(draw: st.DrawFn, version: int) -> OffsetCommitRequest:
    chance = random.Random(draw(st.integers(0, 2**32)))
    metadata = draw(st.sampled_from(METADATA))

    def number(bits: int) -> int:
        return chance.choice((0, 1, -1, chance.getrandbits(bits - 1), -(2 ** (bits - 1))))

    def partition() -> OffsetCommitRequestPartition:
        return OffsetCommitRequestPartition(
            partition_index=number(32),
            committed_offset=number(64),
            committed_leader_epoch=number(32) if version >= 6 else -1,
            committed_metadata=chance.choice(metadata),
        )

    return OffsetCommitRequest(
        group_id=draw(TEXTS),
        generation_id_or_member_epoch=number(32),
        member_id=draw(TEXTS),
        group_instance_id=draw(TEXTS | st.none()) if version >= 7 else None,
        topics=[
            OffsetCommitRequestTopic(
                name=draw(TEXTS) if version < 10 else "",
                topic_id=chance.randbytes(16) if version >= 10 else bytes(16),
                partitions=[partition() for _ in range(count)],
            )
            for count in draw(st.lists(COUNTS, max_size=3))
        ],
    )


def normalized(request: OffsetCommitRequest) -> Any:
    """Return a request for comparison; null and empty metadata count as equal."""
    return (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        [
            (
                topic.name,
                bytes(topic.topic_id),
                [
                    (
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata or "",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def packed(version: int, content: bytes) -> OffsetCommitRequest | PackedCommit:
    request, end = packing_decoder(version, decoder(OffsetCommitRequest, version))(content, 0)
    assert end == len(content)
    return request


@given(data=st.data(), version=VERSIONS)
def test_both_codecs_decode_the_same_request(data: st.DataObject, version: int) -> None:
    content = encode(data.draw(requests(version)), version)

    read = packed(version, content)

    opened = read.opened() if isinstance(read, PackedCommit) else read
    assert normalized(opened) == normalized(decode(OffsetCommitRequest, version, content))


@given(data=st.data(), version=st.integers(6, 10), error=st.sampled_from(ErrorCode))
def test_both_codecs_encode_the_same_response(data: st.DataObject, version: int, error: ErrorCode) -> None:
    read = packed(version, encode(data.draw(requests(version)), version))

    if isinstance(read, PackedCommit):
        answer = OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=each, error_code=error)
                        for each in topic.partitions
                    ],
                )
                for topic in read.topics
            ]
        )
        assert encode_answer(version, read, error) == encode(answer, version)


def assert_read_alike(version: int, content: bytes) -> None:
    general = decoder(OffsetCommitRequest, version)
    assert read_commit(packing_decoder(version, general), content) == read_commit(general, content)


def read_commit(decoder_of: Any, content: bytes) -> Any:
    try:
        request, end = decoder_of(content, 0)
    except KafkaError as error:
        return error.code
    return normalized(request.opened() if isinstance(request, PackedCommit) else request), end


@given(data=st.data(), version=st.integers(6, 10))
def test_both_codecs_treat_damaged_requests_alike(data: st.DataObject, version: int) -> None:
    content = bytearray(encode(data.draw(requests(version)), version))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    assert_read_alike(version, bytes(content))


@pytest.mark.parametrize("version", range(6, 11))
@pytest.mark.parametrize("name", ["n", ""])
def test_both_codecs_agree_on_any_changed_byte_and_any_prefix(name: str, version: int) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=each, committed_metadata="")
        for each in range(3)
    ]
    topics = [OffsetCommitRequestTopic(name=name if version < 10 else "", partitions=partitions)] * 2
    content = encode(OffsetCommitRequest(group_id=name, member_id=name, topics=topics), version)

    for position in range(len(content)):
        assert_read_alike(version, content[:position])
        for byte in (0, 1, 2, 3, 127, 128, 255):
            assert_read_alike(version, content[:position] + bytes([byte]) + content[position + 1 :])
    for tail in (b"\0", b"\1", b"\0\0", bytes(18)):
        assert_read_alike(version, content + tail)


def test_the_usual_shape_is_read_by_columns_and_others_are_not() -> None:
    def request(count: int, metadata: str | None) -> OffsetCommitRequest:
        partitions = [
            OffsetCommitRequestPartition(partition_index=each, committed_metadata=metadata)
            for each in range(count)
        ]
        return OffsetCommitRequest(topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])

    def is_packed(version: int, count: int, metadata: str | None = "") -> bool:
        return isinstance(packed(version, encode(request(count, metadata), version)), PackedCommit)

    assert all(is_packed(version, 100) and is_packed(version, 100, None) for version in range(6, 11))
    assert is_packed(9, 1) and is_packed(9, 4_095)
    assert not is_packed(9, 0) and not is_packed(9, 4_096)
    assert not isinstance(packed(9, encode(OffsetCommitRequest(), 9)), PackedCommit)
    assert not is_packed(9, 100, "note") and not is_packed(5, 100)
