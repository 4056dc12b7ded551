"""A byte stream, cut anywhere, gives the same frames; lengths that lie cost nothing."""

import tracemalloc
from random import Random

import pytest

from logstore.errors import ErrorCode, KafkaError
from node.wire.framing import FrameSplitter, frame_at

MAX_BYTES = 1000


def stream(*contents: bytes) -> bytes:
    return b"".join(len(content).to_bytes(4) + content for content in contents)


def test_a_frame_is_found_when_its_last_byte_is_there() -> None:
    buffer = b"??" + stream(b"abc")

    assert frame_at(buffer, 2, len(buffer), MAX_BYTES) == (6, 9)
    for end in range(2, len(buffer)):
        assert frame_at(buffer, 2, end, MAX_BYTES) is None


def test_frames_come_out_however_the_stream_is_cut() -> None:
    contents = [b"a", b"", b"bc" * 100, b"d" * MAX_BYTES, b"e"]
    sent = stream(*contents)

    for size in (1, 2, 3, 4, 5, 7, 100, 1003, len(sent)):
        splitter = FrameSplitter(MAX_BYTES)
        frames = [f for at in range(0, len(sent), size) for f in splitter.feed(sent[at : at + size])]
        assert frames == contents


def test_random_pieces_give_the_same_frames() -> None:
    random = Random(1)
    contents = [random.randbytes(random.randint(0, 300)) for _ in range(200)]
    sent = stream(*contents)
    splitter = FrameSplitter(MAX_BYTES)
    frames: list[memoryview] = []
    position = 0
    while position < len(sent):
        size = random.randint(1, 700)
        frames += splitter.feed(sent[position : position + size])
        position += size

    assert frames == contents


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_BYTES + 1, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(KafkaError, match=f"a frame of {length} bytes; 1000 is the most") as refused:
        FrameSplitter(MAX_BYTES).feed(length.to_bytes(4, signed=True))

    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_frames_before_a_senseless_length_are_lost_with_the_stream() -> None:
    with pytest.raises(KafkaError):
        FrameSplitter(MAX_BYTES).feed(stream(b"a") + b"\xff\xff\xff\xff")


def test_an_announced_size_allocates_nothing() -> None:
    splitter = FrameSplitter(100_000_000)
    tracemalloc.start()
    try:
        assert splitter.feed((100_000_000).to_bytes(4) + bytes(1000)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 10_000
