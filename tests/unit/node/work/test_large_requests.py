"""Large requests share a limit of memory; beyond it they wait in order of arrival."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.node.work.large_requests import GROWTH, LargeRequests, Room


def run(scenario: Callable[[LargeRequests], Coroutine[Any, Any, None]], limit_frames: int = 10) -> None:
    asyncio.run(scenario(LargeRequests(limit_frames * GROWTH)))


def test_requests_that_fit_are_served_at_once_and_others_in_their_order() -> None:
    async def scenario(requests: LargeRequests) -> None:
        first = await requests.enter(6)
        waiting = [asyncio.ensure_future(requests.enter(size)) for size in (6, 1, 9)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting), "the small one does not overtake"

        first.leave()
        await asyncio.sleep(0)

        assert [one.done() for one in waiting] == [True, True, False]
        assert requests.used_bytes == 7 * GROWTH
        for one in waiting:
            (await one).leave()
        assert requests.used_bytes == 0

    run(scenario)


def test_a_single_request_may_be_larger_than_the_limit() -> None:
    async def scenario(requests: LargeRequests) -> None:
        giant = await requests.enter(1000)
        other = asyncio.ensure_future(requests.enter(1))
        await asyncio.sleep(0)
        assert not other.done()

        giant.leave()
        giant.leave()

        (await other).leave()
        assert requests.used_bytes == 0

    run(scenario)


@pytest.mark.parametrize("is_granted", [False, True])
def test_a_cancelled_request_does_not_block_others(is_granted: bool) -> None:
    async def scenario(requests: LargeRequests) -> None:
        first = await requests.enter(10)
        gone: asyncio.Task[Room] = asyncio.ensure_future(requests.enter(10))
        next_ = asyncio.ensure_future(requests.enter(1))
        await asyncio.sleep(0)
        if is_granted:
            first.leave()  # it gets its memory, and is cancelled before it runs
        gone.cancel()
        await asyncio.sleep(0)
        first.leave()

        (await next_).leave()

        assert requests.used_bytes == 0

    run(scenario)
