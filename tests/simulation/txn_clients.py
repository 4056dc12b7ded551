"""A transactional producer of either protocol, as client libraries implement it, and a reader.

In protocol version 1 the producer registers each partition with the coordinator before it writes there, and
keeps its epoch. In version 2 (KIP-890) leaders register partitions, and each end of a transaction bumps the
epoch. A request is repeated, over any connection, until the answer is final; the caller decides what to do
about it.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ottla.logstore.record import ControlType, Record, marker_of_batch, records_of
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.node.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.node.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.node.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.node.wire.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from ottla.node.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.simulation.in_flight import Batch, send_in_order
from tests.simulation.sim_client import (
    LAST_VERSION_WITH_NAMES,
    SimClient,
    check,
    pause,
    produce_request,
)
from tests.simulation.virtual_loop import Process
from tests.simulation.world import World

LAST_CLIENTS_ADD_VERSION: Final = 3
INIT_VERSION: Final = 5
TWO_PHASE_INIT_VERSION: Final = 6
COORDINATOR_MOVED: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
}
# Errors after which client libraries send a request again.
RETRIABLE: Final = COORDINATOR_MOVED | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.INVALID_TIMESTAMP,  # the leader's clock has jumped
}
FENCED: Final = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}

R = TypeVar("R")
A = TypeVar("A")


class Protocol(NamedTuple):
    """The request versions by which a client selects a transaction protocol."""

    produce: int
    end: int
    offset_commit: int
    adds_partitions: bool

    @property
    def moves_epoch(self) -> bool:
        return not self.adds_partitions


OLD: Final = Protocol(produce=9, end=2, offset_commit=3, adds_partitions=True)
V1: Final = Protocol(produce=11, end=4, offset_commit=4, adds_partitions=True)
V2: Final = Protocol(produce=12, end=5, offset_commit=5, adds_partitions=False)


class LatePath:
    """A slow path from a client to the nodes, for requests that the client gives up and that arrive late."""

    def __init__(self, world: World, process: Process, chance: random.Random) -> None:
        self._world = world
        self._process = process
        self._chance = chance

    async def send(
        self, client: SimClient, endpoint: tuple[str, int], message: object, answer: type[Any], version: int
    ) -> None:
        """Send a request over a connection of its own and return; it arrives up to 8 s later."""
        delay_s = self._chance.choice((0.05, 0.5, 2.0, 8.0)) * self._chance.random()
        is_sent = asyncio.Event()
        self._world.spawn(
            self._process, self._send(client, endpoint, message, answer, version, delay_s, is_sent)
        )
        await is_sent.wait()

    async def _send(
        self,
        client: SimClient,
        endpoint: tuple[str, int],
        message: object,
        answer: type[Any],
        version: int,
        delay_s: float,
        is_sent: asyncio.Event,
    ) -> None:
        network = self._world.network
        link = network.link(network.host_of(self._process), network.resolve(endpoint[0]))
        before = link.latency_s
        try:
            connection = await client.new_connection(endpoint)
            link.latency_s = delay_s
            request = asyncio.ensure_future(
                connection.request(message, answer, timeout_s=60.0, max_version=version)
            )
            await asyncio.sleep(0)
            link.latency_s = before
            is_sent.set()
            await request
        except KafkaError:
            pass  # no connection, or no answer: the request was given up anyway
        finally:
            is_sent.set()


class TxnClient:
    """A producer with a transactional id."""

    def __init__(
        self,
        client: SimClient,
        chance: random.Random,
        transactional_id: str,
        *,
        protocol: Protocol,
        timeout_ms: int,
        now_ms: Callable[[], int],
        trace: Callable[[str, str], None],
        is_two_phase: bool = False,
    ) -> None:
        self.client = client
        self.is_two_phase = is_two_phase
        self.transactional_id = transactional_id
        self.protocol = protocol
        self.timeout_ms = timeout_ms
        self.producer = (-1, -1)
        self._chance = chance
        self._now_ms = now_ms
        self._trace = trace
        self._sequences: dict[TopicPartition, int] = {}

    # ---- coordinator ---------------------------------------------------------------------------------

    async def init(self, *, resumes: bool = False, keeps_prepared: bool = False) -> tuple[int, int]:
        """Request a producer id and epoch; with `resumes`, as the producer that it was (KIP-360).

        With `keeps_prepared` an open transaction is kept (KIP-939), and its pair returned, (-1, -1) if there
        is none.
        """
        expected = self.producer if resumes else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            enable2_pc=self.is_two_phase,
            keep_prepared_txn=keeps_prepared,
        )
        version = TWO_PHASE_INIT_VERSION if self.is_two_phase else INIT_VERSION
        found = await self._ask(request, InitProducerIdResponse, version, lambda answer: (answer.error_code,))
        self.producer = (found.producer_id, found.producer_epoch)
        self._sequences.clear()
        return found.ongoing_txn_producer_id, found.ongoing_txn_producer_epoch

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=one.topic, partitions=[one.partition]) for one in partitions
            ],
        )
        await self._ask(
            request,
            AddPartitionsToTxnResponse,
            LAST_CLIENTS_ADD_VERSION,
            lambda answer: (
                one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
                if one.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED
            ),
        )

    async def add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            group_id=group,
        )
        await self._ask(request, AddOffsetsToTxnResponse, 3, lambda answer: (answer.error_code,))

    async def end(self, *, committed: bool, late: LatePath | None = None) -> None:
        """Commit or abort. With `late` a first copy of the request takes the late path."""
        if late is not None:
            await self.end_and_forget(late, committed=committed)
        answer = await self._ask(
            self._end_request(committed),
            EndTxnResponse,
            self.protocol.end,
            lambda answer: (answer.error_code,),
        )
        if self.protocol.moves_epoch:
            self.producer = (answer.producer_id, answer.producer_epoch)
            self._sequences.clear()

    async def end_and_forget(self, late: LatePath, *, committed: bool) -> None:
        """Send the end of the transaction over the late path, and ignore the answer."""
        try:
            coordinator = await self._coordinator()
        except KafkaError:
            return
        request = self._end_request(committed)
        await late.send(self.client, coordinator, request, EndTxnResponse, self.protocol.end)
        # Libraries do the same when a response is overdue: they replace the connection.
        self.client.drop_connection(coordinator)

    def _end_request(self, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=committed,
        )

    async def _coordinator(self) -> tuple[str, int]:
        return await self.client.coordinator_of(self.transactional_id, key_type=1)

    async def _ask(
        self, request: object, answer: type[R], version: int, codes: Callable[[R], Iterable[int]]
    ) -> R:
        """Repeat a request to the coordinator until the response is final."""
        while True:
            try:
                found = await self.client.ask(await self._coordinator(), request, answer, max_version=version)
                for code in codes(found):
                    check(code)
                return found
            except KafkaError as error:
                self._trace("transactions", f"{self.transactional_id} {answer.__name__} {error.code.name}")
                if error.code not in RETRIABLE:
                    raise
                if error.code in COORDINATOR_MOVED:
                    self.client.forget_coordinator(self.transactional_id, key_type=1)
            await pause(self._chance)

    # ---- records and offsets -----------------------------------------------------------------------------

    async def produce(
        self, partition: TopicPartition, *batches: list[bytes], late: LatePath | None = None
    ) -> list[int]:
        """Produce batches, several in flight at once, and return their offsets.

        With `late` a first copy of the first request takes the late path.
        """
        offsets: dict[int, int] = {}

        def acknowledge(batch: Batch, offset: int) -> None:
            offsets[batch.sequence] = offset
            self._trace(
                "produced",
                f"{self.transactional_id} {self.producer} {partition} {batch.sequence} at {offset}",
            )

        waiting = self._batches(partition, batches)
        end = waiting[-1].sequence + len(waiting[-1].values)
        if late is not None:
            await self._send_late(late, partition, waiting[0].request)
        while waiting:
            errors = []
            try:
                endpoint, unsent = await self.client.leader(partition), iter(waiting)
                rejected = await send_in_order(
                    self.client, endpoint, unsent, acknowledge=acknowledge, max_version=self.protocol.produce
                )
                waiting = [*(one.batch for one in rejected), *unsent]
                errors = [one.error for one in rejected]
            except KafkaError as error:
                errors = [error]
            for place, error in enumerate(errors):
                self._trace("transactions", f"{self.transactional_id} {partition} {error.code.name}")
                is_behind = place > 0 and error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                if error.code not in RETRIABLE and not is_behind:
                    raise error
            if errors:
                self.client.forget_leader(partition)
                await pause(self._chance)
        self._sequences[partition] = end
        return [offset for _, offset in sorted(offsets.items())]

    def _batches(self, partition: TopicPartition, batches: Sequence[list[bytes]]) -> list[Batch]:
        sequence = self._sequences.get(partition, 0)
        made = []
        for values in batches:
            request = self._produce_request(partition, values, sequence)
            made.append(Batch(sequence, values, request))
            sequence += len(values)
        return made

    async def produce_and_forget(
        self, partition: TopicPartition, values: list[bytes], late: LatePath
    ) -> None:
        """Send a batch over the late path and give it up; a new epoch must follow."""
        await self._send_late(late, partition, self._batches(partition, [values])[0].request)

    async def _send_late(self, late: LatePath, partition: TopicPartition, request: ProduceRequest) -> None:
        try:
            endpoint = await self.client.leader(partition)
        except KafkaError:
            return
        await late.send(self.client, endpoint, request, ProduceResponse, self.protocol.produce)
        self.client.drop_connection(endpoint)

    def _produce_request(
        self, partition: TopicPartition, values: Sequence[bytes], sequence: int
    ) -> ProduceRequest:
        return produce_request(
            partition,
            values,
            now_ms=self._now_ms(),
            producer=self.producer,
            base_sequence=sequence,
            transactional_id=self.transactional_id,
        )

    async def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        generation_id: int,
        member_id: str,
        late: LatePath | None = None,
    ) -> None:
        """Commit offsets of a group in the transaction.

        With `late` a first copy of the request takes the late path.
        """
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=one.topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=one.partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
                for one, offset in offsets.items()
            ],
        )
        if late is not None:
            try:
                coordinator = await self.client.coordinator_of(group)
            except KafkaError:
                pass
            else:
                version = self.protocol.offset_commit
                await late.send(self.client, coordinator, request, TxnOffsetCommitResponse, version)
                self.client.drop_connection(coordinator)
        while True:
            try:
                answer = await self.client.ask(
                    await self.client.coordinator_of(group),
                    request,
                    TxnOffsetCommitResponse,
                    max_version=self.protocol.offset_commit,
                )
                for topic in answer.topics:
                    for one in topic.partitions:
                        check(one.error_code)
                return
            except KafkaError as error:
                self._trace("transactions", f"{self.transactional_id} offsets {error.code.name}")
                if error.code not in RETRIABLE:
                    raise
                self.client.forget_coordinator(group)
            await pause(self._chance)


# ---- reader ------------------------------------------------------------------------------------------------


class Marker(NamedTuple):
    """The marker of a transaction in a log."""

    producer_id: int
    producer_epoch: int
    offset: int
    committed: bool


class Portion(NamedTuple):
    """The result of a fetch: the records that a reader of this isolation level returns."""

    records: list[Record]
    markers: list[Marker]
    next_offset: int
    high_watermark: int
    last_stable_offset: int


async def read(
    client: SimClient, partition: TopicPartition, offset: int, *, committed: bool, max_wait_ms: int = 0
) -> Portion:
    """Fetch from the leader and drop aborted records, which is the client's part of isolation."""
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=100_000,
        isolation_level=int(committed),
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=partition.topic,
                partitions=[
                    FetchPartition(
                        partition=partition.partition, fetch_offset=offset, partition_max_bytes=100_000
                    )
                ],
            )
        ],
    )
    endpoint = await client.leader(partition)
    response = await client.ask(endpoint, request, FetchResponse, max_version=LAST_VERSION_WITH_NAMES)
    check(response.error_code)
    one = response.responses[0].partitions[0]
    check(one.error_code)
    content = bytes(one.records) if isinstance(one.records, bytes | bytearray | memoryview) else b""
    begun = sorted((each.first_offset, each.producer_id) for each in one.aborted_transactions or ())
    records: list[Record] = []
    markers: list[Marker] = []
    next_offset = offset
    aborted: set[int] = set()
    for position, header in iterate_headers(content):
        batch = content[position : position + header.size_bytes]
        next_offset = header.next_offset
        while begun and begun[0][0] <= header.last_offset:
            aborted.add(begun.pop(0)[1])
        if header.is_control:
            marker = marker_of_batch(batch)
            assert marker is not None, header
            is_commit = marker.control_type is ControlType.COMMIT
            if not is_commit:
                aborted.discard(header.producer_id)
            if header.base_offset >= offset:
                markers.append(
                    Marker(header.producer_id, header.producer_epoch, header.base_offset, is_commit)
                )
        elif not (header.is_transactional and header.producer_id in aborted):
            records += [record for record in records_of([batch]) if record.offset >= offset]
    return Portion(records, markers, next_offset, one.high_watermark, one.last_stable_offset)
