"""Produces dead letters at the leader of their partition, which is this node or another one."""

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.logstore.batch_validator import validate_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage
from ottla.node.clock import Clock
from ottla.node.handing_over import Ask, InThread
from ottla.node.replica.delayed_produce import RequiredOffset
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.share.letter_lines import LetterLines
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

# Connections of their own for each topic (`LetterLines`): a response comes when all replicas in sync have the
# letters, and requests behind it wait.
PURPOSE: Final = "dead letters"
# Connections for partitions at which the last attempt failed, perhaps for want of replicas: it may hang too.
DOUBTFUL_PURPOSE: Final = "doubtful dead letters"
# Extra time for the response of a leader whose wait for its replicas timed out. Without it, the timeout here
# would end the connection, and with it the requests of others.
ANSWER_S: Final = 2.0
MAX_DOUBTFUL: Final = 10_000  # partitions that are remembered
_ACKS_ALL: Final = -1
_PRODUCE_VERSION: Final = 13


class LetterProducer:
    """Produces batches with acks=all, on this node or another. For the event loop only."""

    def __init__(
        self,
        *,
        node_id: int,
        image: Callable[[], MetadataImage],
        replicas: ReplicaManager,
        ask: Ask,
        in_thread: InThread,
        clock: Clock,
        timeout_ms: Callable[[], int],
        is_cut_off: Callable[[], bool],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._replicas = replicas
        self._ask = ask
        self._in_thread = in_thread
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._is_cut_off = is_cut_off
        self._doubtful: dict[tuple[bytes, int], None] = {}
        self._lines = LetterLines()

    async def __call__(self, topic_id: bytes, index: int, batch: bytearray) -> None:
        """Produce a batch to all replicas in sync; raise KafkaError if they may not have it."""
        topic = self._image().topics.by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        leader = topic.partitions[index].leader
        try:
            if leader == self._node_id:
                await self._produce_here(topic.name, index, batch)
            else:
                await self._produce_there(leader, topic.name, topic_id, index, batch)
        except KafkaError:
            self._doubtful[topic_id, index] = None
            if len(self._doubtful) > MAX_DOUBTFUL:
                del self._doubtful[next(iter(self._doubtful))]
            raise
        self._doubtful.pop((topic_id, index), None)

    async def _produce_here(self, topic: str, index: int, batch: bytearray) -> None:
        if self._is_cut_off():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self._replicas.partition(TopicPartition(topic, index))
        now_ms = self._clock.now_ms()
        # In a thread, because the topic's settings may require compression.
        valid = await self._in_thread(
            partial(
                validate_batch,
                batch,
                config=partition.log.config,
                now_ms=now_ms,
                produce_version=_PRODUCE_VERSION,
            )
        )
        result = partition.append_as_leader(
            batch, required_acks=_ACKS_ALL, now_ms=now_ms, produce_version=_PRODUCE_VERSION, valid=valid
        )
        if partition.log.high_watermark > result.last_offset:
            return
        place = RequiredOffset(result.last_offset + 1, partition.leader_epoch)
        codes = await self._replicas.delay_produce({partition: place}, self._timeout_ms())
        code = codes.get(partition, ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)

    def _leads(self, leader: int, topic_id: bytes, index: int) -> bool:
        topic = self._image().topics.by_id.get(topic_id)
        return topic is not None and topic.partitions[index].leader == leader

    async def _produce_there(
        self, leader: int, topic: str, topic_id: bytes, index: int, batch: bytearray
    ) -> None:
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        timeout_ms = self._timeout_ms()
        data = PartitionProduceData(index=index, records=bytes(batch))
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
        )
        purpose = DOUBTFUL_PURPOSE if (topic_id, index) in self._doubtful else PURPOSE
        async with self._lines.take(leader, purpose, topic_id) as line:
            if not self._leads(leader, topic_id, index):  # it may have changed during the wait
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            response = await self._ask(leader, line, request, ProduceResponse, timeout_ms / 1000 + ANSWER_S)
        answers = [one for each in response.responses for one in each.partition_responses]
        if len(answers) != 1 or answers[0].index != index:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The response has no result for this partition.")
        try:
            code = ErrorCode(answers[0].error_code)
        except ValueError:
            code = ErrorCode.UNKNOWN_SERVER_ERROR  # a later release may have more codes
        if code is not ErrorCode.NONE:
            raise KafkaError(code, answers[0].error_message or "")
