"""Long work sleeps once in a turn, and short work never sleeps."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.node.metrics import pace as module
from ottla.node.metrics.pace import PAUSE_S, TURN_S, Pace


class FakeSleep:
    """The part of asyncio that a pace uses."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.sleep = sleep


def test_a_pause_is_a_sleep_when_a_turn_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        slept.append(seconds)
        now_s += seconds

    monkeypatch.setattr(module, "monotonic_s", lambda: now_s)
    # In this module only: nodes of other tests may be running in this process.
    monkeypatch.setattr(module, "asyncio", FakeSleep(sleep))
    pace = Pace()

    async def work(seconds: float) -> int:
        nonlocal now_s
        now_s += seconds
        await pace.pause()
        return len(slept)

    async def after_each_piece() -> list[int]:
        return [await work(TURN_S * 0.6) for _ in range(5)]

    assert asyncio.run(after_each_piece()) == [0, 1, 1, 2, 2]
    assert set(slept) == {PAUSE_S}
