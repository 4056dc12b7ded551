"""Answers a fetch in three steps.

Every partition is located, at the cost of an index lookup; if that yields too few bytes, the fetch waits;
then the located bytes are read, in a thread if they are not in the page cache.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from ottla.logstore.disk import FileRecords, FileSlice
from ottla.logstore.log_reader import ColdRead
from ottla.logstore.partition_log import FetchDataInfo, FetchIsolation
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.schema_compiler import encode
from ottla.logstore.words.schema_encode import uvarint
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.leader_hints import WRONG_LEADER, leader_hint
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed, Result
from ottla.node.net.connection_info import NO_PEER
from ottla.node.replica.fetch_session import FEW_PARTITIONS, NO_SESSION, FetchItem, FetchSession, TopicKey
from ottla.node.replica.partition import Partition
from ottla.node.replica.read_replica import NO_PREFERENCE, preferred_read_replica
from ottla.node.services import Services
from ottla.node.settings.cluster_settings import RACK_AWARE_SELECTOR
from ottla.node.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.node.work.turns import Steps, at_once, take_turns

NO_OFFSET = -1
# Reading a response blocks the loop (10 GB/s from the page cache), and it stays in memory until the client
# has received it. Clients ask for 50 MB and are as fast with 16.
MAX_ANSWER_BYTES = 16 * 1024 * 1024
# A smaller slice is read: one write of header and records costs less than two system calls.
MIN_SENT_FILE_BYTES = 32 * 1024
FIRST_FLEXIBLE_VERSION = 12
FIRST_VERSION_OF_READ_REPLICAS = 11  # KIP-392; older clients read from the leader only
_READ_COMMITTED = 1
_LENGTH_BYTES = 4  # the length field of each response


Content = Buffer | FileRecords  # the records of one partition: read, or to be sent from its file


@dataclass(slots=True)
class Located:
    """One partition of a fetch after its lookup: its part of the response except for the records.

    `size_bytes` counts for the limits of the fetch; slightly less may be sent.
    """

    item: FetchItem
    partition: Partition | None
    found: FetchDataInfo | None
    data: PartitionData
    size_bytes: int


# Not counted as Kafka's failed requests, which indicate a fault of the broker.
USUAL_REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
# Errors that prevent any read of a partition: for these Kafka sends an empty list of aborted transactions,
# for others null.
NOT_READ = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)


def failure(partition: int, code: ErrorCode) -> PartitionData:
    """Return the response of a partition that cannot be read: no offsets, and empty records, not null."""
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=NO_OFFSET,
        aborted_transactions=() if code in NOT_READ else None,
        records=b"",
    )


def bounds(services: Services, request: FetchRequest) -> tuple[int, int]:
    """Return the maximum and the minimum size of the response to a fetch, in bytes."""
    if services.unsent.is_scarce:
        return 0, 0  # a single batch
    max_bytes = max(0, min(request.max_bytes, services.config.fetch_max_bytes))
    min_bytes = min(request.min_bytes, max_bytes)
    return min(max_bytes, max(MAX_ANSWER_BYTES, min_bytes)), min_bytes


class FetchAnswer:
    """One fetch request while it is served."""

    __slots__ = (
        "_access",
        "_charge",
        "_cold_reads",
        "_context",
        "_counts_bytes",
        "_endpoints",
        "_is_follower",
        "_is_incremental",
        "_isolation",
        "_leader_only",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_names",
        "_rack",
        "_services",
        "_session",
        "_session_id",
        "met_newer_epoch",
    )

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        request: FetchRequest,
        session: FetchSession | None = None,
        is_incremental: bool = False,
        session_id: int = NO_SESSION,
        limits: tuple[int, int] | None = None,
    ) -> None:
        """`session_id` is the id of a follower's session, whose changes are already applied.

        `limits` are the `bounds` of this request, if the caller has computed them.
        """
        self._services = services
        self._cold_reads: list[ColdRead] = []
        self.met_newer_epoch = False  # the client knows a leader epoch that this node does not know yet
        self._context = context
        access = context.access
        self._access = None if access.is_open else access
        self._session = session
        self._session_id = session_id if session is None else session.session_id
        self._is_incremental = is_incremental
        self._is_follower = session_id != NO_SESSION or context.connection.peer_id != NO_PEER
        self._charge = context.charge
        self._max_bytes, self._min_bytes = bounds(services, request) if limits is None else limits
        most = None if self._charge is None else self._charge.most_fetched_bytes()
        self._counts_bytes = most is not None
        if most is not None:
            # A larger response would be throttled for certain, and the client would never get it.
            self._max_bytes = min(self._max_bytes, most)
            self._min_bytes = min(self._min_bytes, self._max_bytes)
        self._max_wait_ms = request.max_wait_ms
        committed = request.isolation_level == _READ_COMMITTED
        self._isolation = FetchIsolation.TXN_COMMITTED if committed else FetchIsolation.HIGH_WATERMARK
        self._leader_only = context.api_version < FIRST_VERSION_OF_READ_REPLICAS
        is_by_rack = services.config.replica_selector_class == RACK_AWARE_SELECTOR
        self._rack = request.rack_id if is_by_rack and not self._leader_only else ""
        self._endpoints: dict[int, NodeEndpoint] = {}
        self._names: dict[TopicKey, str] = {}  # of the topics that a fetch without a session has found

    # ---- first step: locate ----------------------------------------------------------------------

    def locate(self, items: Sequence[FetchItem]) -> list[Located]:
        """Locate the bytes of each partition in the order of the request, at most `max_bytes` for all.

        The first batch of the first partition that has records is returned however large it is, so that a
        consumer always makes progress.
        """
        if len(items) == 1:
            return [self._locate_one(items[0], self._max_bytes, True)]
        return at_once(self.steps_to_locate(items))

    def is_behind(self, items: Sequence[FetchItem]) -> bool:
        """Return True if the metadata of this node lack a leader epoch that the client knows."""
        topics = self._services.metadata.image.topics
        for topic_key, wanted in ((one.topic, one.wanted) for one in items):
            topic = (
                topics.by_id.get(topic_key) if isinstance(topic_key, bytes) else topics.by_name.get(topic_key)
            )
            partitions = () if topic is None else topic.partitions
            if (
                0 <= wanted.partition < len(partitions)
                and wanted.current_leader_epoch > partitions[wanted.partition].leader_epoch
            ):
                return True
        return False

    @property
    def is_cold(self) -> bool:
        """True if the result of `locate` is void because indexes must be read from disk first."""
        return bool(self._cold_reads)

    async def locate_cold(self, items: Sequence[FetchItem]) -> list[Located]:
        """Read the indexes in a thread, then locate again."""
        located: list[Located] = []
        while self._cold_reads:
            reads, self._cold_reads = self._cold_reads, []
            await self._services.in_thread(partial(_read_indexes, reads))
            located = await take_turns(self.steps_to_locate(items))
        return located

    def steps_to_locate(self, items: Iterable[FetchItem]) -> Steps[list[Located]]:
        """Locate the bytes as `locate` does, with a step for each partition."""
        remaining_bytes = self._max_bytes
        minimum_one_batch = True
        answers = []
        for item in items:
            one = self._locate_one(item, remaining_bytes, minimum_one_batch)
            if one.size_bytes > 0:
                minimum_one_batch = False
                remaining_bytes = max(0, remaining_bytes - one.size_bytes)
            answers.append(one)
            yield
        return answers

    def _locate_one(self, item: FetchItem, remaining_bytes: int, minimum_one_batch: bool) -> Located:
        wanted = item.wanted
        topic = item.topic
        name = self._name_of(topic, item) if isinstance(topic, bytes) else topic
        try:
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            if self._access and not self._access.allows(AclOperation.READ, ResourceType.TOPIC, name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            partition = self._services.replica_manager.partition((name, wanted.partition))
            partition.counters.total_fetch_requests += 1
            if isinstance(topic, bytes) and partition.topic_id != topic:
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
            if self._leader_only:
                partition.check_leader(wanted.current_leader_epoch)
            else:
                partition.check_epoch(wanted.current_leader_epoch)
                if self._access and not partition.is_leader and self._services.is_cut_off:
                    # ACLs may have changed elsewhere since this node was cut off. (A leader is fenced then,
                    # and leads nothing.)
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self._rack:
                replica_id = self._preferred_read_replica(partition, wanted)
                if replica_id != NO_PREFERENCE:
                    return self._redirected(item, partition, replica_id)
            if wanted.last_fetched_epoch >= 0:
                diverging = partition.diverging_epoch(wanted.fetch_offset, wanted.last_fetched_epoch)
                if diverging is not None:
                    return self._diverging(item, partition, diverging.leader_epoch, diverging.end_offset)
            log = partition.log
            cold = log.cold_read(wanted.fetch_offset, self._isolation)
            if cold is not None:
                self._cold_reads.append(cold)
                return Located(item, None, None, PartitionData(), 0)
            found = log.read(
                wanted.fetch_offset,
                max(0, min(remaining_bytes, wanted.partition_max_bytes)),
                isolation=self._isolation,
                minimum_one_batch=minimum_one_batch,
            )
        except KafkaError as error:
            if name is not None:
                self._remember(item, name)
            if error.code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                self.met_newer_epoch = True
            return Located(item, None, None, self._failed(name, wanted, error.code), 0)
        data = PartitionData(
            partition_index=wanted.partition,
            high_watermark=found.high_watermark,
            last_stable_offset=found.last_stable_offset,
            log_start_offset=found.log_start_offset,
            # Rows of the index as they are: they have the fields of the response, and there may be thousands.
            aborted_transactions=cast("Sequence[AbortedTransaction] | None", found.aborted_transactions),
        )
        return Located(item, partition, found, data, found.readable_bytes)

    def _preferred_read_replica(self, partition: Partition, wanted: FetchPartition) -> int:
        return preferred_read_replica(
            partition,
            rack=self._rack,
            fetch_offset=wanted.fetch_offset,
            listener_name=self._context.connection.listener_name,
            brokers=self._services.metadata.image.brokers,
        )

    def _redirected(self, item: FetchItem, partition: Partition, replica_id: int) -> Located:
        """Return the answer for a partition that names a better replica and has no records."""
        log = partition.log
        data = PartitionData(
            partition_index=item.wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=replica_id,
        )
        return Located(item, partition, None, data, 0)

    def _name_of(self, topic_id: bytes, item: FetchItem) -> str | None:
        """Return the name of a topic given by its id: the current name, or the one last found for the id."""
        topic = self._services.metadata.image.topics.by_id.get(topic_id)
        if topic is not None:
            return topic.name
        if self._session is None:
            return self._names.get(topic_id)
        cached = self._session.partitions.get(item.key)
        return None if cached is None else cached.topic_name

    def _remember(self, item: FetchItem, name: str) -> None:
        """Remember the topic's name: if its id is gone next time, the client gets the error for the name."""
        if self._session is None:
            self._names[item.topic] = name
        elif (cached := self._session.partitions.get(item.key)) is not None:
            cached.topic_name = name

    def _diverging(self, item: FetchItem, partition: Partition, epoch: int, end_offset: int) -> Located:
        log = partition.log
        data = PartitionData(
            partition_index=item.wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
            aborted_transactions=None,
        )
        return Located(item, partition, None, data, 0)

    def _failed(self, topic: TopicKey | None, wanted: FetchPartition, code: ErrorCode) -> PartitionData:
        data = failure(wanted.partition, code)
        self._count_failure(topic, code)
        if code is ErrorCode.CORRUPT_MESSAGE and isinstance(topic, str):
            self._services.maintenance.scrub.soon(
                TopicPartition(topic, wanted.partition), wanted.fetch_offset
            )
        if code not in WRONG_LEADER or not isinstance(topic, str):
            return data
        hint = leader_hint(self._services, self._context.connection, topic, wanted.partition)
        if hint is None:
            return data
        self._endpoints[hint.leader_id] = NodeEndpoint(
            node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack
        )
        return PartitionData(
            partition_index=wanted.partition,
            error_code=code,
            high_watermark=NO_OFFSET,
            aborted_transactions=None,
            records=b"",
            current_leader=LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch),
        )

    def _count_failure(self, topic: TopicKey | None, code: ErrorCode) -> None:
        if self._context.counters is not None:
            self._context.counters.count_error(code)
        if isinstance(topic, str) and code not in USUAL_REFUSALS:
            counters = self._services.replica_manager.counters_of(topic)
            if counters is not None:
                counters.failed_fetch_requests += 1

    # ---- second step: wait -----------------------------------------------------------------------

    def is_enough(self, located: Iterable[Located]) -> bool:
        """Return True if the response should be sent now: it has enough bytes, or must not wait."""
        available_bytes = 0
        for one in located:
            if one.found is None:
                return True  # an error, a diverging log, or a better replica to read from
            available_bytes += one.size_bytes
        return available_bytes >= self._min_bytes

    def wait(
        self, items: Sequence[FetchItem], located: Iterable[Located], *, was_in_turns: bool
    ) -> Delayed[Result[FetchResponse]]:
        """Return a result that waits for enough bytes, then locates and reads them.

        Partitions located in earlier turns of the loop are checked again at once.
        """
        delayed, future = self._services.replica_manager.delay_fetch(self._min_bytes, self._max_wait_ms)
        for one in located:
            partition, wanted = one.partition, one.item.wanted
            assert partition is not None  # `is_enough` returned False
            self._remember(one.item, partition.topic_partition.topic)
            delayed.watch(partition, one.size_bytes, self._measure(partition, wanted))
            if was_in_turns:
                delayed.check(partition)
        return Delayed(future, lambda _: self._answer_again(items))

    def _answer_again(self, items: Sequence[FetchItem]) -> Result[FetchResponse]:
        if self._context.is_large:
            return self._answer_in_turns(items)
        located = self.locate(items)
        return self._answer_cold_items(items) if self.is_cold else self.answer(located)

    async def _answer_in_turns(self, items: Sequence[FetchItem]) -> Result[FetchResponse]:
        located = await take_turns(self.steps_to_locate(items))
        return self.answer(await self.locate_cold(items) if self.is_cold else located)

    async def _answer_cold_items(self, items: Sequence[FetchItem]) -> Result[FetchResponse]:
        return self.answer(await self.locate_cold(items))

    def _measure(self, partition: Partition, wanted: FetchPartition) -> Callable[[], int | None]:
        max_bytes = max(0, min(self._max_bytes, wanted.partition_max_bytes))
        return lambda: partition.readable_bytes(
            wanted.fetch_offset, max_bytes, self._isolation, enough_bytes=self._min_bytes
        )

    # ---- third step: read and answer -------------------------------------------------------------

    def answer(self, located: Sequence[Located]) -> Result[FetchResponse]:
        """Return the response, or a coroutine that returns it if records must be read from disk."""
        charge = self._charge
        if charge is not None and charge.count_fetched(
            self._answer_bytes(located) if self._counts_bytes else 0
        ):
            return self._throttled()
        contents: list[Content | None] = []
        is_cold = False
        for one in located:
            content: Content | None = b""
            if one.size_bytes:
                try:
                    content = self._content_of(slice_of(one))
                except OSError as error:
                    _give_up(one, error)
                is_cold = is_cold or content is None
            contents.append(content)
        if is_cold:
            return self._answer_cold(located, contents)
        return self._respond(located, contents)

    def _answer_bytes(self, located: Sequence[Located]) -> int:
        """Return the response's size as Apache Kafka counts it: its length, and all after its header."""
        session, version = self._session, self._context.api_version
        partitions = session.partitions if session is not None and self._is_incremental else {}
        sent = []
        for one in located:
            cached = partitions.get(one.item.key)
            if cached is None or cached.is_changed(one.data, one.size_bytes):
                sent.append(one)
        is_flexible = version >= FIRST_FLEXIBLE_VERSION
        records_bytes = 0
        for one in sent:
            if one.size_bytes:
                size = slice_of(one).size
                # In flexible versions the length field of empty records takes one byte.
                records_bytes += size + (len(uvarint(size + 1)) - 1 if is_flexible else 0)
        topics: dict[TopicKey, list[PartitionData]] = {}
        for one in sent:
            topics.setdefault(one.item.topic, []).append(one.data)
        return _LENGTH_BYTES + len(encode(self._response(topics), version)) + records_bytes

    def _throttled(self) -> FetchResponse:
        """Return a response without records; an existing session stays as it was, a new one is dropped."""
        if self._session is not None and not self._is_incremental:
            self._services.replica_manager.sessions.remove(self._session.session_id)
            self._session_id = NO_SESSION
        return FetchResponse(session_id=self._session_id)

    def _content_of(self, piece: FileSlice) -> Content | None:
        """Return the content to send for a slice, or None if it must be read from disk."""
        if piece.size >= MIN_SENT_FILE_BYTES and "SSL" not in self._context.connection.security_protocol:
            records = piece.to_send()
            if records is not None:
                return records
        return piece.read_cached()

    async def _answer_cold(self, located: Sequence[Located], contents: list[Content | None]) -> FetchResponse:
        for place, one in enumerate(located):
            if contents[place] is None:
                try:
                    contents[place] = await self._services.in_thread(slice_of(one).read)
                except OSError as error:
                    _give_up(one, error)
        return self._respond(located, contents)

    def _respond(self, located: Sequence[Located], contents: Sequence[Content | None]) -> FetchResponse:
        session, is_incremental = self._session, self._is_incremental
        topics: dict[TopicKey, list[PartitionData]] = {}
        for one, content in zip(located, contents, strict=True):
            data, size_bytes = one.data, one.size_bytes
            if size_bytes:
                data.records = content  # type: ignore[misc, assignment]  # ours until it is sent
                if one.partition is not None and not self._is_follower:
                    one.partition.counters.bytes_out += slice_of(one).size
            if session is not None:
                cached = session.partitions.get(one.item.key)
                if cached is not None:
                    if one.partition is not None:
                        cached.topic_name = one.partition.topic_partition.topic
                    must_send = cached.must_send(data, size_bytes)
                    if is_incremental and size_bytes:
                        session.move_to_end(one.item.key)
                    if is_incremental and not must_send:
                        continue
            topics.setdefault(one.item.topic, []).append(data)
        if session is not None and len(located) > FEW_PARTITIONS:
            self._end_if_absent(session, located)
        return self._response(topics)

    def _response(self, topics: Mapping[TopicKey, list[PartitionData]]) -> FetchResponse:
        return FetchResponse(
            session_id=self._session_id,
            responses=[
                FetchableTopicResponse(topic_id=topic, partitions=partitions)
                if isinstance(topic, bytes)
                else FetchableTopicResponse(topic=topic, partitions=partitions)
                for topic, partitions in topics.items()
            ],
            node_endpoints=list(self._endpoints.values()),
        )

    def _end_if_absent(self, session: FetchSession, located: Sequence[Located]) -> None:
        """End a session with many partitions that do not exist, since each response repeats all of them."""
        absent = sum(1 for one in located if one.data.error_code in NOT_READ)
        if absent > FEW_PARTITIONS:
            self._services.replica_manager.sessions.remove(session.session_id)
            self._session_id = NO_SESSION


def _read_indexes(reads: Sequence[ColdRead]) -> None:
    for one in reads:
        one.run()


def slice_of(located: Located) -> FileSlice:
    """Return the slice of the log that is sent for a located partition."""
    assert located.found is not None, "only located records have a size"
    return located.found.slice


def _give_up(located: Located, error: OSError) -> None:
    """Stop serving a log whose disk cannot return what was written to it."""
    assert located.partition is not None
    code = located.partition.log.flush_failed(error).code
    located.data, located.size_bytes = failure(located.item.wanted.partition, code), 0
