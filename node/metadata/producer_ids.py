"""Producer ids that nobody else has: taken from the controller in blocks, given out one by one."""

from asyncio import Future, get_running_loop, shield

from ottla.metadata_raft.commands import AllocateProducerIds
from ottla.node.metadata.metadata_runtime import MetadataRuntime


class ProducerIds:
    """The block of this broker. Lives on the event loop."""

    def __init__(self, metadata: MetadataRuntime) -> None:
        self._metadata = metadata
        self._block = range(0)
        self._taking: Future[None] | None = None

    async def next(self) -> int:
        """A producer id that nobody has; one commit serves a block of them, however many ask at once."""
        while not self._block:
            if self._taking is None:
                self._taking = get_running_loop().create_future()
                try:
                    await self._take_block()
                finally:
                    taking, self._taking = self._taking, None
                    taking.set_result(None)
            else:
                await shield(self._taking)  # one that is cancelled must not end it for the others
        first, self._block = self._block[0], self._block[1:]
        return first

    async def _take_block(self) -> None:
        metadata = self._metadata
        reply = await metadata.submit(
            AllocateProducerIds(broker_id=metadata.broker_id, broker_epoch=metadata.broker_epoch)
        )
        self._block = range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len)
