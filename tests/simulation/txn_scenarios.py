"""Scenarios of transactions: a coordinator or leader dies with records of its own, and epochs run out."""

import asyncio
from dataclasses import replace
from typing import Any, Final

from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC, TransactionRecord
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.txn_shard import TransactionCoordinatorShard, _row
from tests.simulation.invariants import replicas_of
from tests.simulation.scenarios import FIRST, Scenario, as_client, leader_of, resume_fetching, until
from tests.simulation.simulation import Simulation
from tests.simulation.txn_clients import V2, Protocol, TxnClient, read
from tests.simulation.upgrade_scenarios import SETTINGS as SETTINGS
from tests.simulation.upgrade_scenarios import producer_of
from tests.simulation.world import VirtualNode

NEAR_LAST_EPOCH: Final = 32_764


async def a_coordinator_dies_with_a_decision_that_no_replica_has(simulation: Simulation) -> None:
    """No marker was sent, so the next coordinator may abort the transaction, which it finds open."""
    producer, coordinator, _ = await producer_and_leader(simulation, V2)
    await as_client(simulation, producer.produce(FIRST, [b"one"]))
    await _stop_replication_from(simulation, coordinator)
    ending = as_client(simulation, producer.end(committed=True))
    decided = _shard_of(coordinator, producer).transactions
    await until(lambda: decided[producer.transactional_id].state is not TransactionState.ONGOING)
    await asyncio.sleep(0.2)
    assert not ending.done(), "a producer received a decision that only one node has"

    ending.cancel()
    coordinator.kill()
    _resume_replication(simulation, coordinator)

    successor = producer_of(simulation, producer.transactional_id, V2)
    await as_client(simulation, successor.init())
    await as_client(simulation, successor.produce(FIRST, [b"two"]))
    await as_client(simulation, successor.end(committed=True))
    await _check_committed(simulation, [b"two"])


async def a_leader_dies_with_a_marker_that_no_replica_has(simulation: Simulation) -> None:
    """The coordinator sends the marker again until the next leader has it."""
    producer, _, leader = await producer_and_leader(simulation, V2)
    await as_client(simulation, producer.produce(FIRST, [b"one"]))
    _, partition = await leader_of(simulation)
    end_offset = partition.log.log_end_offset
    await _stop_replication_from(simulation, leader)
    await as_client(simulation, producer.end(committed=True))
    await until(lambda: partition.log.log_end_offset > end_offset)
    await asyncio.sleep(0.2)

    leader.kill()
    _resume_replication(simulation, leader)

    await _check_committed(simulation, [b"one"])


async def epochs_run_out(simulation: Simulation) -> None:
    """The producer continues with another producer id, at any coordinator; each end is requested twice."""
    producer, coordinator, _ = await producer_and_leader(simulation, V2)
    _use_up_epochs(coordinator, producer)
    committed = []
    ids = {producer.producer[0]}
    for number in range(6):
        if number == 2:
            coordinator.kill()
        if number == 4:
            coordinator.start()
        value = b"%d" % number
        await as_client(simulation, producer.produce(FIRST, [value]))
        before = producer.producer
        await as_client(simulation, producer.end(committed=number % 2 == 0))
        bumped, producer.producer = producer.producer, before
        await as_client(simulation, producer.end(committed=number % 2 == 0))
        assert producer.producer == bumped
        ids.add(bumped[0])
        committed += [value] if number % 2 == 0 else []
    assert len(ids) == 2
    await _check_committed(simulation, committed)


SCENARIOS: Final[list[Scenario]] = [
    a_coordinator_dies_with_a_decision_that_no_replica_has,
    a_leader_dies_with_a_marker_that_no_replica_has,
    epochs_run_out,
]


async def producer_and_leader(
    simulation: Simulation, protocol: Protocol
) -> tuple[TxnClient, VirtualNode, VirtualNode]:
    """Return a producer, its coordinator, and the leader of the first partition, which is another node."""
    leader, _ = await leader_of(simulation)
    for number in range(100):
        producer = producer_of(simulation, f"x{number}", protocol)
        await as_client(simulation, producer.init())
        coordinator = coordinator_of(simulation, producer)
        if coordinator is not leader:
            return producer, coordinator, leader
    raise AssertionError("one node coordinates all ids")


def coordinator_of(simulation: Simulation, producer: TxnClient) -> VirtualNode:
    """Return the coordinator of a producer's transactional id."""
    node = next(one for one in simulation.world.nodes if one.broker is not None)
    states = TopicPartition(TRANSACTIONS_TOPIC, _index_of(node, producer))
    return next(one for one, replica in replicas_of(simulation.world, states) if replica.is_leader)


def _index_of(node: VirtualNode, producer: TxnClient) -> int:
    assert node.broker is not None
    return node.broker.services.txns.partition_for(producer.transactional_id)


def _shard_of(node: VirtualNode, producer: TxnClient) -> Any:
    """Return the core's shard that has the transactional id."""
    shard = _runtime_shard(node, producer).coordinator
    assert shard is not None
    return shard.shard


def _runtime_shard(node: VirtualNode, producer: TxnClient) -> TransactionCoordinatorShard:
    assert node.broker is not None
    return node.broker.services.txns.shards[_index_of(node, producer)]


def _use_up_epochs(coordinator: VirtualNode, producer: TxnClient) -> None:
    """Set the epoch as if the producer had ended thirty thousand transactions."""
    shard, core = _runtime_shard(coordinator, producer), _shard_of(coordinator, producer)
    t = replace(core.transactions[producer.transactional_id], producer_epoch=NEAR_LAST_EPOCH)
    record = TransactionRecord(producer.transactional_id, t)
    core.replay(record)
    shard.log.append([_row(record, core.level)])
    producer.producer = (t.producer_id, NEAR_LAST_EPOCH)


async def _stop_replication_from(simulation: Simulation, leader: VirtualNode) -> None:
    """Stop all fetches from a node, for a moment only: soon the replicas would be out of sync."""
    for node in simulation.world.nodes:
        assert node.broker is not None
        for fetcher in node.broker.services.replication.fetchers:
            if fetcher.leader_id == leader.node_id:
                fetcher.fetch = lambda: asyncio.sleep(1)  # type: ignore[method-assign]
    await asyncio.sleep(0.4)  # fetches that wait at the leader are answered


def _resume_replication(simulation: Simulation, dead: VirtualNode) -> None:
    for node in simulation.world.nodes:
        if node is not dead:
            resume_fetching(node)


async def _check_committed(simulation: Simulation, values: list[bytes]) -> None:
    """Check that readers of committed records find exactly these values, and that no transaction is open."""
    found: list[bytes | None] = []
    for _ in range(600):
        is_stable, found = await as_client(simulation, _read_committed(simulation))
        if is_stable and len(found) >= len(values):
            break
        await asyncio.sleep(0.05)
    assert is_stable, "a transaction stays open"
    assert found == values, f"readers find {found}, and {values} were committed"


async def _read_committed(simulation: Simulation) -> tuple[bool, list[bytes | None]]:
    """Return True if no transaction is open, and the values that can be read now."""
    client = simulation.admin_client
    values: list[bytes | None] = []
    offset = 0
    while True:
        try:
            portion = await read(client, FIRST, offset, committed=True)
        except KafkaError:
            client.forget_leader(FIRST)
            return False, values
        values += [record.value for record in portion.records]
        offset = portion.next_offset
        if offset >= portion.last_stable_offset:
            return portion.last_stable_offset == portion.high_watermark, values
