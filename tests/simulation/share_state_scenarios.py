"""Scenarios of share-partition states, which each node writes and reads through its persister.

States survive their coordinators: an answered write is found after any failure, and a fenced leader cannot
write.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.groupcoord.share_state.share_state_words import (
    ACKNOWLEDGED,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateBatch,
    StateRead,
    StateRequest,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode
from ottla.node.coordinators.share_persister import SharePersister
from tests.simulation.simulation import Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import VirtualNode

SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.prune.interval.ms": "700",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1500",
}
GROUPS: Final = ("g0", "g1", "g2", "g3", "g4", "g5")
WRITES: Final = 25


async def states_survive_their_coordinators(simulation: Simulation) -> None:
    """Each node writes states of some groups while nodes are killed or lose power, one after the other."""
    chance = random.Random(f"share states {simulation.world.seed}")
    [topic_id, *_] = _topic_ids(simulation)
    writers = [
        _Writer(
            simulation, SharePartitionKey(group, topic_id, 0), random.Random(f"{group} {chance.random()}")
        )
        for group in GROUPS
    ]
    tasks = [simulation.world.spawn(simulation.admin, writer.write()) for writer in writers]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(2 + 3 * chance.random())
        node = chance.choice(simulation.world.nodes)
        if chance.random() < 0.5:
            node.kill()
        else:
            node.lose_power()
        await asyncio.sleep(1 + 3 * chance.random())
        node.start()
        await simulation.wait_until_recovered()
    for task in tasks:
        task.result()
    await simulation.wait_until_recovered()

    for node in simulation.world.nodes:
        for writer in writers:
            [read] = await _answers_of(simulation, node, [ReadState(writer.key, -1)])
            assert isinstance(read, StateRead)
            writer.check(read)
    pruned = _log_starts(simulation)
    if not any(pruned):
        raise SimulationError("no log of states was ever pruned")


async def a_fenced_leader_does_not_write(simulation: Simulation) -> None:
    """An older leader writes through another node, also after a restart of the coordinator, and is fenced."""
    [topic_id, *_] = _topic_ids(simulation)
    key = SharePartitionKey("g", topic_id, 0)
    first, second, third = simulation.world.nodes
    [initialized] = await _answers_of(simulation, first, [InitializeState(key, 0, 0)])
    assert initialized.error is ErrorCode.NONE, initialized
    [of_first] = await _answers_of(simulation, first, [ReadState(key, 1)])
    [of_second] = await _answers_of(simulation, second, [ReadState(key, 2)])
    assert of_first.error is of_second.error is ErrorCode.NONE

    late = WriteState(key, 0, 1, -1, 1, (StateBatch(0, 0, ACKNOWLEDGED, 1),))
    [fenced] = await _answers_of(simulation, first, [late])
    assert fenced.error is ErrorCode.FENCED_LEADER_EPOCH, fenced
    coordinator = _coordinator_of(simulation, key)
    coordinator.kill()
    await asyncio.sleep(1)
    coordinator.start()
    await simulation.wait_until_recovered()
    [fenced] = await _answers_of(simulation, third, [late])
    assert fenced.error is ErrorCode.FENCED_LEADER_EPOCH, fenced
    [gone] = await _answers_of(simulation, second, [DeleteState(key)])
    [missing] = await _answers_of(simulation, third, [ReadState(key, 9)])
    assert gone.error is ErrorCode.NONE and missing.error is ErrorCode.INVALID_REQUEST


SCENARIOS: Final = (states_survive_their_coordinators, a_fenced_leader_does_not_write)


class _Writer:
    """The leader of a share-partition, which moves between nodes and acknowledges records one by one."""

    def __init__(self, simulation: Simulation, key: SharePartitionKey, chance: random.Random) -> None:
        self.key = key
        self._simulation = simulation
        self._chance = chance
        self._start_offset = 0
        self._answered: set[int] = set()

    async def write(self) -> None:
        await self._send_until_accepted(InitializeState(self.key, 0, 0))
        for offset in range(WRITES):
            moves = self._chance.random() < 0.3
            start_offset = offset if moves else -1
            batches = (StateBatch(offset, offset, ACKNOWLEDGED, 1),)
            await self._send_until_accepted(WriteState(self.key, 0, 0, start_offset, offset, batches))
            self._answered.add(offset)
            if moves:
                self._start_offset = offset
            await asyncio.sleep(self._chance.random())

    async def _send_until_accepted(self, request: StateRequest) -> None:
        """Send a request through random nodes until it succeeds."""
        while True:
            node = self._chance.choice(self._simulation.world.nodes)
            if node.is_serving:
                answers = await _answers_of(self._simulation, node, [request])
                if answers and answers[0].error is ErrorCode.NONE:
                    return
                if answers and answers[0].error is ErrorCode.INVALID_REQUEST:
                    raise SimulationError(f"a state is lost: {answers[0]}")
            await asyncio.sleep(0.2)

    def check(self, read: StateRead) -> None:
        assert read.error is ErrorCode.NONE, read
        assert read.start_offset == self._start_offset, (read, self._start_offset)
        found = {
            offset
            for batch in read.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
            if batch.delivery_state == ACKNOWLEDGED
        }
        assert found == {one for one in self._answered if one >= self._start_offset}, read


async def _answers_of(
    simulation: Simulation, node: VirtualNode, requests: Sequence[StateRequest]
) -> list[object]:
    """Return the answers of a node's persister, none if the node dies meanwhile."""
    assert node.broker is not None and node.process is not None
    persister = node.broker.services.share_persister
    task = simulation.world.spawn(node.process, _send(persister, requests))
    while not task.done():
        if not node.is_alive:
            return []
        await asyncio.sleep(0.05)
    return [] if task.cancelled() else task.result()


async def _send(persister: SharePersister, requests: Sequence[StateRequest]) -> list[object]:
    answers: list[object] = []
    for request in requests:
        match request:
            case InitializeState():
                answers += await persister.initialize([request])
            case WriteState():
                answers += await persister.write([request])
            case ReadState():
                answers += await persister.read([request])
            case ReadStateSummary():
                answers += await persister.read_summary([request])
            case DeleteState():
                answers += await persister.delete([request])
    return answers


def _topic_ids(simulation: Simulation) -> list[bytes]:
    for node in simulation.world.nodes:
        if node.broker is not None and node.broker.quorum_services is not None:
            topics = node.broker.quorum_services.image.topics.by_name
            return [topic.topic_id for name, topic in sorted(topics.items()) if not name.startswith("__")]
    raise SimulationError("no node has the metadata")


def _coordinator_of(simulation: Simulation, key: SharePartitionKey) -> VirtualNode:
    broker = simulation.world.nodes[0].broker
    assert broker is not None
    leader = broker.services.share_states.known_coordinator_of(key.coordinator_key)
    return next(node for node in simulation.world.nodes if node.node_id == leader)


def _log_starts(simulation: Simulation) -> list[int]:
    starts = []
    for node in simulation.world.nodes:
        assert node.broker is not None
        for index in range(3):
            partition = node.broker.services.replica_manager.find((SHARE_STATE_TOPIC, index))
            if partition is not None and partition.is_leader:
                starts.append(partition.log.log_start_offset)
    return starts
