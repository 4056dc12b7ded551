"""A pause that ends early when an event is set."""

import asyncio


async def waits_at_most(news: asyncio.Event, seconds: float) -> None:
    """Wait at most so many seconds for `news`, and clear it for the next pause."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        pass
    news.clear()
