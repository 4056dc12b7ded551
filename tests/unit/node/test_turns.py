"""Work of very many elements, in turns with the event loop."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from node.runtime.turns import STEPS_PER_TURN, listed

COUNT = 10 * STEPS_PER_TURN + 1


@pytest.mark.parametrize(("is_large", "turns_of_others"), [(False, 0), (True, 10)])
def test_a_large_list_is_made_in_turns_with_others(is_large: bool, turns_of_others: int) -> None:
    others: list[int] = []

    async def other() -> None:
        while True:
            others.append(made)
            await asyncio.sleep(0)

    made = 0

    def items() -> Iterator[int]:
        nonlocal made
        while made < COUNT:
            made += 1
            yield made

    async def scene() -> list[int]:
        task = asyncio.create_task(other())
        result = await listed(items(), is_large=is_large)
        task.cancel()
        return result

    assert asyncio.run(scene()) == list(range(1, COUNT + 1))
    assert len([at for at in others if 0 < at < COUNT]) == turns_of_others
    assert all(later - earlier <= STEPS_PER_TURN for earlier, later in pairwise(others))


def test_nothing_is_an_empty_list() -> None:
    assert asyncio.run(listed(iter(()), is_large=True)) == []
