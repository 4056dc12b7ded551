"""Nodes that lead partitions with open transactions, and write the markers of coordinators, for tests."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.transactions.transaction_commands import MarkersWritten
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.record import ControlType, marker_of_batch
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.group_runtime import GroupRuntime
from ottla.node.coordinators.marker_sender import MarkerSender
from ottla.node.coordinators.marker_writer import MarkerWriter
from ottla.node.kafka_api import write_txn_markers
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.peer_client import PeerClient
from ottla.node.security.administrators import Administrators
from ottla.node.settings.config import parse_config
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.node.fakes import peer_of
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import CONNECTION, ReplicaWorld, batch

T = TypeVar("T")
NO_PEER = -1


class MarkerNode(ReplicaWorld):
    """A node that writes markers, with its group coordinator."""

    def __init__(self, node_id: int = 1, *, others: Sequence[int] = (2,)) -> None:
        super().__init__(node_id, others=others)
        self.config = parse_config({"node.id": str(node_id), "request.timeout.ms": "60000"})
        self.groups = GroupRuntime(
            config=CoordinatorConfig(),
            replicas=self.replica_manager,
            image=lambda: self.metadata.image,
            create_offsets_topic=self._never,
            clock=self.clock,
            offsets_topic_num_partitions=1,
        )
        self.administrators = Administrators(list, lambda: False)
        self.marker_writer = MarkerWriter(
            replicas=self.replica_manager,
            groups=self.groups,
            is_cut_off=lambda: self.is_cut_off,
            clock=self.clock,
        )

    async def _never(self) -> None:
        raise AssertionError("the topic is there")

    def begin(
        self, producer_id: int, name: str = "t", index: int = 0, *, epoch: int = 0, sequence: int = 0
    ) -> None:
        """Open a transaction of this producer in a partition."""
        partition = self.partition(name, index)
        partition.append_as_leader(
            batch(
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=True,
            ),
            required_acks=1,
            now_ms=self.clock.now_ms(),
            produce_version=11,
            guard=NOT_VERIFIED,
        )

    def ask(
        self,
        request: WriteTxnMarkersRequest,
        *,
        peer_id: int = NO_PEER,
        is_large: bool = False,
        client_host: str = "127.0.0.1",
    ) -> Any:
        connection = replace(CONNECTION, peer_id=peer_id, client_host=client_host)
        context = RequestContext(ApiKey.WRITE_TXN_MARKERS, 2, 1, "test", connection, is_large)
        return write_txn_markers.handle(cast(Any, self), context, request)

    async def answer(self, request: WriteTxnMarkersRequest, **options: Any) -> WriteTxnMarkersResponse:
        answer = await settled(self.ask(request, **options))
        assert isinstance(answer, WriteTxnMarkersResponse)
        return answer

    def markers(self, name: str = "t", index: int = 0) -> list[tuple[int, int, str]]:
        """Return producer id, epoch and type of the markers in a log."""
        return markers_of(self.partition(name, index).log)


def markers_of(log: PartitionLog) -> list[tuple[int, int, str]]:
    found = log.read(0, 1 << 30, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
    content, markers = found.slice.read(), []
    for position, header in iterate_headers(content):
        if header.is_control:
            marker = marker_of_batch(content[position : position + header.size_bytes])
            assert marker is not None
            word = "commit" if marker.control_type is ControlType.COMMIT else "abort"
            markers.append((header.producer_id, header.producer_epoch, word))
    return markers


def marker(
    producer_id: int,
    partitions: Sequence[tuple[str, int]] = (("t", 0),),
    *,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 0,
    leader_epoch: int | None = None,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=is_commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
        topics=[
            WritableTxnMarkerTopic(
                name=name,
                partition_indexes=[index],
                leader_epochs=[] if leader_epoch is None else [leader_epoch],
            )
            for name, index in partitions
        ],
    )


def codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], ErrorCode]:
    """Return the error codes of a response by producer, topic and partition."""
    return {
        (each.producer_id, topic.name, one.partition_index): ErrorCode(one.error_code)
        for each in response.markers
        for topic in each.topics
        for one in topic.partitions
    }


def play(node: MarkerNode, scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            node.groups.start(tasks.create_task)
            try:
                return await scenario()
            finally:
                node.groups.close()

    return asyncio.run(run())


class Markers:
    """Nodes with the same metadata; node 1 sends markers over a network that tests can disturb."""

    def __init__(self, node_ids: Sequence[int] = (1, 2, 3)) -> None:
        self.nodes = {one: MarkerNode(one, others=[n for n in node_ids if n != one]) for one in node_ids}
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []  # with the node they were sent to
        self.unreachable: set[int] = set()
        self.failed_connects: list[int] = []  # unreachable nodes to which a connection was tried
        self.loses_answers: set[int] = set()  # nodes whose responses are lost
        self.written: list[tuple[int, MarkersWritten]] = []
        self.fenced: list[tuple[int, MarkerJob]] = []
        self.sender: MarkerSender
        self._tasks: set[asyncio.Task[None]] = set()

    def create_topic(self, name: str = "t", **how: Any) -> None:
        for node in self.nodes.values():
            node.create_topic(name, replicas=tuple(self.nodes), isr=(how.get("leader", 1),), **how)

    def delete_topic(self, name: str) -> None:
        for node in self.nodes.values():
            node.delete_topic(name)

    def send(
        self, index: int, transactional_id: str, partitions: Sequence[tuple[str, int]], **how: Any
    ) -> None:
        fields: dict[str, Any] = {
            "producer_id": 7,
            "marker_epoch": 0,
            "coordinator_epoch": 0,
            "committed": True,
            "transaction_version": 0,
        }
        named = tuple(TopicPartition(*each) for each in partitions)
        self.sender.send(
            index, MarkerJob(transactional_id=transactional_id, partitions=named, **{**fields, **how})
        )

    def done(self) -> set[tuple[str, TopicPartition]]:
        return {(one.transactional_id, each) for _, one in self.written for each in one.partitions}

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.001)

    async def _connect(self, node_id: int, purpose: str) -> PeerClient:
        assert purpose == "markers" and node_id != 1
        if node_id in self.unreachable:
            self.failed_connects.append(node_id)
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "no connection")
        return peer_of(lambda *_, **__: self._request(node_id, *_))

    async def _request(
        self, node_id: int, request: WriteTxnMarkersRequest, _: type
    ) -> WriteTxnMarkersResponse:
        self.requests.append((node_id, request))
        answer = await self.nodes[node_id].answer(request, peer_id=1)
        if node_id in self.loses_answers:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was lost")
        return answer

    def _start_task(self, work: Coroutine[Any, Any, T], /) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task

    def play(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        own = self.nodes[1]

        async def run() -> None:
            self.sender = MarkerSender(
                node_id=1,
                broker_epoch=lambda: 5,
                image=lambda: own.metadata.image,
                connect=self._connect,
                writer=own.marker_writer,
                start_task=self._start_task,
                written=lambda index, command: self.written.append((index, command)),
                fenced=lambda index, job: self.fenced.append((index, job)),
                chance=random.Random(1),
                timeout_ms=lambda: 1_000,
            )
            async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
                for node in self.nodes.values():
                    node.groups.start(tasks.create_task)
                await scenario()
                self.sender.close()
                for node in self.nodes.values():
                    node.groups.close()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for task in self._tasks:
                assert task.cancelled() or task.exception() is None

        asyncio.run(run())
