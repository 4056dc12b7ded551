"""Slots are shared among addresses: a share of them, a queue for each, and turns in rotation."""

import asyncio
from contextlib import ExitStack

import pytest

from ottla.node.rest_api import fair_slots
from ottla.node.rest_api.fair_slots import Bounds, FairSlots
from ottla.node.rest_api.rest_error import RestError

BOUNDS = Bounds(4, 2, 6, 4)


class Work:
    """Work that holds slots until it is ended, each named by its address and a number."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.slots = FairSlots("reads", "pages of records are being read", bounds)
        self.at_work: list[str] = []
        self.refused: list[RestError] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str, timeout_s: float = 60.0) -> None:
        for name in names:
            self.ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._work(name, timeout_s))
            await self.settle()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await self.settle()

    async def end_all(self) -> None:
        for name in self.ends:
            self.ends[name].set()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _work(self, name: str, timeout_s: float) -> None:
        try:
            async with self.slots.slot(name[0], timeout_s):
                self.at_work.append(name)
                await self.ends[name].wait()
                self.at_work.remove(name)
        except RestError as error:
            self.refused.append(error)


def test_one_address_leaves_slots_to_others() -> None:
    async def run() -> None:
        work = Work()

        await work.ask("a1", "a2", "a3", "b1")

        assert work.at_work == ["a1", "a2", "b1"]
        await work.end("a1")
        assert work.at_work == ["a2", "b1", "a3"]
        await work.end_all()
        assert work.slots.reading[1:] == (0, 0, {"address": 0, "node": 0, "time": 0})

    asyncio.run(run())


def test_turns_go_around_among_waiting_callers() -> None:
    async def run() -> None:
        work = Work(Bounds(2, 2, 10, 10))
        await work.ask("a1", "a2", "a3", "a4", "b1", "b2", "c1")

        for name in ("a1", "a2", "b1", "c1"):
            await work.end(name)

        assert work.at_work == ["a3", "b2"], "b and c came before the third of a, and then by turns"
        await work.end_all()

    asyncio.run(run())


def test_a_request_beyond_a_queue_is_refused_at_once_with_a_time_to_retry() -> None:
    async def run() -> None:
        work = Work()

        await work.ask(*(f"a{number}" for number in range(7)), "b1", "b2", "b3", "b4", "c1")

        messages = [str(one) for one in work.refused]
        assert messages == [
            "Too many pages of records are being read for this client.",
            "Too many pages of records are being read on this node.",
        ]
        assert {(one.status, one.retry_after_s) for one in work.refused} == {(429, 2)}
        assert work.slots.reading == ("reads", 4, 6, {"address": 1, "node": 1, "time": 0})
        await work.end_all()

    asyncio.run(run())


def test_a_caller_that_goes_or_waits_for_too_long_leaves_the_queue() -> None:
    async def run() -> None:
        work = Work(Bounds(1, 1, 5, 5))
        await work.ask("a1", "b1")
        await work.ask("c1", timeout_s=0.001)
        work.tasks["b1"].cancel()
        await asyncio.gather(work.tasks["b1"], work.tasks["c1"], return_exceptions=True)

        assert [str(one) for one in work.refused] == [
            "The request waited too long for its turn: too many pages of records are being read."
        ]
        assert work.slots.reading[1:] == (1, 0, {"address": 0, "node": 0, "time": 1})
        await work.end_all()

    asyncio.run(run())


def test_a_turn_is_not_given_to_a_waiter_that_is_just_cancelled() -> None:
    async def run() -> None:
        work = Work(Bounds(1, 1, 5, 5))
        await work.ask("a1", "b1", "c1")

        work.ends["a1"].set()
        work.tasks["b1"].cancel()
        await work.settle()

        assert work.at_work == ["c1"]
        assert work.tasks["b1"].cancelled()
        await work.end_all()
        assert work.slots.reading[1:3] == (0, 0)

    asyncio.run(run())


def test_a_turn_that_comes_as_its_waiter_is_cancelled_goes_to_the_next() -> None:
    async def run() -> None:
        work = Work(Bounds(1, 1, 5, 5))
        await work.ask("a1", "b1", "c1")

        work.ends["a1"].set()
        await asyncio.sleep(0)
        work.tasks["b1"].cancel()
        await work.settle()
        await work.settle()

        assert work.at_work == ["c1"]
        await work.end_all()

    asyncio.run(run())


def test_long_work_of_the_address_with_most_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_slots, "LEAST_TURN_S", -1.0)

    async def run() -> None:
        work = Work(Bounds(2, 2, 5, 5))
        async with work.slots.slot("a", 1.0) as should_end, work.slots.slot("a", 1.0):
            alone = should_end()
            await work.ask("b1")

            assert (alone, should_end()) == (False, True)
        await work.end_all()

    asyncio.run(run())


def test_slots_without_a_queue_are_had_at_once_or_not() -> None:
    tails = FairSlots("tails", "live tails", Bounds(3, 2))

    with ExitStack() as held:
        for address in ("a", "a", "b"):
            held.enter_context(tails.slot_now(address))
        for address in ("a", "c"):
            with pytest.raises(RestError), tails.slot_now(address):
                pass

        assert tails.reading == ("tails", 3, 0, {"address": 1, "node": 1, "time": 0})
    tails.check("a")
