"""Findings are cached for a moment, for callers with the same rights only, and for a limited number of
callers.
"""

import asyncio

from ottla.node.doctor.finding import Finding, problem
from ottla.node.net.act_for import Caller
from ottla.node.rest_api.findings import MAX_KEPT, Kept


class Searches:
    """Counts how often findings were made."""

    def __init__(self) -> None:
        self.count = 0
        self.under_way = 0

    async def find(self) -> list[Finding]:
        self.under_way += 1
        assert self.under_way == 1, "one search at a time"
        await asyncio.sleep(0)
        self.under_way -= 1
        self.count += 1
        return [problem("broker", f"number {self.count}")]


def caller(name: str) -> Caller:
    return Caller(name, "127.0.0.1", is_local=True)


def test_concurrent_callers_share_one_search() -> None:
    async def ask() -> None:
        searches = Searches()
        kept: Kept[list[Finding]] = Kept(60.0)

        found = await asyncio.gather(*(kept.get(caller("User:a"), searches.find) for _ in range(5)))

        assert searches.count == 1 and all(one is found[0] for one in found)

    asyncio.run(ask())


def test_findings_are_for_their_caller_alone() -> None:
    async def ask() -> None:
        searches = Searches()
        kept: Kept[list[Finding]] = Kept(60.0)

        mine = await kept.get(caller("User:a"), searches.find)
        other = await kept.get(caller("User:b"), searches.find)

        assert searches.count == 2 and mine.what != other.what

    asyncio.run(ask())


def test_findings_that_are_old_or_of_too_many_callers_are_found_again() -> None:
    async def ask() -> None:
        searches = Searches()
        short: Kept[list[Finding]] = Kept(0.0)
        await short.get(caller("User:a"), searches.find)
        await short.get(caller("User:a"), searches.find)
        assert searches.count == 2

        searches = Searches()
        kept: Kept[list[Finding]] = Kept(60.0)
        for number in range(MAX_KEPT + 1):
            await kept.get(caller(f"User:{number}"), searches.find)
        await kept.get(caller("User:0"), searches.find)

        assert searches.count == MAX_KEPT + 2

    asyncio.run(ask())
