"""Hands out unique producer ids, from blocks that the controller allocates to this broker."""

from asyncio import Future, get_running_loop, shield

from ottla.metadata_raft.commands import AllocateProducerIds
from ottla.node.metadata.metadata_runtime import MetadataRuntime


class ProducerIds:
    """The block of this broker. Used on the event loop only."""

    def __init__(self, metadata: MetadataRuntime) -> None:
        self._metadata = metadata
        self._block = range(0)
        self._taking: Future[None] | None = None

    async def next(self) -> int:
        """Return an unused producer id.

        If the block is used up, one of the concurrent calls allocates the next block and the others wait.
        """
        while not self._block:
            if self._taking is None:
                self._taking = get_running_loop().create_future()
                try:
                    await self._take_block()
                finally:
                    taking, self._taking = self._taking, None
                    taking.set_result(None)
            else:
                await shield(self._taking)  # a cancelled call must not cancel the future of the others
        first, self._block = self._block[0], self._block[1:]
        return first

    async def _take_block(self) -> None:
        metadata = self._metadata
        reply = await metadata.submit(
            AllocateProducerIds(broker_id=metadata.broker_id, broker_epoch=metadata.broker_epoch)
        )
        self._block = range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len)
