"""A pause that ends early when somebody has news."""

import asyncio


async def waits_at_most(news: asyncio.Event, seconds: float) -> None:
    """Wait until `news` is set, so many seconds at most, and clear it for the next pause."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        pass
    news.clear()
