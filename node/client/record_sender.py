"""The producer of the REST API: it sends records of many callers at once, to any topics.

While a request to a leader is in flight, new records for its partitions are collected, and the next request
takes them all. So a lone record is sent at once, and many callers share batches. Each record has its own
outcome: `add` returns a Delivery, whose batch is done when the outcome is known. Records without a key go to
one partition for some kilobytes, as in Kafka's own producer (KIP-794).
"""

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.error_words import sentence_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import topic_admin
from ottla.node.client.cluster_client import (
    MAX_RETRY_PAUSE_S,
    RETRY_PAUSE_S,
    Client,
    Topic,
    check,
    unknown_partition,
)
from ottla.node.client.deadline import Deadline
from ottla.node.client.producer import (
    ALL_REPLICAS,
    MAX_BATCH_BYTES,
    MAY_BE_STORED,
    ProducerRecord,
    partition_for,
)
from ottla.node.client.record_batches import (
    NO_OFFSET,
    OF_A_RECORD,
    Delivery,
    PartitionQueue,
    ProducerIdentity,
    record_size,
)
from ottla.node.client.stored_batches import is_stored
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

DELIVERY_TIMEOUT_S: Final = 15.0  # a failed leader has a successor by then, if it gets one
# The least time of a request: one that times out at once leaves the outcome of its records unknown.
LEAST_REQUEST_S: Final = 1.0
MAX_PENDING_BYTES: Final = 32 * 1024 * 1024  # Kafka's buffer.memory
MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024  # per request; far below socket.request.max.bytes
STICKY_BYTES: Final = 16 * 1024  # Kafka's batch.size
GONE_TRIES: Final = 5  # two seconds: a node that has just started may not know a topic yet
TOPIC_AGE_S: Final = 30.0  # partitions and limits may change; Kafka's metadata.max.age is longer
MAX_TOPICS: Final = 1000  # cached at a time
MAX_QUEUES: Final = 10_000  # partitions with producer state; beyond that the idle ones are dropped


class TopicInfo(NamedTuple):
    """The metadata of a topic that are needed before a record is added."""

    topic: Topic
    max_batch_bytes: int
    requested_s: float


class _Sticky:
    """The current partition of records without a key; after some bytes the next one that has a leader."""

    def __init__(self, chance: random.Random) -> None:
        self._turn = chance.randrange(1 << 30)
        self._bytes = STICKY_BYTES
        self._partition = -1

    def partition(self, topic: Topic, size_bytes: int) -> int:
        if self._bytes >= STICKY_BYTES:
            led = [number for number, leader in sorted(topic.leaders.items()) if leader >= 0]
            choices = led or sorted(topic.leaders)
            self._turn += 1
            self._bytes, self._partition = 0, choices[self._turn % len(choices)]
        self._bytes += size_bytes
        return self._partition


class RecordSender:
    """A producer; any task of the loop may call `add` while `run` is running."""

    def __init__(self, client: Client, chance: random.Random | None = None) -> None:
        """Create it; `client` belongs to the sender, which closes it."""
        self._client = client
        self._chance = chance or random.Random()
        self._topics: dict[str, TopicInfo] = {}
        self._sticky: dict[str, _Sticky] = {}
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._ready: dict[TopicPartition, PartitionQueue] = {}  # with work, but without a task
        self._busy: set[int] = set()  # leaders with a request in flight
        self._shared_identity: ProducerIdentity | None = None
        self._identifying = asyncio.Lock()
        self._wake = asyncio.Event()
        self._has_room = asyncio.Event()
        self._pending_bytes = 0
        self._tasks = asyncio.TaskGroup()
        self._has_ended = False

    async def run(self) -> None:
        """Send until cancelled or failed, once; then pending records get the error that they may be lost."""
        try:
            async with self._client, self._tasks:
                await self._dispatch()
        finally:
            self._has_ended = True
            self._has_room.set()
            for queue in self._queues.values():
                queue.abandon(_ended())

    # ---- for callers -----------------------------------------------------------------------------

    async def topic(self, name: str, deadline: Deadline) -> TopicInfo:
        """Return the metadata of a topic, not older than TOPIC_AGE_S; KafkaError if it does not exist."""
        known = self._topics.get(name)
        now_s = time.monotonic()
        if known is not None and now_s - known.requested_s < TOPIC_AGE_S:
            return known
        client = self._client.until(deadline)
        topic = await client.topic_as_it_is(name)
        info = TopicInfo(topic, await topic_admin.max_batch_bytes(client, name, MAX_BATCH_BYTES), now_s)
        if len(self._topics) >= MAX_TOPICS:
            del self._topics[next(iter(self._topics))]
        self._topics[name] = info
        return info

    async def wait_for_room(self, deadline: Deadline | None = None) -> None:
        """Wait while too many bytes are pending; THROTTLING_QUOTA_EXCEEDED at the deadline."""
        try:
            async with asyncio.timeout(None if deadline is None else deadline.remaining_s):
                await self._until_there_is_room()
        except TimeoutError:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many records are pending") from None

    async def _until_there_is_room(self) -> None:
        while self._pending_bytes >= MAX_PENDING_BYTES and not self._has_ended:
            self._has_room.clear()
            await self._has_room.wait()

    def add(self, info: TopicInfo, record: ProducerRecord, deadline: Deadline | None = None) -> Delivery:
        """Send a record, by the deadline or within DELIVERY_TIMEOUT_S.

        UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist, NETWORK_EXCEPTION if `run` has ended.
        """
        if self._has_ended:
            raise _ended()
        size_bytes = record_size(record)
        partition = TopicPartition(info.topic.name, self._partition_of(info.topic, record, size_bytes))
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._new_queue(partition)
        # Avoids an object for each record of a stream.
        by_s = time.monotonic() + DELIVERY_TIMEOUT_S if deadline is None else deadline.at_s
        batch = queue.batch_for(size_bytes, info.max_batch_bytes, by_s)
        timestamp = int(time.time() * 1000) if record.timestamp is None else record.timestamp
        index = batch.append(record, timestamp)
        self._pending_bytes += size_bytes
        if not queue.is_busy:
            self._ready[partition] = queue
            self._wake.set()
        return Delivery(batch, index)

    def _partition_of(self, topic: Topic, record: ProducerRecord, size_bytes: int) -> int:
        if record.partition is not None:
            if record.partition not in topic.leaders:
                raise unknown_partition(topic, record.partition)
            return record.partition
        if record.key is not None:
            return partition_for(record.key, len(topic.leaders))
        sticky = self._sticky.get(topic.name)
        if sticky is None:
            if len(self._sticky) >= MAX_TOPICS:
                del self._sticky[next(iter(self._sticky))]
            sticky = self._sticky[topic.name] = _Sticky(self._chance)
        return sticky.partition(topic, size_bytes)

    def _new_queue(self, partition: TopicPartition) -> PartitionQueue:
        if len(self._queues) >= MAX_QUEUES:
            # Their sequence numbers are dropped, so they may not continue under the shared producer id.
            self._queues = {one: queue for one, queue in self._queues.items() if queue.has_work}
            self._shared_identity = None
        queue = self._queues[partition] = PartitionQueue(partition)
        return queue

    # ---- sending ---------------------------------------------------------------------------------

    async def _dispatch(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            by_leader: dict[int, list[PartitionQueue]] = {}
            for partition, queue in self._ready.items():
                topic = self._client.topics.get(partition.topic)
                leader = -1 if topic is None else topic.leaders.get(partition.partition, -1)
                if leader not in self._busy:
                    by_leader.setdefault(leader, []).append(queue)
            for leader, queues in by_leader.items():
                self._take(queues)
                if leader < 0:
                    self._tasks.create_task(self._find_leaders(queues))
                else:
                    self._busy.add(leader)
                    self._tasks.create_task(self._send(leader, queues))

    def _take(self, queues: list[PartitionQueue]) -> None:
        for queue in queues:
            queue.is_busy = True
            del self._ready[queue.partition]

    def _give_back(self, queues: Sequence[PartitionQueue]) -> None:
        for queue in queues:
            queue.is_busy = False
            if queue.has_work:
                self._ready[queue.partition] = queue
        self._wake.set()

    async def _find_leaders(self, queues: list[PartitionQueue]) -> None:
        names = sorted({queue.partition.topic for queue in queues})
        failed: KafkaError | None = None
        gone: set[str | None] = set()
        try:
            response = await self._until(queues).refresh(names)
            gone = {one.name for one in response.topics if one.error_code == _GONE}
        except KafkaError as failure:
            failed = failure
        missing = [queue for queue in queues if not self._has_leader(queue.partition)]
        self._give_back([queue for queue in queues if self._has_leader(queue.partition)])
        for queue in missing:
            queue.tries += 1
            error = failed or KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{queue.partition} has no leader at the moment"
            )
            # Nothing was sent that could have been stored.
            if queue.partition.topic in gone and queue.tries > GONE_TRIES:
                self._topics.pop(queue.partition.topic, None)
                lost = KafkaError(_GONE, sentence_of(_GONE, f"topic {queue.partition.topic}"))
                self._fail(queue, lost, is_answer=True, can_wait=False)
            else:
                self._fail(queue, error, is_answer=True)
        await self._again(missing)

    def _has_leader(self, partition: TopicPartition) -> bool:
        topic = self._client.topics.get(partition.topic)
        return topic is not None and topic.leaders.get(partition.partition, -1) >= 0

    async def _send(self, leader: int, queues: list[PartitionQueue]) -> None:
        """Send one request to one leader, with the next batch of each queue as long as they fit."""
        taken: list[PartitionQueue] = []
        client = self._until(queues)
        try:
            await self._identify(client, queues)
            topics = self._take_content(queues, taken)
            answers = await self._ask(client, leader, topics) if topics else {}
            await self._settle_doubts(client, taken, answers)
            failing = [queue for queue in taken if not self._settle(queue, answers.get(queue.partition))]
        except KafkaError as error:
            # If no batch was taken, nothing was sent.
            failing = [
                queue for queue in taken or queues if not self._fail(queue, error, is_answer=not taken)
            ]
        finally:
            self._busy.discard(leader)
        again = set(failing)
        self._give_back([queue for queue in queues if queue not in again])
        for queue in failing:
            self._client.forget(queue.partition.topic)
        await self._again(failing)

    def _until(self, queues: Sequence[PartitionQueue]) -> Client:
        """Return the client with the earliest deadline of these queues."""
        left_s = min(queue.deadline_s for queue in queues) - time.monotonic()
        return self._client.until(Deadline.after(max(left_s, LEAST_REQUEST_S)))

    def _take_content(
        self, queues: Sequence[PartitionQueue], taken: list[PartitionQueue]
    ) -> list[TopicProduceData]:
        """Return the data of a request and add its queues to `taken`; one without a known leader waits."""
        size_bytes = 0
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for queue in queues:
            if size_bytes > MAX_REQUEST_BYTES:
                break
            if self._has_leader(queue.partition):
                content = queue.encode()
                size_bytes += len(content)
                one = PartitionProduceData(index=queue.partition.partition, records=content)
                by_topic.setdefault(queue.partition.topic, []).append(one)
                taken.append(queue)
        known = self._client.topics
        return [
            TopicProduceData(name=name, topic_id=known[name].topic_id, partition_data=data)
            for name, data in by_topic.items()
        ]

    async def _again(self, queues: Sequence[PartitionQueue]) -> None:
        """Make queues ready again after a pause that grows with their attempts."""
        if queues:
            tries = min(queue.tries for queue in queues)
            await asyncio.sleep(min(RETRY_PAUSE_S * 2 ** min(max(tries - 1, 0), 5), MAX_RETRY_PAUSE_S))
            self._give_back(queues)

    async def _identify(self, client: Client, queues: Sequence[PartitionQueue]) -> None:
        """Give a producer id to each queue that has none."""
        for queue in queues:
            if queue.identity is None:
                if queue.needs_own_identity:
                    queue.identity = await self._new_identity(client)
                    continue
                async with self._identifying:
                    if self._shared_identity is None:
                        self._shared_identity = await self._new_identity(client)
                queue.identity = self._shared_identity

    async def _new_identity(self, client: Client) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)

        async def attempt() -> ProducerIdentity:
            connection = await client.any_node()
            response = await connection.request(request, InitProducerIdResponse, timeout_s=client.remaining_s)
            check(response.error_code, None, "the request for a producer id")
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        return await client.retry(attempt)

    async def _ask(
        self, client: Client, leader: int, topics: Sequence[TopicProduceData]
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=client.remaining_ms, topic_data=topics)
        connection = await client.node(leader)
        response = await connection.request(request, ProduceResponse, timeout_s=client.remaining_s)
        names = {topic.topic_id: topic.name for topic in topics}
        return {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }

    # ---- outcomes --------------------------------------------------------------------------------

    async def _settle_doubts(
        self,
        client: Client,
        queues: Sequence[PartitionQueue],
        answers: dict[TopicPartition, PartitionProduceResponse],
    ) -> None:
        """Find out if an earlier attempt of pieces that are rejected now is in the log.

        Only a piece that is not in the log may be split; one that is counts as a duplicate.
        """
        for queue in queues:
            answer = answers.get(queue.partition)
            if answer is None or not queue.is_in_doubt or answer.error_code not in OF_A_RECORD:
                continue
            assert queue.identity is not None
            match await is_stored(client, queue.partition, *queue.identity, queue.last_sequence):
                case True:
                    answers[queue.partition] = PartitionProduceResponse(
                        index=queue.partition.partition,
                        error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                        base_offset=NO_OFFSET,
                    )
                case False:
                    queue.was_not_stored()
                case None:
                    pass

    def _settle(self, queue: PartitionQueue, answer: PartitionProduceResponse | None) -> bool:
        """Process a leader's response; return False if the queue has to retry."""
        if answer is None:
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the leader of {queue.partition} did not answer")
            return self._fail(queue, error, is_answer=False)
        if answer.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._free(queue.stored(answer.base_offset, answer.log_append_time_ms))
            return True
        words = [one.batch_index_error_message for one in answer.record_errors]
        try:
            check(
                answer.error_code,
                answer.error_message or next(filter(None, words), None),
                f"a record for {queue.partition}",
            )
        except KafkaError as error:
            is_certain = error.code not in MAY_BE_STORED
            return self._fail(queue, error, is_answer=is_certain)
        raise AssertionError("an error code without an error")

    def _fail(
        self, queue: PartitionQueue, error: KafkaError, *, is_answer: bool, can_wait: bool = True
    ) -> bool:
        can_wait = can_wait and time.monotonic() < queue.deadline_s
        size_bytes = queue.failed(error, is_answer=is_answer, can_wait=can_wait)
        if size_bytes is None:
            return False
        self._free(size_bytes)
        return True

    def _free(self, size_bytes: int) -> None:
        self._pending_bytes -= size_bytes
        if self._pending_bytes < MAX_PENDING_BYTES:
            self._has_room.set()


_GONE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _ended() -> KafkaError:
    return KafkaError(
        ErrorCode.NETWORK_EXCEPTION, "the producer of this node has stopped: the record may be stored, or not"
    )
