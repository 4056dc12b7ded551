"""Random walks of connections that share a memory, with frames of any size, received in any pieces.

In every walk each frame is served once and answered in order, no waiting request sees its bytes change,
reading never continues without room, and the counted memory is that of the buffers.
"""

import asyncio
import struct
from random import Random
from typing import Any

import pytest

from ottla.node.net import connection as module
from ottla.node.net import gathered_answers, read_turn, receive_buffer
from ottla.node.net.answers import Answer, Pending, Run
from ottla.node.net.connection import Connection
from ottla.node.net.ordered_answers import PRODUCE_KEY
from ottla.node.net.receive_memory import ReceiveMemory
from tests.unit.node.net.test_connection import Peer

SEEDS = 100
STEPS = 400
SIZES = (0, 30, 500, 8_180, 20_000, 33_000, 65_536, 120_000, 300_000)


class Walker(Peer):
    """A peer with a stream of frames to send; its node answers each in one of the possible ways."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: ReceiveMemory,
        random: Random,
        gathered: gathered_answers.GatheredAnswers,
    ) -> None:
        super().__init__(loop, memory, gathered)
        self.random = random
        self.futures: list[asyncio.Future[None]] = []
        self.frames: list[bytes] = []
        self.answers: list[bytes] = []  # in the order in which they must be sent
        sizes = random.choices(SIZES, k=random.randint(1, 3))
        for number in range(random.randint(1, 60)):
            size = random.choice(sizes) + random.choice((0, 0, random.randint(0, 3000)))
            key = random.choice((b"\0\0", b"\0\0", b"\0\1"))
            self.frames.append((key + struct.pack(">i", number) * (size // 4 + 1))[:size])
        self.stream = memoryview(b"".join(struct.pack(">i", len(one)) + one for one in self.frames))
        self.served = 0
        self.listener.answer = self.answer_to
        self.connection.serve_by(self.listener.service._replace(serve_run=self.serve_run))
        self.write, self.transport.writelines = self.transport.writelines, self.writelines  # type: ignore

    def writelines(self, buffers: list[bytes]) -> None:
        self.write(buffers)
        if self.random.random() < 0.1 and not self.connection.is_write_blocked:
            self.connection.pause_writing()

    def pending(self, answers: list[bytes], view: memoryview, *, is_carried_out: bool) -> Pending:
        self.futures.append(self.loop.create_future())
        expected, keeps_nothing = bytes(view), not is_carried_out and self.random.random() < 0.3

        def encode(_: Any) -> Answer:
            assert is_carried_out or keeps_nothing or view == expected
            return list(answers)

        return Pending(self.futures[-1], encode, is_carried_out, keeps_nothing=keeps_nothing)

    def take(self, frame: memoryview) -> bytes:
        assert frame == self.frames[self.served], self.served
        self.served += 1
        return b"%d," % self.served

    def answer_to(self, frame: memoryview) -> Answer | Pending:
        answer = self.take(frame)
        chance = self.random.random()
        if chance < 0.1:
            return None
        self.answers.append(answer)
        if chance < 0.3:
            is_produce = bytes(frame[:2]) == PRODUCE_KEY
            return self.pending([answer], frame, is_carried_out=is_produce and self.random.random() < 0.7)
        return [answer, b""] if chance < 0.4 else [answer]

    def serve_run(self, connection: Connection, view: memoryview, position: int, end: int) -> Run | None:
        frames = []
        while end - position >= 4 and len(frames) < 32:
            stop = position + 4 + struct.unpack_from(">i", view, position)[0]
            if stop > end or view[position + 4 : position + 6] != PRODUCE_KEY:
                break
            frames.append(view[position + 4 : stop])
            position = stop
        if len(frames) < 2 or self.random.random() < 0.5:
            return None
        taken = [self.take(frame) for frame in frames]
        self.answers += taken
        is_owed = self.random.random() < 0.5
        answers = self.pending(taken, frames[0], is_carried_out=True) if is_owed else [b"".join(taken)]
        return Run(position, len(frames), answers)

    @property
    def is_under_way(self) -> bool:
        is_all_served = self.served == len(self.frames) and self.is_answered
        return not is_all_served or bool(self.futures) or self.connection.is_write_blocked

    @property
    def is_answered(self) -> bool:
        return b"".join(self.transport.sent) == b"".join(self.answers)

    def step(self) -> None:
        match self.random.randrange(8):
            case 0 | 1 | 2:
                size = self.random.choice((1, 5, 4_000, 40_000, 400_000, 4_000_000))
                self.stream = self.stream[self.send(self.stream[:size]) :]  # type: ignore[arg-type]
            case 3 | 4 if self.futures:
                future = self.futures.pop(self.random.randrange(len(self.futures)))
                if not future.done():
                    future.set_result(None)
                    if self.random.random() < 0.5:
                        self.listener.gathered.gather_until_answered()
            case 5 if self.connection.is_write_blocked:
                self.connection.resume_writing()
            case 6:
                self.connection.shrink()
            case _:
                self.loop.run_until_complete(asyncio.sleep(0))


def check(walkers: list[Walker], memory: ReceiveMemory) -> None:
    for one in walkers:
        if one.transport.is_reading:
            assert len(one.connection.get_buffer(-1)) > 0
    assert memory.used_bytes == sum(len(one.connection.buffer.view) for one in walkers)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_frame_is_served_once_and_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(receive_buffer, "READ_AHEAD_BYTES", random.choice((0, 50_000, 512 * 1024)))
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", random.choice((0.0, 9.0)))
    monkeypatch.setattr(module, "MAX_REQUESTS_PER_TURN", random.choice((2, 64)))
    monkeypatch.setattr(gathered_answers, "TRY_EVERY", random.choice((0, 3, 64)))
    monkeypatch.setattr(gathered_answers, "MAX_GATHERED", random.choice((2, 16)))
    monkeypatch.setattr(gathered_answers, "MAX_AHEAD", random.choice((0, 4)))
    loop = asyncio.new_event_loop()
    memory = ReceiveMemory(random.choice((20_000, 200_000, 2_000_000, 256 << 20)))
    gathered = gathered_answers.GatheredAnswers(loop)  # as a node's connections share one
    walkers = [Walker(loop, memory, random, gathered) for _ in range(random.randint(1, 5))]

    for _ in range(STEPS):
        one = random.choice(walkers)
        one.step()
        if random.random() < 0.002:
            one.transport.is_reading = False
            one.connection.connection_lost(None)
            walkers.remove(one)
            if not walkers:
                break
        check(walkers, memory)
    for _ in range(20_000):
        waiting = [one for one in walkers if one.is_under_way]
        if not waiting:
            break
        random.choice(waiting).step()
        check(walkers, memory)
    for one in walkers:
        assert not one.stream and one.served == len(one.frames) and one.is_answered
        one.connection.connection_lost(None)
    assert not memory.used_bytes and not memory._queue and memory.owner_in_debt is None
    loop.close()
