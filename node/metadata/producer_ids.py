"""Hands out unique producer ids, from blocks that the controller allocates to this broker."""

from asyncio import Future, get_running_loop, shield
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import AllocateProducerIds
from ottla.node.metadata.metadata_runtime import MetadataRuntime

# Apache Kafka does not wait at all: its clients ask again after their backoff. An election after the end of
# the controller's process is over sooner. While the controller is silent, or this broker is cut off from it,
# clients learn that they may ask another broker.
WAIT_MS: Final = 1_000
_PASSING: Final = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


class ProducerIds:
    """The block of this broker. Used on the event loop only."""

    def __init__(self, metadata: MetadataRuntime) -> None:
        self._metadata = metadata
        self._block = range(0)
        self._taking: Future[KafkaError | None] | None = None  # its result is the error of the allocation

    async def next(self) -> int:
        """Return an unused producer id; COORDINATOR_LOAD_IN_PROGRESS if none is given within `WAIT_MS`.

        If the block is used up, one of the concurrent calls allocates the next block and the others wait.
        """
        while not self._block:
            if self._taking is None:
                self._taking, problem = get_running_loop().create_future(), None
                try:
                    await self._take_block()
                except KafkaError as error:
                    problem = error
                    raise
                finally:
                    taking, self._taking = self._taking, None
                    taking.set_result(problem)
            # A cancelled call must not cancel the future of the others.
            elif (problem := await shield(self._taking)) is not None:
                raise KafkaError(problem.code, problem.detail)
        first, self._block = self._block[0], self._block[1:]
        return first

    async def _take_block(self) -> None:
        metadata = self._metadata
        command = AllocateProducerIds(broker_id=metadata.broker_id, broker_epoch=metadata.broker_epoch)
        try:
            reply = await metadata.submit(command, WAIT_MS)
        except KafkaError as error:
            if error.code in _PASSING:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.detail) from None
            raise
        self._block = range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len)
