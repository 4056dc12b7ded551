"""Pauses of periodic work on a loop: one that ends early when an event is set, and one to a shared time."""

import asyncio


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait at most so many seconds for `event`, and clear it for the next pause."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    event.clear()


def until_next(period_s: float) -> float:
    """Return the seconds until the loop's clock is a multiple of a period, at least a tenth of the period.

    Periodic work that waits for these times wakes an idle node once for all of it, since most of the cost of
    such work is the waking up.
    """
    left_s = period_s - asyncio.get_running_loop().time() % period_s
    return left_s if left_s >= period_s / 10 else left_s + period_s
