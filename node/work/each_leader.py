"""Asks the leaders of partitions, all at once; leaders that miss the deadline are left out."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from ottla.logstore.words.errors import KafkaError
from ottla.node.work.turns import Steps, take_turns

P = TypeVar("P")
A = TypeVar("A")


async def ask_each_leader(
    places: Iterable[P],
    *,
    leader_of: Callable[[P], int | None],
    node_id: int,
    here: Callable[[Sequence[P]], Awaitable[dict[P, A]]],
    there: Callable[[int, Sequence[P]], Awaitable[dict[P, A]]],
    deadline: float,
) -> dict[P, A]:
    """Return the answers that arrive until `deadline` (the loop's clock), by place; places of other leaders
    are absent. A partition without a leader has None or a negative number.
    """

    async def ask(leader: int, mine: Sequence[P]) -> dict[P, A]:
        if leader == node_id:
            return await here(mine)
        try:
            async with asyncio.timeout_at(deadline):
                return await there(leader, mine)
        except (KafkaError, TimeoutError):
            return {}  # an older version, a hanging node, or one that is down

    by_leader = await take_turns(_by_leader(places, leader_of))
    async with asyncio.TaskGroup() as tasks:
        requests = [tasks.create_task(ask(leader, mine)) for leader, mine in sorted(by_leader.items())]
    return {place: answer for one in requests for place, answer in one.result().items()}


def _by_leader(places: Iterable[P], leader_of: Callable[[P], int | None]) -> Steps[dict[int, list[P]]]:
    by_leader: dict[int, list[P]] = {}
    for place in dict.fromkeys(places):
        yield
        leader = leader_of(place)
        if leader is not None and leader >= 0:
            by_leader.setdefault(leader, []).append(place)
    return by_leader
