"""Blocks of producer ids: calls that wait for one, and calls that are cancelled while others wait."""

import asyncio
import random

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.metadata.producer_ids import WAIT_MS
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.node.metadata.test_metadata_runtime import started, turns


@pytest.mark.parametrize("gone", [[0], [1], [0, 1], [1, 0]])
def test_a_cancelled_call_does_not_affect_the_calls_that_wait(gone: list[int]) -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        asking = [asyncio.ensure_future(node.producer_ids.next()) for _ in range(4)]
        await turns()

        for index in gone:
            asking[index].cancel()
            await turns()
        while not all(one.done() for one in asking):
            node.quorum.commit()
            await turns()

        staying = [one for index, one in enumerate(asking) if index not in gone]
        assert len({one.result() for one in staying}) == len(staying)
        assert all(asking[index].cancelled() for index in gone)

    asyncio.run(scene())


def test_a_broker_without_a_controller_says_soon_that_clients_should_try_again() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        node.quorum.lose_leadership()
        loop, began_s = asyncio.get_running_loop(), asyncio.get_running_loop().time()

        asking = [asyncio.ensure_future(node.producer_ids.next()) for _ in range(100)]
        answers = await asyncio.gather(*asking, return_exceptions=True)

        codes = [one.code for one in answers if isinstance(one, KafkaError)]
        assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100
        assert loop.time() - began_s <= WAIT_MS / 1000

        node.quorum.win_election()
        assert await node.producer_ids.next() >= 0

    VirtualLoop(random.Random(1)).run(scene(), limit_s=60)
