"""ottla.node.quota.request_meter: the time of a request on the loop and in threads."""

import asyncio
import time
from collections.abc import Awaitable

import pytest

from ottla.node.quota.request_meter import MAX_PIECES, RUNNING, MeteredSteps, RequestMeter, metered
from ottla.node.work.fair_pool import FairPool
from ottla.node.work.turns import SerialExecutor

STEP_S = 0.02


def spend(seconds: float = STEP_S) -> None:
    """Use this many seconds of CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_work_on_the_loop_counts_once() -> None:
    meter = RequestMeter()

    meter.run(lambda: meter.run(spend))

    assert STEP_S <= meter.take() < 10 * STEP_S
    assert meter.take() == 0.0


def test_time_taken_in_the_middle_of_a_part_does_not_count_again() -> None:
    meter, taken = RequestMeter(), []

    def part() -> None:
        spend()
        taken.append(meter.take())
        spend(STEP_S / 4)

    meter.run(part)

    assert taken[0] >= STEP_S and STEP_S / 4 <= meter.take() < STEP_S * 3


async def measured(work: Awaitable[object]) -> float:
    meter = RequestMeter()
    await MeteredSteps(work, meter)  # type: ignore[misc]
    assert RUNNING.get() is None
    return meter.take()


def test_steps_count_and_waiting_does_not() -> None:
    async def work() -> None:
        spend()
        await asyncio.sleep(STEP_S * 20)
        spend()

    assert 2 * STEP_S <= asyncio.run(measured(work())) < 12 * STEP_S


def test_work_in_an_executor_and_in_a_pool_counts_for_the_request_that_waits_for_it() -> None:
    async def work() -> None:
        await SerialExecutor().run(spend)
        pool = FairPool("test", threads=1, max_cpu_s=1.0)
        await pool.submit_for("127.0.0.1", 1, lambda pause: spend())
        pool.close()

    assert asyncio.run(measured(work())) >= 2 * STEP_S


def test_without_a_meter_work_is_unchanged() -> None:
    assert metered(spend) is spend


def test_results_and_errors_pass_through() -> None:
    async def answers() -> int:
        await asyncio.sleep(0)
        return 7

    async def fails() -> int:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def ask(work: Awaitable[int]) -> int:
        found: int = await MeteredSteps(work, RequestMeter())  # type: ignore[misc]
        return found

    assert asyncio.run(ask(answers())) == 7
    with pytest.raises(ValueError, match="no"):
        asyncio.run(ask(fails()))


def test_a_meter_that_is_not_read_any_more_does_not_grow() -> None:
    meter = RequestMeter()

    for _ in range(MAX_PIECES * 3):
        meter.add(1.0)

    assert meter.take() == MAX_PIECES
