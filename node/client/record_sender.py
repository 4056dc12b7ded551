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
    Lane,
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
MAX_LANES: Final = 10_000  # partitions with producer state; beyond that the idle ones are dropped


class TopicInfo(NamedTuple):
    """The metadata of a topic that are needed before a record is added."""

    topic: Topic
    max_batch_bytes: int
    asked_s: float


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
        self._lanes: dict[TopicPartition, Lane] = {}
        self._ready: dict[TopicPartition, Lane] = {}  # with work, but without a task
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
            for lane in self._lanes.values():
                lane.abandon(_ended())

    # ---- for callers -----------------------------------------------------------------------------

    async def topic(self, name: str, deadline: Deadline) -> TopicInfo:
        """Return the metadata of a topic, not older than TOPIC_AGE_S; KafkaError if it does not exist."""
        known = self._topics.get(name)
        now_s = time.monotonic()
        if known is not None and now_s - known.asked_s < TOPIC_AGE_S:
            return known
        client = self._client.until(deadline)
        topic = await client.topic_as_it_is(name)
        info = TopicInfo(topic, await topic_admin.max_batch_bytes(client, name, MAX_BATCH_BYTES), now_s)
        if len(self._topics) >= MAX_TOPICS:
            del self._topics[next(iter(self._topics))]
        self._topics[name] = info
        return info

    async def room(self, deadline: Deadline | None = None) -> None:
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
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._new_lane(partition)
        # Avoids an object for each record of a stream.
        by_s = time.monotonic() + DELIVERY_TIMEOUT_S if deadline is None else deadline.at_s
        batch = lane.batch_for(size_bytes, info.max_batch_bytes, by_s)
        timestamp = int(time.time() * 1000) if record.timestamp is None else record.timestamp
        place = batch.append(record, timestamp)
        self._pending_bytes += size_bytes
        if not lane.is_busy:
            self._ready[partition] = lane
            self._wake.set()
        return Delivery(batch, place)

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

    def _new_lane(self, partition: TopicPartition) -> Lane:
        if len(self._lanes) >= MAX_LANES:
            # Their sequence numbers are dropped, so they may not continue under the shared producer id.
            self._lanes = {one: lane for one, lane in self._lanes.items() if lane.has_work}
            self._shared_identity = None
        lane = self._lanes[partition] = Lane(partition)
        return lane

    # ---- sending ---------------------------------------------------------------------------------

    async def _dispatch(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            by_leader: dict[int, list[Lane]] = {}
            for partition, lane in self._ready.items():
                topic = self._client.topics.get(partition.topic)
                leader = -1 if topic is None else topic.leaders.get(partition.partition, -1)
                if leader not in self._busy:
                    by_leader.setdefault(leader, []).append(lane)
            for leader, lanes in by_leader.items():
                self._take(lanes)
                if leader < 0:
                    self._tasks.create_task(self._find_leaders(lanes))
                else:
                    self._busy.add(leader)
                    self._tasks.create_task(self._send(leader, lanes))

    def _take(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.is_busy = True
            del self._ready[lane.partition]

    def _give_back(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            lane.is_busy = False
            if lane.has_work:
                self._ready[lane.partition] = lane
        self._wake.set()

    async def _find_leaders(self, lanes: list[Lane]) -> None:
        names = sorted({lane.partition.topic for lane in lanes})
        failed: KafkaError | None = None
        gone: set[str | None] = set()
        try:
            response = await self._until(lanes).refresh(names)
            gone = {one.name for one in response.topics if one.error_code == _GONE}
        except KafkaError as failure:
            failed = failure
        missing = [lane for lane in lanes if not self._has_leader(lane.partition)]
        self._give_back([lane for lane in lanes if self._has_leader(lane.partition)])
        for lane in missing:
            lane.tries += 1
            error = failed or KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{lane.partition} has no leader at the moment"
            )
            # Nothing was sent that could have been stored.
            if lane.partition.topic in gone and lane.tries > GONE_TRIES:
                self._topics.pop(lane.partition.topic, None)
                lost = KafkaError(_GONE, sentence_of(_GONE, f"topic {lane.partition.topic}"))
                self._fail(lane, lost, is_answer=True, can_wait=False)
            else:
                self._fail(lane, error, is_answer=True)
        await self._again(missing)

    def _has_leader(self, partition: TopicPartition) -> bool:
        topic = self._client.topics.get(partition.topic)
        return topic is not None and topic.leaders.get(partition.partition, -1) >= 0

    async def _send(self, leader: int, lanes: list[Lane]) -> None:
        """Send one request to one leader, with the next batch of each lane as long as they fit."""
        taken: list[Lane] = []
        client = self._until(lanes)
        try:
            await self._identify(client, lanes)
            topics = self._take_content(lanes, taken)
            answers = await self._ask(client, leader, topics) if topics else {}
            await self._settle_doubts(client, taken, answers)
            failing = [lane for lane in taken if not self._settle(lane, answers.get(lane.partition))]
        except KafkaError as error:
            # If no batch was taken, nothing was sent.
            failing = [lane for lane in taken or lanes if not self._fail(lane, error, is_answer=not taken)]
        finally:
            self._busy.discard(leader)
        again = set(failing)
        self._give_back([lane for lane in lanes if lane not in again])
        for lane in failing:
            self._client.forget(lane.partition.topic)
        await self._again(failing)

    def _until(self, lanes: Sequence[Lane]) -> Client:
        """Return the client with the earliest deadline of these lanes."""
        left_s = min(lane.deadline_s for lane in lanes) - time.monotonic()
        return self._client.until(Deadline.after(max(left_s, LEAST_REQUEST_S)))

    def _take_content(self, lanes: Sequence[Lane], taken: list[Lane]) -> list[TopicProduceData]:
        """Return the data of a request and add its lanes to `taken`; a lane without a known leader waits."""
        size_bytes = 0
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for lane in lanes:
            if size_bytes > MAX_REQUEST_BYTES:
                break
            if self._has_leader(lane.partition):
                content = lane.encode()
                size_bytes += len(content)
                one = PartitionProduceData(index=lane.partition.partition, records=content)
                by_topic.setdefault(lane.partition.topic, []).append(one)
                taken.append(lane)
        known = self._client.topics
        return [
            TopicProduceData(name=name, topic_id=known[name].topic_id, partition_data=data)
            for name, data in by_topic.items()
        ]

    async def _again(self, lanes: Sequence[Lane]) -> None:
        """Make lanes ready again after a pause that grows with their attempts."""
        if lanes:
            tries = min(lane.tries for lane in lanes)
            await asyncio.sleep(min(RETRY_PAUSE_S * 2 ** min(max(tries - 1, 0), 5), MAX_RETRY_PAUSE_S))
            self._give_back(lanes)

    async def _identify(self, client: Client, lanes: Sequence[Lane]) -> None:
        """Give a producer id to each lane that has none."""
        for lane in lanes:
            if lane.identity is None:
                if lane.needs_own_identity:
                    lane.identity = await self._new_identity(client)
                    continue
                async with self._identifying:
                    if self._shared_identity is None:
                        self._shared_identity = await self._new_identity(client)
                lane.identity = self._shared_identity

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
        lanes: Sequence[Lane],
        answers: dict[TopicPartition, PartitionProduceResponse],
    ) -> None:
        """Find out if an earlier attempt of pieces that are rejected now is in the log.

        Only a piece that is not in the log may be split; one that is counts as a duplicate.
        """
        for lane in lanes:
            answer = answers.get(lane.partition)
            if answer is None or not lane.is_in_doubt or answer.error_code not in OF_A_RECORD:
                continue
            assert lane.identity is not None
            match await is_stored(client, lane.partition, *lane.identity, lane.last_sequence):
                case True:
                    answers[lane.partition] = PartitionProduceResponse(
                        index=lane.partition.partition,
                        error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                        base_offset=NO_OFFSET,
                    )
                case False:
                    lane.was_not_stored()
                case None:
                    pass

    def _settle(self, lane: Lane, answer: PartitionProduceResponse | None) -> bool:
        """Process a leader's response; return False if the lane has to retry."""
        if answer is None:
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the leader of {lane.partition} did not answer")
            return self._fail(lane, error, is_answer=False)
        if answer.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._free(lane.stored(answer.base_offset, answer.log_append_time_ms))
            return True
        words = [one.batch_index_error_message for one in answer.record_errors]
        try:
            check(
                answer.error_code,
                answer.error_message or next(filter(None, words), None),
                f"a record for {lane.partition}",
            )
        except KafkaError as error:
            is_certain = error.code not in MAY_BE_STORED
            return self._fail(lane, error, is_answer=is_certain)
        raise AssertionError("an error code without an error")

    def _fail(self, lane: Lane, error: KafkaError, *, is_answer: bool, can_wait: bool = True) -> bool:
        can_wait = can_wait and time.monotonic() < lane.deadline_s
        size_bytes = lane.failed(error, is_answer=is_answer, can_wait=can_wait)
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
