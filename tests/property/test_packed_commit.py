"""Commits that are read and answered by columns say the same as by the general codec."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ErrorCode, KafkaError
from logstore.schema_compiler import decode, decoder, encode
from node.kafka_api.packed_commit import PackedCommit, encode_answer, packing_decoder
from node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = st.integers(2, 10)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.just("x" * 200)
NOTHING = st.sampled_from([None, ""])


def numbers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def requests(draw: st.DrawFn, version: int) -> OffsetCommitRequest:
    metadata = draw(st.sampled_from([st.just(None), st.just(""), NOTHING, NOTHING | TEXTS]))
    partition = st.builds(
        OffsetCommitRequestPartition,
        partition_index=numbers(32),
        committed_offset=numbers(64),
        committed_leader_epoch=numbers(32) if version >= 6 else st.just(-1),
        committed_metadata=metadata,
    )
    topic = st.builds(
        OffsetCommitRequestTopic,
        name=TEXTS if version < 10 else st.just(""),
        topic_id=st.binary(min_size=16, max_size=16) if version >= 10 else st.just(bytes(16)),
        partitions=st.lists(partition, max_size=30) | st.lists(partition, min_size=130, max_size=140),
    )
    return OffsetCommitRequest(
        group_id=draw(TEXTS),
        generation_id_or_member_epoch=draw(numbers(32)),
        member_id=draw(TEXTS),
        group_instance_id=draw(TEXTS | st.none()) if version >= 7 else None,
        topics=draw(st.lists(topic, max_size=3)),
    )


def said(request: OffsetCommitRequest) -> Any:
    """A request without the difference between no metadata and empty ones, which nobody looks at."""
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
def test_both_read_the_same(data: st.DataObject, version: int) -> None:
    content = encode(data.draw(requests(version)), version)

    read = packed(version, content)

    opened = read.opened() if isinstance(read, PackedCommit) else read
    assert said(opened) == said(decode(OffsetCommitRequest, version, content))


@given(data=st.data(), version=st.integers(6, 10), error=st.sampled_from(ErrorCode))
def test_both_answer_the_same(data: st.DataObject, version: int, error: ErrorCode) -> None:
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


@given(data=st.data(), version=st.integers(6, 10))
def test_of_damaged_requests_both_say_the_same(data: st.DataObject, version: int) -> None:
    content = bytearray(encode(data.draw(requests(version)), version))
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))] + data.draw(st.binary(max_size=2))

    def reads(way: Any) -> Any:
        try:
            request, end = way(bytes(content), 0)
        except KafkaError as refused:
            return refused.code
        return said(request.opened() if isinstance(request, PackedCommit) else request), end

    general = decoder(OffsetCommitRequest, version)
    assert reads(packing_decoder(version, general)) == reads(general)


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
    assert is_packed(9, 1) and is_packed(9, 4_096)
    assert not is_packed(9, 0) and not is_packed(9, 4_097)
    assert not is_packed(9, 100, "note") and not is_packed(5, 100)
