"""Scenarios in which a copy of a transaction marker, or of an offset commit, arrives a second time.

The producer's next transaction is then open in the same epoch, as older clients keep it. Whatever the copy
says, that transaction must end as its producer decides.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import pytest

from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.marker_sender import PURPOSE
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.node.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.simulation.invariants import replicas_of
from tests.simulation.simulation import Simulation
from tests.simulation.stories import FIRST, Story, have_lead, leader_of, until
from tests.simulation.txn_clients import V1, TxnClient
from tests.simulation.upgrade_stories import SETTINGS as SETTINGS
from tests.simulation.upgrade_stories import committed, producer_of
from tests.simulation.world import VirtualNode

T = TypeVar("T")


class Line:
    """A tap on all requests to nodes, which keeps a copy of each request of one kind, and can lose them."""

    def __init__(self, kind: type = WriteTxnMarkersRequest) -> None:
        self.kind = kind
        self.copies: list[Any] = []
        self.loses_all = False

    @contextmanager
    def tapped(self) -> Iterator[None]:
        request = PeerClient.request

        async def tap(client: PeerClient, message: Any, *given: Any, **options: Any) -> Any:
            if isinstance(message, self.kind):
                self.copies.append(message)
                if self.loses_all:
                    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "given up")
            return await request(client, message, *given, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PeerClient, "request", tap)
            yield


async def a_copy_reaches_the_leader_that_had_the_marker(simulation: Simulation) -> None:
    producer, coordinator = await _producer_with_a_coordinator_elsewhere(simulation)
    leader, _ = await leader_of(simulation)
    line = Line()
    with line.tapped():
        await _as_client(simulation, _commit(producer, b"one"))
        await _complete(simulation, producer)
    copies = list(line.copies)
    await _as_client(simulation, _begin(producer, b"two"))

    await _come_late(simulation, coordinator, leader, copies)

    await _as_client(simulation, producer.end(committed=False))
    await _complete(simulation, producer)
    assert copies, "no request was copied"
    found = await _as_client(simulation, committed(simulation, FIRST))
    assert found == [b"one"], f"a copy of a marker has committed {found}"


async def a_copy_reaches_a_leader_that_leads_again(simulation: Simulation) -> None:
    """The leader received no later request of that coordinator, so the request's number proves nothing."""
    producer, coordinator = await _producer_with_a_coordinator_elsewhere(simulation)
    old, _ = await leader_of(simulation)
    line = Line()
    with line.tapped():
        line.loses_all = True
        await _as_client(simulation, _commit(producer, b"one"))
        await until(lambda: bool(line.copies))
        copies = list(line.copies)
        # Markers for a partition that the coordinator leads need no request, which could get lost.
        await have_lead(simulation, coordinator.node_id)
        await _complete(simulation, producer)
    await have_lead(simulation, old.node_id)
    await _as_client(simulation, _begin(producer, b"two"))

    await _come_late(simulation, coordinator, old, copies)

    await _as_client(simulation, producer.end(committed=False))
    await _complete(simulation, producer)
    found = await _as_client(simulation, committed(simulation, FIRST))
    assert found == [b"one"], f"a copy of a marker has committed {found}"


async def a_copy_of_offsets_comes_late(simulation: Simulation) -> None:
    """The client received no answer and continued over a new connection."""
    producer = producer_of(simulation, "copier", V1)
    client, requests = producer.client, Line(TxnOffsetCommitRequest)

    async def first() -> PeerClient:
        await producer.init()
        await producer.add_offsets("g")
        await producer.commit_offsets("g", {FIRST: 10}, generation_id=-1, member_id="")
        connection = await client.connect(await client.coordinator_of("g"))
        client.drop_connection(await client.coordinator_of("g"))
        await producer.commit_offsets("g", {FIRST: 10}, generation_id=-1, member_id="")
        await producer.end(committed=True)
        return connection

    async def second(old: PeerClient) -> int:
        await producer.add_offsets("g")
        await producer.commit_offsets("g", {FIRST: 20}, generation_id=-1, member_id="")
        with suppress(KafkaError):  # the connection is closed
            await old.request(copies[0], TxnOffsetCommitResponse, max_version=V1.offset_commit)
        await producer.end(committed=True)
        while True:
            try:
                return await client.committed("g", FIRST)
            except KafkaError:  # the marker is under way
                await asyncio.sleep(0.1)

    with requests.tapped():
        old = await _as_client(simulation, first())
    copies = list(requests.copies)
    offset = await _as_client(simulation, second(old))
    assert offset == 20, f"the copy of an earlier commit has set the offset to {offset}"


STORIES: Final[list[Story]] = [
    a_copy_of_offsets_comes_late,
    a_copy_reaches_the_leader_that_had_the_marker,
    a_copy_reaches_a_leader_that_leads_again,
]


def _as_client(simulation: Simulation, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    return simulation.world.spawn(simulation.admin, work)


async def _producer_with_a_coordinator_elsewhere(simulation: Simulation) -> tuple[TxnClient, VirtualNode]:
    """Return a producer of version 1 and its coordinator, which does not lead the first partition."""
    leader, _ = await leader_of(simulation)
    for number in range(100):
        producer = producer_of(simulation, f"x{number}", V1)
        await _as_client(simulation, producer.init())
        coordinator = _coordinator_of(simulation, producer)
        if coordinator is not leader:
            return producer, coordinator
    raise AssertionError("one node coordinates all ids")


def _coordinator_of(simulation: Simulation, producer: TxnClient) -> VirtualNode:
    broker = next(node.broker for node in simulation.world.nodes if node.broker is not None)
    index = broker.services.txns.partition_for(producer.transactional_id)
    states = TopicPartition(TRANSACTIONS_TOPIC, index)
    return next(node for node, replica in replicas_of(simulation.world, states) if replica.is_leader)


async def _begin(producer: TxnClient, value: bytes) -> None:
    await producer.add_partitions([FIRST])
    await producer.produce(FIRST, [value])


async def _commit(producer: TxnClient, value: bytes) -> None:
    await _begin(producer, value)
    await producer.end(committed=True)


async def _complete(simulation: Simulation, producer: TxnClient) -> None:
    """Wait until all partitions have their marker, and the coordinator knows it."""

    def is_complete() -> bool:
        broker = _coordinator_of(simulation, producer).broker
        assert broker is not None
        shard = broker.services.txns.shards.get(broker.services.txns.partition_for(producer.transactional_id))
        if shard is None or shard.coordinator is None:
            return False
        t = shard.coordinator.shard.transactions[producer.transactional_id]
        return t.state.name.startswith("COMPLETE")

    await until(is_complete)


async def _come_late(
    simulation: Simulation,
    coordinator: VirtualNode,
    leader: VirtualNode,
    copies: list[WriteTxnMarkersRequest],
) -> None:
    """Send copies of the coordinator's requests to the leader, from the coordinator's process."""
    broker = coordinator.broker
    assert broker is not None and coordinator.process is not None

    async def deliver() -> None:
        peer = await broker.base.peers.client(leader.node_id, PURPOSE)
        for copy in copies:
            await peer.request(copy, WriteTxnMarkersResponse)

    await simulation.world.spawn(coordinator.process, deliver())
