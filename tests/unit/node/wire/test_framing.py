"""A byte stream, cut anywhere, gives the same frames; false lengths cost nothing."""

import tracemalloc
from random import Random

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.framing import (
    SMALL_BUFFER_BYTES,
    TRUSTED_BYTES,
    FrameSplitter,
    foreign_protocol,
    frame_at,
)
from tests.traced_memory import peak_bytes

MAX_BYTES = 1000


def stream(*contents: bytes) -> bytes:
    return b"".join(len(content).to_bytes(4) + content for content in contents)


def feed(splitter: FrameSplitter, data: bytes) -> list[memoryview]:
    """Receive these bytes as a socket would; return the frames that they complete."""
    frames = []
    while data:
        room = splitter.room()
        count = min(len(room), len(data))
        assert count > 0
        room[:count] = data[:count]
        room.release()
        data = data[count:]
        frames += splitter.received(count)
    return frames


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
        frames = [f for at in range(0, len(sent), size) for f in feed(splitter, sent[at : at + size])]
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
        frames += feed(splitter, sent[position : position + size])
        position += size

    assert frames == contents


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_BYTES + 1, 2**31 - 1])
def test_an_impossible_length_is_rejected(length: int) -> None:
    with pytest.raises(
        KafkaError, match=f"a frame of {length} bytes (is impossible|is longer than the limit of 1000)"
    ) as refused:
        feed(FrameSplitter(MAX_BYTES), length.to_bytes(4, signed=True))

    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_frames_before_an_invalid_length_are_lost_with_the_stream() -> None:
    with pytest.raises(KafkaError):
        feed(FrameSplitter(MAX_BYTES), stream(b"a") + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("size", [10_000, 65_536, 1_000_000])
def test_large_frames_come_out_whole_among_small_ones(size: int) -> None:
    random = Random(2)
    contents = [random.randbytes(count) for count in (5, 3 * size, 7, 70_000, 65_532, 65_533, 200_000, 0, 9)]
    sent = stream(*contents)

    splitter = FrameSplitter(10_000_000)
    frames = [bytes(f) for at in range(0, len(sent), size) for f in feed(splitter, sent[at : at + size])]

    assert frames == contents


def test_a_buffer_is_reused_for_the_next_large_frame_unless_a_view_of_it_is_left() -> None:
    splitter = FrameSplitter(10_000_000)
    contents = [bytes([number]) * 200_000 for number in range(4)]

    held = feed(splitter, stream(contents[0]))
    first = held[0].obj
    again = feed(splitter, stream(contents[1]))
    assert again[0].obj is not first
    assert held == [contents[0]]
    second = again[0].obj
    del again
    third = feed(splitter, stream(contents[2]))

    assert third[0].obj is second
    assert third == [contents[2]]


def test_a_buffer_that_is_not_used_for_long_is_given_back() -> None:
    splitter = FrameSplitter(100_000_000)
    tracemalloc.start()
    try:
        feed(splitter, stream(bytes(5_000_000)))
        before, _ = tracemalloc.get_traced_memory()
        feed(splitter, stream(*[b"small"] * 200))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert before > 5_000_000
    assert after < 1_000_000


def test_an_announced_size_costs_little_more_than_what_arrives() -> None:
    def announce(then: int) -> None:
        splitter = FrameSplitter(100_000_000)
        assert feed(splitter, (100_000_000).to_bytes(4) + bytes(1000)) == []
        assert feed(splitter, bytes(then)) == []

    assert peak_bytes(lambda: announce(then=0)) < TRUSTED_BYTES + 2 * SMALL_BUFFER_BYTES
    # The received bytes, in the old and the new buffer, and the test's own copy.
    assert peak_bytes(lambda: announce(then=TRUSTED_BYTES)) < 5 * TRUSTED_BYTES


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"HTTP/1.1 400 Bad Request", "HTTP"),
        (b"GET / HTTP/1.1", "HTTP"),
        (b"POST /v3 HTTP/1.1", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"\x00\x00\x00\x1a\x00\x12", None),
        (b"", None),
    ],
)
def test_another_protocol_is_recognized_by_its_first_bytes(head: bytes, name: str | None) -> None:
    assert foreign_protocol(head) == name
    if name is not None:
        with pytest.raises(KafkaError, match=f"its bytes are {name}, not the Kafka protocol"):
            feed(FrameSplitter(MAX_BYTES), head)
