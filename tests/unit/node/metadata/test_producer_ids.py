"""Blocks of producer ids: calls that wait for one, and calls that are cancelled while others wait."""

import asyncio

import pytest

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
