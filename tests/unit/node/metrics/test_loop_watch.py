"""The delay of the node's loop, and the CPU time of its longest turn."""

import asyncio

import pytest

from ottla.node.metrics import loop_watch
from ottla.node.metrics.loop_watch import LoopWatch

LOOK_EVERY_S = 0.001
TURN_S = 0.03


def test_the_longest_turn_is_in_cpu_time_and_waiting_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = LoopWatch()
    now_s = cpu_s = 0.0
    # The clocks advance only as the test says, so a busy machine makes no difference.
    monkeypatch.setattr(loop_watch, "monotonic_s", lambda: now_s)
    monkeypatch.setattr(LoopWatch, "cpu_s", lambda _: cpu_s)

    async def turn(*, lasts_s: float, works_s: float) -> float:
        """Run one turn of the loop, and return the longest turn that the next timer measures."""
        nonlocal now_s, cpu_s
        looks = sum(watch.lag.counts)
        now_s += lasts_s
        cpu_s += works_s
        while sum(watch.lag.counts) == looks:
            await asyncio.sleep(LOOK_EVERY_S)
        return watch.take_longest_turn_s()

    async def scenario() -> list[float]:
        watch.start(LOOK_EVERY_S)
        return [
            await turn(lasts_s=TURN_S, works_s=0.0),
            await turn(lasts_s=TURN_S, works_s=TURN_S),
            await turn(lasts_s=TURN_S, works_s=TURN_S / 2),
            await turn(lasts_s=0.0, works_s=TURN_S),
        ]

    waited_s, worked_s, half_s, short_s = asyncio.run(scenario())

    assert waited_s == short_s == 0.0
    assert worked_s == pytest.approx(TURN_S - LOOK_EVERY_S)
    assert half_s == pytest.approx(TURN_S / 2)
    assert watch.take_worst_s() == pytest.approx(TURN_S - LOOK_EVERY_S)
