"""A client of the simulated cluster: it finds leaders, sends requests and raises their errors.

It is built on the `PeerClient` of the product and uses only the protocol. It does not retry: the caller
decides what to do about an error.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from ottla.logstore.record import Headers, Record, build_batch, records_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.node.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.node.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.node.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.node.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

LAST_VERSION_WITH_NAMES: Final = 12  # of Produce and Fetch: topics by name, not by id
LAST_COMMIT_VERSION_WITH_NAMES: Final = 9
REQUEST_TIMEOUT_S: Final = 3.0
PRODUCE_TIMEOUT_MS: Final = 1_500
EARLIEST: Final = -2
ALL: Final = -1  # acks

R = TypeVar("R")


class Fetched(NamedTuple):
    """The result of a fetch of one partition."""

    records: list[Record]
    high_watermark: int
    log_start_offset: int


class SimClient:
    """A client that finds leaders and coordinators by asking any node; each request may raise KafkaError."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]], chance: random.Random) -> None:
        self._bootstrap = list(bootstrap)
        self._chance = chance
        self._connections: dict[tuple[str, int], PeerClient] = {}
        self._endpoints: dict[int, tuple[str, int]] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self._coordinator: dict[tuple[int, str], tuple[str, int]] = {}
        self._given_up: list[PeerClient] = []

    def close(self) -> None:
        for connection in [*self._connections.values(), *self._given_up]:
            connection.abort()

    async def connect(self, endpoint: tuple[str, int]) -> PeerClient:
        """Return the connection to a node, which handles the requests of one connection in order."""
        connection = self._connections.get(endpoint)
        if connection is None or not connection.is_open:
            connection = await self.new_connection(endpoint)
            other = self._connections.get(endpoint)
            if other is not None and other.is_open:
                connection.abort()
                return other
            self._connections[endpoint] = connection
        return connection

    async def new_connection(self, endpoint: tuple[str, int]) -> PeerClient:
        """Open a connection that the caller closes."""
        return await PeerClient.connect(*endpoint, client_id="sim", timeout_s=REQUEST_TIMEOUT_S)

    def drop_connection(self, endpoint: tuple[str, int]) -> None:
        """Use a new connection for the next request to this node; requests under way stay on the old one."""
        connection = self._connections.pop(endpoint, None)
        if connection is not None:
            self._given_up.append(connection)

    def end_connection(self, endpoint: tuple[str, int]) -> None:
        """Close the connection to a node, which notices it."""
        connection = self._connections.pop(endpoint, None)
        if connection is not None:
            connection.abort()

    async def ask(
        self,
        endpoint: tuple[str, int],
        message: object,
        answer: type[R],
        *,
        max_version: int | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> R:
        """Send one request to one node and return its response."""
        connection = await self.connect(endpoint)
        return await connection.request(message, answer, timeout_s=timeout_s, max_version=max_version)

    def any_endpoint(self) -> tuple[str, int]:
        """Return the address of a random node; the next attempt may use another."""
        return self._chance.choice(self._bootstrap)

    # ---- metadata ----------------------------------------------------------------------------------

    async def refresh(self, topics: Sequence[str]) -> MetadataResponse:
        """Request the metadata of topics and remember the leaders."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
        )
        response = await self.ask(self.any_endpoint(), request, MetadataResponse)
        for broker in response.brokers:
            self._endpoints[broker.node_id] = (broker.host, broker.port)
        for topic in response.topics:
            for one in topic.partitions:
                if topic.name is not None and one.leader_id >= 0:
                    self.leaders[TopicPartition(topic.name, one.partition_index)] = one.leader_id
        return response

    async def leader(self, topic_partition: TopicPartition) -> tuple[str, int]:
        """Return the address of a partition's leader according to the metadata."""
        if topic_partition not in self.leaders:
            await self.refresh([topic_partition.topic])
        leader = self.leaders.get(topic_partition, -1)
        if leader not in self._endpoints:
            self.leaders.pop(topic_partition, None)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return self._endpoints[leader]

    def forget_leader(self, topic_partition: TopicPartition) -> None:
        self.leaders.pop(topic_partition, None)

    # ---- records -----------------------------------------------------------------------------------

    async def init_producer_id(self) -> tuple[int, int]:
        """Return a new producer id and its epoch."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await self.ask(self.any_endpoint(), request, InitProducerIdResponse)
        check(response.error_code)
        return response.producer_id, response.producer_epoch

    async def fetch(
        self,
        topic_partition: TopicPartition,
        offset: int,
        *,
        max_wait_ms: int = 500,
        max_bytes: int = 100_000,
        endpoint: tuple[str, int] | None = None,
    ) -> Fetched:
        """Fetch from `offset` on, from the leader or from the node at `endpoint`."""
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=topic_partition.topic,
                    partitions=[
                        FetchPartition(
                            partition=topic_partition.partition,
                            fetch_offset=offset,
                            partition_max_bytes=max_bytes,
                        )
                    ],
                )
            ],
        )
        if endpoint is None:
            endpoint = await self.leader(topic_partition)
        response = await self.ask(endpoint, request, FetchResponse, max_version=LAST_VERSION_WITH_NAMES)
        check(response.error_code)
        one = response.responses[0].partitions[0]
        check(one.error_code)
        content = bytes(one.records) if isinstance(one.records, bytes | bytearray | memoryview) else b""
        records = [record for record in records_of([content]) if record.offset >= offset] if content else []
        return Fetched(records, one.high_watermark, one.log_start_offset)

    async def list_offset(self, topic_partition: TopicPartition, timestamp: int) -> int:
        """Return the offset of a timestamp, or of a special one such as EARLIEST."""
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic_partition.topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=topic_partition.partition, timestamp=timestamp)
                    ],
                )
            ],
        )
        response = await self.ask(await self.leader(topic_partition), request, ListOffsetsResponse)
        one = response.topics[0].partitions[0]
        check(one.error_code)
        return one.offset

    # ---- groups ------------------------------------------------------------------------------------

    async def coordinator_of(self, name: str, *, key_type: int = 0) -> tuple[str, int]:
        """Return the address of the coordinator of a group or, with key type 1, of a transactional id."""
        found = self._coordinator.get((key_type, name))
        if found is None:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
            response = await self.ask(self.any_endpoint(), request, FindCoordinatorResponse)
            one = response.coordinators[0]
            check(one.error_code, one.error_message)
            found = self._coordinator[key_type, name] = (one.host, one.port)
        return found

    def forget_coordinator(self, name: str, *, key_type: int = 0) -> None:
        self._coordinator.pop((key_type, name), None)

    async def commit(
        self,
        group: str,
        topic_partition: TopicPartition,
        offset: int,
        *,
        generation_id: int = -1,
        member_id: str = "",
    ) -> None:
        """Commit an offset, as a member or as a consumer outside a group."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic_partition.topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=topic_partition.partition,
                            committed_offset=offset,
                            committed_metadata="",
                        )
                    ],
                )
            ],
        )
        response = await self.ask(
            await self.coordinator_of(group),
            request,
            OffsetCommitResponse,
            max_version=LAST_COMMIT_VERSION_WITH_NAMES,
        )
        check(response.topics[0].partitions[0].error_code)

    async def committed(self, group: str, topic_partition: TopicPartition) -> int:
        """Return the committed offset, -1 if there is none."""
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[
                        OffsetFetchRequestTopics(
                            name=topic_partition.topic, partition_indexes=[topic_partition.partition]
                        )
                    ],
                )
            ],
            require_stable=True,
        )
        response = await self.ask(
            await self.coordinator_of(group),
            request,
            OffsetFetchResponse,
            max_version=LAST_COMMIT_VERSION_WITH_NAMES,
        )
        check(response.groups[0].error_code)
        one = response.groups[0].topics[0].partitions[0]
        check(one.error_code)
        return one.committed_offset


def produce_request(
    topic_partition: TopicPartition,
    values: Sequence[bytes],
    *,
    now_ms: int,
    producer: tuple[int, int],
    base_sequence: int,
    transactional_id: str | None = None,
    headers: Sequence[Headers] = (),
) -> ProduceRequest:
    """Return a request with one batch and acks=all, transactional if an id is given.

    `headers` has the headers of each record.
    """
    batch = build_batch(
        [
            (None, value, now_ms, own)
            for value, own in zip(values, headers or [()] * len(values), strict=True)
        ],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=base_sequence,
        is_transactional=transactional_id is not None,
    )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=ALL,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic_partition.topic,
                partition_data=[PartitionProduceData(index=topic_partition.partition, records=batch)],
            )
        ],
    )


def base_offset_of(response: ProduceResponse) -> int:
    """Return the base offset of a request's only batch; raise KafkaError if it was rejected."""
    one = response.responses[0].partition_responses[0]
    check(one.error_code, one.error_message)
    return one.base_offset


def check(code: int, message: str | None = None) -> None:
    """Raise KafkaError if a response has an error code."""
    if code:
        raise KafkaError(ErrorCode(code), message or "")


async def pause(chance: random.Random, seconds: float = 0.1) -> None:
    """Wait a little before the next attempt."""
    await asyncio.sleep(seconds * (0.5 + chance.random()))
