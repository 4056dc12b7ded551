"""Pauses of periodic work: they end early for news, and at times that all such work shares."""

import asyncio
import random

import pytest

from ottla.node.work.pause import until_next, wait_at_most
from tests.simulation.virtual_loop import VirtualLoop


def test_a_pause_ends_with_its_time_or_with_news_which_it_clears() -> None:
    async def scene() -> list[float]:
        loop, news, ends = asyncio.get_running_loop(), asyncio.Event(), list[float]()
        begin = loop.time()
        loop.call_later(0.2, news.set)
        for _ in range(2):
            await wait_at_most(news, 0.5)
            ends.append(loop.time() - begin)
        return ends

    assert VirtualLoop(random.Random(1)).run(scene(), limit_s=10) == pytest.approx([0.2, 0.7])


@pytest.mark.parametrize("begin_s", [0.001, 0.2, 0.449])
def test_periodic_work_that_began_at_different_times_wakes_together(begin_s: float) -> None:
    async def scene() -> list[float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(begin_s - loop.time() % 0.5)
        begin, ends = loop.time() - begin_s, list[float]()
        for _ in range(3):
            await asyncio.sleep(until_next(0.5))
            ends.append(loop.time() - begin)
        return ends

    assert VirtualLoop(random.Random(1)).run(scene(), limit_s=10) == pytest.approx([0.5, 1.0, 1.5])


def test_a_pause_is_never_much_shorter_than_its_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer may end slightly early, and must not end twice for one time."""

    async def scene() -> float:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 7.499)
        return until_next(0.5)

    assert asyncio.run(scene()) == pytest.approx(0.501)
