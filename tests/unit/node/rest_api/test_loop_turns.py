"""However much is read over REST, one reader works between two turns of all other tasks on its loop."""

import asyncio

from ottla.node.rest_api import loop_turns
from ottla.node.rest_api.loop_turns import LoopTurns

READERS = 30
RECORDS = 40
RECORDS_PER_TURN = 4


def test_of_very_many_readers_one_works_between_two_turns_of_others() -> None:
    now_s = 0.0
    worked: list[list[int]] = [[]]

    async def read(turns: LoopTurns, number: int) -> None:
        nonlocal now_s
        worker = turns.worker()
        for _ in range(RECORDS):
            await worker.pause()
            now_s += loop_turns.TURN_S / (RECORDS_PER_TURN - 1)
            worked[-1].append(number)

    async def probe() -> None:
        while True:
            worked.append([])
            await asyncio.sleep(0)

    async def scene() -> None:
        turns = LoopTurns(lambda: now_s)
        probing = asyncio.ensure_future(probe())
        async with asyncio.TaskGroup() as readers:
            for number in range(READERS):
                readers.create_task(read(turns, number))
        probing.cancel()

    asyncio.run(scene())

    assert sum(map(len, worked)) == READERS * RECORDS
    assert max(map(len, worked)) <= RECORDS_PER_TURN
    assert all(len(set(numbers)) <= 1 for numbers in worked)
    first = [numbers[0] for numbers in worked if numbers]
    assert first[:READERS] == list(range(READERS)), "the reader that has waited for longest is next"


def test_a_reader_that_is_cancelled_while_it_waits_delays_no_other() -> None:
    async def scene() -> bool:
        turns = LoopTurns(lambda: 0.0)
        first, second = (asyncio.ensure_future(turns.worker().pause()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await turns.worker().pause()
        return second.done() and not second.cancelled()

    assert asyncio.run(scene())


def test_items_of_one_request_give_way_after_a_turn() -> None:
    now_s = 0.0

    async def scene() -> list[int]:
        nonlocal now_s
        others, since = 0, [0]

        async def probe() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        probing = asyncio.ensure_future(probe())
        worker = LoopTurns(lambda: now_s).worker()
        async for number in worker.each(range(1_000)):
            assert number == len(since) - 1
            now_s += loop_turns.TURN_S / loop_turns.ITEMS_PER_LOOK
            since.append(others)
        probing.cancel()
        return since

    since = asyncio.run(scene())

    assert all(since[at] < since[at + 3 * loop_turns.ITEMS_PER_LOOK] for at in range(0, 900, 50))
