"""How late the node's loop is, and how long its longest turn was."""

import asyncio
import time

from ottla.node.metrics.loop_watch import LoopWatch

LOOK_EVERY_S = 0.001
TURN_S = 0.03


def test_the_longest_turn_is_told_in_cpu_time_and_waiting_counts_for_nothing() -> None:
    watch = LoopWatch()

    async def story() -> tuple[float, float]:
        watch.start(LOOK_EVERY_S)
        await asyncio.sleep(0)
        time.sleep(TURN_S)  # noqa: ASYNC251 - the loop is held up, but by nothing that it does
        await asyncio.sleep(2 * LOOK_EVERY_S)
        waited_s = watch.take_longest_turn_s()
        until_s = time.thread_time() + TURN_S
        while time.thread_time() < until_s:
            pass
        await asyncio.sleep(2 * LOOK_EVERY_S)
        return waited_s, watch.take_longest_turn_s()

    waited_s, worked_s = asyncio.run(story())

    assert waited_s < TURN_S / 2
    assert worked_s >= TURN_S - 2 * LOOK_EVERY_S
    assert watch.take_longest_turn_s() == 0.0
