"""The order of dead letters: an unreachable partition does not hold up others."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share import letter_lanes
from ottla.node.share.letter_lanes import MAX_DOUBTFUL, MAX_OF_TOPIC, MAX_PAUSE_S, LetterLanes, Sent

DEAD, ALIVE = b"dead".ljust(16, b"."), b"alive".ljust(16, b".")
UNREACHED = KafkaError(ErrorCode.REQUEST_TIMED_OUT)


class World:
    """Lanes, and the batches that are sent through them."""

    def __init__(self) -> None:
        self.lanes = LetterLanes(sleep=self.sleep, chance=lambda: 0.5)
        self.pauses: list[float] = []
        self.wakes = asyncio.Event()
        self.wakes.set()
        self.under_way: list[tuple[bytes, int]] = []
        self.most = 0
        self.attempts = 0
        self.goes_on = asyncio.Event()
        self.error: KafkaError | None = None

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.wakes.wait()
        await asyncio.sleep(0)

    def send(self, topic_id: bytes, partition: int = 0) -> "asyncio.Task[Sent]":
        async def attempt() -> Sent:
            self.attempts += 1
            self.under_way.append((topic_id, partition))
            self.most = max(self.most, len(self.under_way))
            if topic_id == DEAD:
                await self.goes_on.wait()
            self.under_way.remove((topic_id, partition))
            return Sent(1, (), self.error if topic_id == DEAD else None)

        return asyncio.ensure_future(self.lanes.in_turn(topic_id, partition, attempt))

    async def fail(self, partition: int = 0) -> None:
        """Let one attempt at a partition fail."""
        self.error = UNREACHED
        self.goes_on.set()
        assert (await self.send(DEAD, partition)).error is not None
        self.goes_on.clear()


def play(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(10):
            await story(World())

    asyncio.run(run())


async def rest() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_partition_gets_one_batch_at_a_time() -> None:
    async def story(world: World) -> None:
        sending = [world.send(DEAD) for _ in range(5)]
        await rest()
        assert world.under_way == [(DEAD, 0)]

        world.goes_on.set()

        assert [one.error for one in await asyncio.gather(*sending)] == [None] * 5
        assert (world.most, world.attempts, len(world.lanes)) == (1, 5, 0)

    play(story)


def test_callers_that_wait_for_a_partition_share_the_failure_of_an_attempt() -> None:
    async def story(world: World) -> None:
        world.error = UNREACHED
        sending = [world.send(DEAD) for _ in range(200)]
        await rest()

        world.goes_on.set()

        ended = await asyncio.gather(*sending)
        assert {one.error.code for one in ended if one.error is not None} == {ErrorCode.REQUEST_TIMED_OUT}
        assert (len(ended), world.attempts) == (200, 1)

    play(story)


def test_an_error_of_the_contents_of_a_batch_is_not_shared() -> None:
    async def story(world: World) -> None:
        world.error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        sending = [world.send(DEAD) for _ in range(3)]
        world.goes_on.set()

        await asyncio.gather(*sending)

        assert (world.attempts, world.pauses) == (3, [])

    play(story)


@pytest.mark.parametrize("code", [ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_an_error_that_is_not_of_the_partition_fails_one_batch(code: ErrorCode) -> None:
    async def story(world: World) -> None:
        world.error = KafkaError(code)
        sending = [world.send(DEAD) for _ in range(3)]
        world.goes_on.set()

        await asyncio.gather(*sending)

        assert (world.attempts, world.pauses, len(world.lanes)) == (3, [], 0)

    play(story)


def test_pauses_grow_to_a_limit_and_start_again_after_a_success() -> None:
    async def story(world: World) -> None:
        for _ in range(7):
            await world.fail()
        assert [round(one) for one in world.pauses] == [1, 2, 4, MAX_PAUSE_S, MAX_PAUSE_S, MAX_PAUSE_S]
        world.error = None
        world.goes_on.set()
        await world.send(DEAD)
        world.pauses.clear()

        await world.fail()
        await world.fail()

        assert [round(one) for one in world.pauses] == [1]

    play(story)


def test_a_topic_that_hangs_gets_a_part_of_the_slots() -> None:
    async def story(world: World) -> None:
        hanging = [world.send(DEAD, partition) for partition in range(300)]
        await rest()
        assert len(world.under_way) == MAX_OF_TOPIC

        assert (await world.send(ALIVE)).error is None

        world.goes_on.set()
        await asyncio.gather(*hanging)

    play(story)


def test_partitions_that_have_failed_use_slots_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_lanes, "MAX_ON_THEIR_WAY", 1)

    async def story(world: World) -> None:
        await world.fail(0)
        hanging = world.send(DEAD, 0)
        await rest()
        assert world.under_way == [(DEAD, 0)]

        assert (await world.send(ALIVE)).error is None

        world.goes_on.set()
        await hanging

    play(story)


def test_attempts_at_partitions_that_have_failed_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_lanes, "MAX_OF_TOPIC", 1_000)

    async def story(world: World) -> None:
        for partition in range(MAX_DOUBTFUL + 9):
            await world.fail(partition)
        hanging = [world.send(DEAD, partition) for partition in range(MAX_DOUBTFUL + 9)]
        await rest()
        assert len(world.under_way) == MAX_DOUBTFUL

        world.goes_on.set()
        await asyncio.gather(*hanging)

    play(story)


def test_callers_that_come_in_a_pause_share_the_attempt_after_it() -> None:
    async def story(world: World) -> None:
        await world.fail()
        world.wakes.clear()
        sending = [world.send(DEAD) for _ in range(9)]
        await rest()
        assert not world.under_way
        world.goes_on.set()
        attempts = world.attempts

        world.wakes.set()

        assert all(one.error for one in await asyncio.gather(*sending))
        assert world.attempts == attempts + 1

    play(story)


def test_partitions_without_callers_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_lanes, "MAX_REMEMBERED", 10)

    async def story(world: World) -> None:
        for partition in range(30):
            await world.fail(partition)
        world.pauses.clear()
        await world.fail(29)
        await world.fail(0)

        assert len(world.lanes) == 10
        assert len(world.pauses) == 1  # for the partition that is remembered

    play(story)


def test_a_cancelled_caller_leaves_its_turn_to_others() -> None:
    async def story(world: World) -> None:
        first, second = world.send(DEAD), world.send(DEAD)
        await rest()
        first.cancel()
        await rest()
        assert len(world.under_way) == 2  # the cancelled attempt is still listed

        world.goes_on.set()

        assert (await second).error is None
        assert len(world.lanes) == 0

    play(story)
