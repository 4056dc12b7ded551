"""The order of dead letters: an unreachable partition does not hold up others."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share import letter_order
from ottla.node.share.letter_order import MAX_DOUBTFUL, MAX_OF_TOPIC, MAX_PAUSE_S, LetterOrder, Sent

DEAD, ALIVE = b"dead".ljust(16, b"."), b"alive".ljust(16, b".")
TIMED_OUT = KafkaError(ErrorCode.REQUEST_TIMED_OUT)


class World:
    """An order of letters, and the batches that are sent in it."""

    def __init__(self) -> None:
        self.order = LetterOrder(sleep=self.sleep, chance=lambda: 0.5)
        self.pauses: list[float] = []
        self.may_wake = asyncio.Event()
        self.may_wake.set()
        self.in_flight: list[tuple[bytes, int]] = []
        self.most_in_flight = 0
        self.attempts = 0
        self.may_proceed = asyncio.Event()
        self.error: KafkaError | None = None

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.may_wake.wait()
        await asyncio.sleep(0)

    def send(self, topic_id: bytes, partition: int = 0) -> "asyncio.Task[Sent]":
        async def attempt() -> Sent:
            self.attempts += 1
            self.in_flight.append((topic_id, partition))
            self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
            if topic_id == DEAD:
                await self.may_proceed.wait()
            self.in_flight.remove((topic_id, partition))
            return Sent(1, (), self.error if topic_id == DEAD else None)

        return asyncio.ensure_future(self.order.attempt_in_turn(topic_id, partition, attempt))

    async def fail(self, partition: int = 0) -> None:
        """Let one attempt at a partition fail."""
        self.error = TIMED_OUT
        self.may_proceed.set()
        assert (await self.send(DEAD, partition)).error is not None
        self.may_proceed.clear()


def play(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(10):
            await scenario(World())

    asyncio.run(run())


async def run_pending() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_partition_gets_one_batch_at_a_time() -> None:
    async def scenario(world: World) -> None:
        sending = [world.send(DEAD) for _ in range(5)]
        await run_pending()
        assert world.in_flight == [(DEAD, 0)]

        world.may_proceed.set()

        assert [one.error for one in await asyncio.gather(*sending)] == [None] * 5
        assert (world.most_in_flight, world.attempts, len(world.order)) == (1, 5, 0)

    play(scenario)


def test_callers_that_wait_for_a_partition_share_the_failure_of_an_attempt() -> None:
    async def scenario(world: World) -> None:
        world.error = TIMED_OUT
        sending = [world.send(DEAD) for _ in range(200)]
        await run_pending()

        world.may_proceed.set()

        ended = await asyncio.gather(*sending)
        assert {one.error.code for one in ended if one.error is not None} == {ErrorCode.REQUEST_TIMED_OUT}
        assert (len(ended), world.attempts) == (200, 1)

    play(scenario)


def test_an_error_of_the_contents_of_a_batch_is_not_shared() -> None:
    async def scenario(world: World) -> None:
        world.error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        sending = [world.send(DEAD) for _ in range(3)]
        world.may_proceed.set()

        await asyncio.gather(*sending)

        assert (world.attempts, world.pauses) == (3, [])

    play(scenario)


@pytest.mark.parametrize("code", [ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_an_error_that_is_not_of_the_partition_fails_one_batch(code: ErrorCode) -> None:
    async def scenario(world: World) -> None:
        world.error = KafkaError(code)
        sending = [world.send(DEAD) for _ in range(3)]
        world.may_proceed.set()

        await asyncio.gather(*sending)

        assert (world.attempts, world.pauses, len(world.order)) == (3, [], 0)

    play(scenario)


def test_pauses_grow_to_a_limit_and_start_again_after_a_success() -> None:
    async def scenario(world: World) -> None:
        for _ in range(7):
            await world.fail()
        assert [round(one) for one in world.pauses] == [1, 2, 4, MAX_PAUSE_S, MAX_PAUSE_S, MAX_PAUSE_S]
        world.error = None
        world.may_proceed.set()
        await world.send(DEAD)
        world.pauses.clear()

        await world.fail()
        await world.fail()

        assert [round(one) for one in world.pauses] == [1]

    play(scenario)


def test_a_topic_that_hangs_gets_a_part_of_the_slots() -> None:
    async def scenario(world: World) -> None:
        hanging = [world.send(DEAD, partition) for partition in range(300)]
        await run_pending()
        assert len(world.in_flight) == MAX_OF_TOPIC

        assert (await world.send(ALIVE)).error is None

        world.may_proceed.set()
        await asyncio.gather(*hanging)

    play(scenario)


def test_partitions_that_have_failed_use_slots_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_order, "MAX_ON_THEIR_WAY", 1)

    async def scenario(world: World) -> None:
        await world.fail(0)
        hanging = world.send(DEAD, 0)
        await run_pending()
        assert world.in_flight == [(DEAD, 0)]

        assert (await world.send(ALIVE)).error is None

        world.may_proceed.set()
        await hanging

    play(scenario)


def test_attempts_at_partitions_that_have_failed_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_order, "MAX_OF_TOPIC", 1_000)

    async def scenario(world: World) -> None:
        for partition in range(MAX_DOUBTFUL + 9):
            await world.fail(partition)
        hanging = [world.send(DEAD, partition) for partition in range(MAX_DOUBTFUL + 9)]
        await run_pending()
        assert len(world.in_flight) == MAX_DOUBTFUL

        world.may_proceed.set()
        await asyncio.gather(*hanging)

    play(scenario)


def test_callers_that_come_in_a_pause_share_the_attempt_after_it() -> None:
    async def scenario(world: World) -> None:
        await world.fail()
        world.may_wake.clear()
        sending = [world.send(DEAD) for _ in range(9)]
        await run_pending()
        assert not world.in_flight
        world.may_proceed.set()
        attempts = world.attempts

        world.may_wake.set()

        assert all(one.error for one in await asyncio.gather(*sending))
        assert world.attempts == attempts + 1

    play(scenario)


def test_partitions_without_callers_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_order, "MAX_REMEMBERED", 10)

    async def scenario(world: World) -> None:
        for partition in range(30):
            await world.fail(partition)
        world.pauses.clear()
        await world.fail(29)
        await world.fail(0)

        assert len(world.order) == 10
        assert len(world.pauses) == 1  # for the partition that is remembered

    play(scenario)


def test_a_cancelled_caller_leaves_its_turn_to_others() -> None:
    async def scenario(world: World) -> None:
        first, second = world.send(DEAD), world.send(DEAD)
        await run_pending()
        first.cancel()
        await run_pending()
        assert len(world.in_flight) == 2  # the cancelled attempt is still listed

        world.may_proceed.set()

        assert (await second).error is None
        assert len(world.order) == 0

    play(scenario)
