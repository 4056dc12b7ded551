"""The receive buffer of a connection, by itself: the ends of frames, and the memory that they take."""

import struct

import pytest

from ottla.node.net.receive_buffer import (
    INITIAL_BUFFER_BYTES,
    INVALID_LENGTH,
    LARGE_FRAME_BYTES,
    MAPPED_BYTES,
    READ_AHEAD_FRAMES,
    ReceiveBuffer,
)
from ottla.node.net.receive_memory import ReceiveMemory

MAX_FRAME_BYTES = 100 << 20


class Owner:
    """An owner that reads frames out of a buffer as a connection does."""

    def __init__(self, memory: ReceiveMemory | None = None) -> None:
        self.memory = ReceiveMemory() if memory is None else memory
        self.buffer = ReceiveBuffer(self.memory, MAX_FRAME_BYTES)
        self.buffer.open()

    def receive(self, data: bytes) -> int:
        """Read once; return the number of bytes for which there was room."""
        buffer = self.buffer
        room = buffer.view[buffer.end : buffer.limit]
        taken = min(len(room), len(data))
        room[:taken] = data[:taken]
        buffer.end += taken
        return taken

    def serve(self) -> list[bytes]:
        """Take all whole frames, then make room for more."""
        buffer, frames = self.buffer, []
        buffer.peak_bytes = max(buffer.peak_bytes, buffer.end - buffer.start)
        buffer.frame_bytes = 0
        while (stop := buffer.frame_end(buffer.start)) > 0:
            frames.append(bytes(buffer.view[buffer.start + 4 : stop]))
            buffer.last_frame_bytes, buffer.start = stop - buffer.start, stop
        assert stop == 0
        if size_bytes := buffer.make_room(self):
            assert self.memory.reserve(self, size_bytes, lambda: None)
            buffer.grow(size_bytes)
        assert buffer.end < buffer.limit <= len(buffer.view)
        assert self.memory.used_bytes >= len(buffer.view)
        return frames

    def pass_through(self, data: bytes) -> list[bytes]:
        """Receive and serve until all bytes are taken."""
        frames = []
        while data:
            data = data[self.receive(data) :]
            frames += self.serve()
        return frames


@pytest.fixture
def owner() -> Owner:
    return Owner()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_a_frame_ends_where_its_length_says(owner: Owner) -> None:
    owner.receive(frame(b"one") + frame(b"") + frame(b"three")[:7])

    assert owner.buffer.frame_end(0) == 7
    assert owner.buffer.frame_end(7) == 11
    assert owner.buffer.frame_end(11) == 0
    assert owner.buffer.frame_bytes == 9, "of the one that is not whole"


@pytest.mark.parametrize("received", [0, 1, 3])
def test_a_frame_whose_length_is_not_there_is_not_whole(owner: Owner, received: int) -> None:
    owner.receive(frame(b"one")[:received])

    assert owner.buffer.frame_end(0) == owner.buffer.frame_bytes == 0
    assert not owner.buffer.has_whole_frame


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_no_frame_has_an_impossible_length(owner: Owner, size: int) -> None:
    owner.receive(struct.pack(">i", size))

    assert owner.buffer.frame_end(0) == INVALID_LENGTH


def test_a_frame_of_the_largest_size_may_come(owner: Owner) -> None:
    owner.receive(struct.pack(">i", MAX_FRAME_BYTES))

    assert owner.buffer.frame_end(0) == 0
    assert owner.buffer.frame_bytes == 4 + MAX_FRAME_BYTES


def test_a_whole_frame_can_be_served(owner: Owner) -> None:
    owner.receive(frame(b"one")[:-1])
    assert not owner.buffer.has_whole_frame

    owner.receive(b"e")

    assert owner.buffer.has_whole_frame


@pytest.mark.parametrize("size", [0, 100, 8_188, 8_189, 20_000, 65_536, 300_000, MAPPED_BYTES + 1])
def test_frames_of_any_size_come_through(owner: Owner, size: int) -> None:
    bodies = [bytes([number]) * (size + number) for number in range(5)]

    assert owner.pass_through(b"".join(map(frame, bodies))) == bodies


def test_an_empty_buffer_is_filled_from_its_front(owner: Owner) -> None:
    owner.receive(frame(bytes(1000)))

    owner.serve()

    buffer = owner.buffer
    assert (buffer.start, buffer.end, buffer.limit) == (0, 0, INITIAL_BUFFER_BYTES)


def test_a_half_received_frame_moves_to_the_front_only_if_it_would_not_fit(owner: Owner) -> None:
    owner.receive(frame(bytes(1000)) + frame(b"x" * 2000)[:500])
    owner.serve()
    assert owner.buffer.start == 1004, "it fits behind"

    owner = Owner()
    owner.receive(frame(bytes(1000)) + frame(b"x" * 8000)[:500])
    owner.serve()
    assert (owner.buffer.start, owner.buffer.end) == (0, 500)


def test_kept_bytes_do_not_move(owner: Owner) -> None:
    one = frame(b"x" * 1000)
    owner.receive(one)
    held = owner.buffer.view[4:1004]
    owner.buffer.start = owner.buffer.end

    assert owner.buffer.keep()
    owner.receive(b"y" * INITIAL_BUFFER_BYTES)

    assert bytes(held) == b"x" * 1000
    assert not owner.buffer.keep(), "it is full"


def test_a_buffer_grows_to_twice_what_it_has_and_no_further_than_its_frame(owner: Owner) -> None:
    owner.receive(struct.pack(">i", 20_000) + bytes(INITIAL_BUFFER_BYTES))
    assert owner.buffer.frame_end(0) == 0
    assert owner.buffer.make_room(owner) == 2 * INITIAL_BUFFER_BYTES

    owner.memory.take(2 * INITIAL_BUFFER_BYTES)
    owner.buffer.grow(2 * INITIAL_BUFFER_BYTES)
    owner.receive(bytes(INITIAL_BUFFER_BYTES))

    assert owner.buffer.frame_end(0) == 0
    assert owner.buffer.make_room(owner) == 20_004
    assert owner.memory.used_bytes == 2 * INITIAL_BUFFER_BYTES


def test_a_read_takes_whole_frames_of_a_client_that_has_several_in_flight(owner: Owner) -> None:
    one = frame(bytes(2 * LARGE_FRAME_BYTES))
    owner.pass_through(one)

    assert owner.buffer.limit == len(owner.buffer.view) == READ_AHEAD_FRAMES * len(one)
    owner.receive(one + one[:9])
    owner.serve()
    assert owner.buffer.limit == READ_AHEAD_FRAMES * len(one), "at the end of a frame"


def test_a_served_frame_gives_its_memory_back_while_memory_is_scarce() -> None:
    memory = ReceiveMemory(100_000)
    owner = Owner(memory)
    owner.receive(frame(bytes(20_000))[:INITIAL_BUFFER_BYTES])
    owner.serve()
    memory.take(60_000)

    owner.pass_through(frame(bytes(20_000))[INITIAL_BUFFER_BYTES:])

    assert memory.used_bytes == 60_000 + INITIAL_BUFFER_BYTES


def test_an_owner_that_owed_memory_owes_nothing_when_its_frame_was_served() -> None:
    memory = ReceiveMemory(20_000)
    owner = Owner(memory)
    memory.owner_in_debt = owner
    owner.receive(frame(b"one"))

    owner.serve()

    assert memory.owner_in_debt is None


def test_bytes_behind_a_served_frame_are_kept_when_its_memory_is_given_back(owner: Owner) -> None:
    owner.pass_through(frame(bytes(60_000)))
    owner.receive(frame(bytes(60_000)) + frame(b"behind")[:7])
    owner.buffer.start = 60_004

    owner.buffer.give_back(owner)

    assert owner.memory.used_bytes == len(owner.buffer.view) == INITIAL_BUFFER_BYTES
    assert bytes(owner.buffer.view[owner.buffer.start : owner.buffer.end]) == frame(b"behind")[:7]


def test_a_buffer_shrinks_when_it_was_not_needed_twice(owner: Owner) -> None:
    owner.pass_through(frame(bytes(65_536)))

    owner.buffer.shrink(owner, is_in_use=False)
    size_bytes = len(owner.buffer.view)
    assert size_bytes == 65_540, "so much was needed just now"
    owner.buffer.shrink(owner, is_in_use=True)
    assert len(owner.buffer.view) == size_bytes, "something points into it"
    owner.buffer.shrink(owner, is_in_use=False)

    assert owner.memory.used_bytes == len(owner.buffer.view) == INITIAL_BUFFER_BYTES


def test_a_closed_buffer_leaves_nothing_behind(owner: Owner) -> None:
    owner.pass_through(frame(bytes(65_536)))
    owner.memory.owner_in_debt = owner

    owner.buffer.close(owner)

    assert owner.memory.used_bytes == 0 and owner.memory.owner_in_debt is None
