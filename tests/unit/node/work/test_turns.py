"""Work on very many elements, in turns of the event loop."""

import asyncio
import itertools
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from ottla.logstore.words import schema
from ottla.logstore.words.schema import struct
from ottla.node.work.turns import (
    APART_AT_ONCE,
    ITEMS_OF_RUN,
    ITEMS_OF_STEP,
    STEPS_PER_LOOK,
    STEPS_PER_TURN,
    TURN_CPU_S,
    SerialExecutor,
    Steps,
    Turn,
    at_once,
    distinct,
    listed,
    ordered,
    take_apart,
    take_turns,
)

COUNT = 10 * STEPS_PER_TURN + 1


@pytest.mark.parametrize(("is_large", "turns_of_others"), [(False, 0), (True, 10)])
def test_a_large_list_is_made_in_turns_with_other_tasks(is_large: bool, turns_of_others: int) -> None:
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


async def turns_of(turn: Turn, count: int) -> list[int]:
    """Return the numbers of elements after which other tasks had the loop."""
    done, others = 0, []

    async def other() -> None:
        while True:
            others.append(done)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(count):
        done += 1
        await turn.step()
    task.cancel()
    return others


@pytest.mark.parametrize(
    ("steps", "step_cpu_s", "expected"),
    [
        (1, 0.0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        (5, 0.0, [5, 10]),
        (100, 0.0, []),
        (100, TURN_CPU_S, [4, 8, 12]),
        (6, TURN_CPU_S, [4, 8, 12]),
    ],
    ids=["each", "by number", "few", "by CPU time", "by whichever comes first"],
)
def test_a_turn_ends_by_its_steps_or_by_its_cpu_time(
    monkeypatch: pytest.MonkeyPatch, steps: int, step_cpu_s: float, expected: list[int]
) -> None:
    now_s = itertools.count(0.0, 2 * step_cpu_s)
    monkeypatch.setattr("ottla.node.work.turns.thread_cpu_s", lambda: next(now_s))

    assert asyncio.run(turns_of(Turn(steps), 12)) == expected


def test_duplicates_are_found_some_elements_at_a_time() -> None:
    items = [*range(10 * ITEMS_OF_STEP), 3, 7, 3]

    assert at_once(distinct(items)) == (set(items), {3, 7})
    assert len(list(distinct(items))) == 10
    assert at_once(distinct(())) == (set(), set())


@pytest.mark.parametrize("count", [0, 1, ITEMS_OF_RUN, 5 * ITEMS_OF_RUN + 7])
def test_very_many_names_are_sorted_some_names_at_a_time(count: int) -> None:
    names = [f"{number * 7919 % 1009:04d}-{number}" for number in range(count)]

    assert at_once(ordered(names)) == sorted(names)
    assert len(list(ordered(names))) == -(-count // ITEMS_OF_RUN)


def test_a_task_that_is_cancelled_in_an_executor_ends_when_its_piece_is_done() -> None:
    order: list[str] = []
    began, may_end = threading.Event(), threading.Event()

    def piece() -> None:
        began.set()
        may_end.wait()
        order.append("piece")

    async def ask(executor: SerialExecutor) -> None:
        try:
            await executor.run(piece)
        except asyncio.CancelledError:
            order.append("left")
            raise

    async def scene() -> None:
        executor = SerialExecutor()
        asking = asyncio.create_task(ask(executor))
        await asyncio.to_thread(began.wait)
        asking.cancel()
        behind = asyncio.create_task(executor.run(lambda: order.append("behind")))
        await asyncio.sleep(0)
        may_end.set()
        await behind
        assert asking.cancelled()

    asyncio.run(scene())

    assert order == ["piece", "left", "behind"]


def test_a_turn_ends_earlier_if_its_steps_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter(range(1_000_000))
    monkeypatch.setattr("ottla.node.work.turns.thread_cpu_s", lambda: next(now_s))
    done: list[int] = []
    seen: list[int] = []

    def steps() -> Steps[None]:
        for number in range(10 * STEPS_PER_LOOK):
            done.append(number)
            yield

    async def other() -> None:
        while True:
            seen.append(len(done))
            await asyncio.sleep(0)

    async def scene() -> None:
        task = asyncio.create_task(other())
        await take_turns(steps())
        assert await listed(iter(range(10 * STEPS_PER_LOOK)), is_large=True)
        task.cancel()

    asyncio.run(scene())

    assert set(range(STEPS_PER_LOOK, 10 * STEPS_PER_LOOK, STEPS_PER_LOOK)) <= set(seen)


def test_no_items_are_an_empty_list() -> None:
    assert asyncio.run(listed(iter(()), is_large=True)) == []


@struct
class _Leaf:
    name: str = schema.string()


@struct
class _Branch:
    leaves: Sequence[_Leaf] = schema.array(_Leaf)


@struct
class _Tree:
    branches: Sequence[_Branch] = schema.array(_Branch)


def leaves(count: int) -> list[_Leaf]:
    return [_Leaf(name=f"{number}") for number in range(count)]


def test_objects_without_other_references_are_taken_apart_and_the_others_kept() -> None:
    known, shared = leaves(3 * APART_AT_ONCE), _Branch(leaves=leaves(2))
    ends = []

    class Counted:
        def __del__(self) -> None:
            ends.append(len(ends))

    own = leaves(3 * APART_AT_ONCE)
    own.append(Counted())  # type: ignore[arg-type]
    pieces: list[object] = [_Tree(branches=[_Branch(leaves=own), _Branch(leaves=known), shared])]
    del own

    take_apart(pieces)

    assert pieces == []
    assert ends == [0]
    assert len(known) == 3 * APART_AT_ONCE
    assert shared == _Branch(leaves=leaves(2))
