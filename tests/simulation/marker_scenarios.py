"""Scenarios in which a copy of a transaction marker, or of an offset commit, arrives a second time.

The producer's next transaction is then open in the same epoch, as older clients keep it. Whatever the copy
says, that transaction must end as its producer decides.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators.marker_sender import PURPOSE
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.node.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.simulation.scenarios import FIRST, Scenario, as_client, make_leader, until
from tests.simulation.simulation import Simulation
from tests.simulation.txn_clients import V1, TxnClient
from tests.simulation.txn_scenarios import coordinator_of, producer_and_leader
from tests.simulation.upgrade_scenarios import SETTINGS as SETTINGS
from tests.simulation.upgrade_scenarios import committed, producer_of
from tests.simulation.world import VirtualNode


class RequestTap:
    """A tap on the requests to nodes, which keeps a copy of each request of one kind, and can lose them."""

    def __init__(self, kind: type = WriteTxnMarkersRequest) -> None:
        self.kind = kind
        self.copies: list[Any] = []
        self.loses_all = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        request = PeerClient.request

        async def record(client: PeerClient, message: Any, *args: Any, **options: Any) -> Any:
            if isinstance(message, self.kind):
                self.copies.append(message)
                if self.loses_all:
                    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "given up")
            return await request(client, message, *args, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PeerClient, "request", record)
            yield


async def a_copy_reaches_the_leader_that_had_the_marker(simulation: Simulation) -> None:
    producer, coordinator, leader = await producer_and_leader(simulation, V1)
    tap = RequestTap()
    with tap.installed():
        await as_client(simulation, _commit(producer, b"one"))
        await _complete(simulation, producer)
    copies = list(tap.copies)
    await as_client(simulation, _begin(producer, b"two"))

    await _send_copies(simulation, coordinator, leader, copies)

    await as_client(simulation, producer.end(committed=False))
    await _complete(simulation, producer)
    assert copies, "no request was copied"
    found = await as_client(simulation, committed(simulation, FIRST))
    assert found == [b"one"], f"a copy of a marker has committed {found}"


async def a_copy_reaches_a_leader_that_leads_again(simulation: Simulation) -> None:
    """The leader received no later request of that coordinator, so it cannot tell that the copy is late."""
    producer, coordinator, old = await producer_and_leader(simulation, V1)
    tap = RequestTap()
    with tap.installed():
        tap.loses_all = True
        await as_client(simulation, _commit(producer, b"one"))
        await until(lambda: bool(tap.copies))
        copies = list(tap.copies)
        # Markers for a partition that the coordinator leads need no request, which could get lost.
        await make_leader(simulation, coordinator.node_id)
        await _complete(simulation, producer)
    await make_leader(simulation, old.node_id)
    await as_client(simulation, _begin(producer, b"two"))

    await _send_copies(simulation, coordinator, old, copies)

    await as_client(simulation, producer.end(committed=False))
    await _complete(simulation, producer)
    found = await as_client(simulation, committed(simulation, FIRST))
    assert found == [b"one"], f"a copy of a marker has committed {found}"


async def a_copy_of_offsets_arrives_late(simulation: Simulation) -> None:
    """The client received no answer and continued over a new connection."""
    producer = producer_of(simulation, "copier", V1)
    client, requests = producer.client, RequestTap(TxnOffsetCommitRequest)

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

    with requests.installed():
        old = await as_client(simulation, first())
    copies = list(requests.copies)
    offset = await as_client(simulation, second(old))
    assert offset == 20, f"the copy of an earlier commit has set the offset to {offset}"


SCENARIOS: Final[list[Scenario]] = [
    a_copy_of_offsets_arrives_late,
    a_copy_reaches_the_leader_that_had_the_marker,
    a_copy_reaches_a_leader_that_leads_again,
]


async def _begin(producer: TxnClient, value: bytes) -> None:
    await producer.add_partitions([FIRST])
    await producer.produce(FIRST, [value])


async def _commit(producer: TxnClient, value: bytes) -> None:
    await _begin(producer, value)
    await producer.end(committed=True)


async def _complete(simulation: Simulation, producer: TxnClient) -> None:
    """Wait until all partitions have their marker, and the coordinator knows it."""

    def is_complete() -> bool:
        broker = coordinator_of(simulation, producer).broker
        assert broker is not None
        shard = broker.services.txns.shards.get(broker.services.txns.partition_for(producer.transactional_id))
        if shard is None or shard.coordinator is None:
            return False
        t = shard.coordinator.shard.transactions[producer.transactional_id]
        return t.state.name.startswith("COMPLETE")

    await until(is_complete)


async def _send_copies(
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
