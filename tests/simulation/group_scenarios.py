"""Scenarios in which a group coordinator dies at a bad moment.

It dies in each state of a rebalance, and with records that it has only appended. The members continue with
the next coordinator, all within the time that sessions and joins take.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_group_state import ConsumerGroupState
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.replica.partition import Partition
from tests.simulation.group_members import GroupMember
from tests.simulation.invariants import replicas_of
from tests.simulation.scenarios import Scenario, recover_and_check, resume_fetching, stop_fetching
from tests.simulation.simulation import Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import VirtualNode

OFFSETS: Final = TopicPartition(OFFSETS_TOPIC, 0)
FAILOVERS: Final = 2
LIMIT_S: Final = 120.0
State = GroupState | ConsumerGroupState


def a_coordinator_dies_in(state: State) -> Scenario:
    """Return a scenario in which the coordinator dies `FAILOVERS` times while a group is in this state."""

    async def scenario(simulation: Simulation) -> None:
        _add_members(simulation)
        for _ in range(FAILOVERS):
            coordinator = await _until(simulation, lambda: _coordinator_in(simulation, state))
            coordinator.kill()
            await _restart(simulation, coordinator)
        await _check(simulation)

    scenario.__name__ = f"a_coordinator_dies_in_{state.name.lower()}"
    return scenario


async def a_coordinator_dies_with_unreplicated_records(simulation: Simulation) -> None:
    """No other replica has its latest records, and no client has been answered."""
    _add_members(simulation)
    for _ in range(FAILOVERS):
        await _until(simulation, lambda: _coordinator_in(simulation, ConsumerGroupState.RECONCILING))
        coordinator, log = await _until(simulation, lambda: _leader(simulation))
        others = [node for node in simulation.world.nodes if node is not coordinator and node.is_alive]
        for node in others:
            stop_fetching(node)
        await _until(simulation, partial(_has_unreplicated_records, log))
        await asyncio.sleep(simulation.world.chance.random() * 0.3)
        coordinator.kill()
        for node in others:
            resume_fetching(node)
        await _restart(simulation, coordinator)
    await _check(simulation)


SCENARIOS: Final[list[Scenario]] = [
    a_coordinator_dies_in(GroupState.PREPARING_REBALANCE),
    a_coordinator_dies_in(GroupState.COMPLETING_REBALANCE),
    a_coordinator_dies_in(ConsumerGroupState.ASSIGNING),
    a_coordinator_dies_in(ConsumerGroupState.RECONCILING),
    a_coordinator_dies_with_unreplicated_records,
]


def _add_members(simulation: Simulation) -> None:
    history = simulation.history.members
    simulation.members = [
        GroupMember(simulation.workload, history, f"member-{number}", simulation.partitions, pause_s=0.3)
        for number in range(3)
    ]
    simulation.add_consumers(4)


def _leader(simulation: Simulation) -> tuple[VirtualNode, Partition] | None:
    """Return the leader of `__consumer_offsets-0`, which coordinates all groups, or None if there is none."""
    return next((pair for pair in replicas_of(simulation.world, OFFSETS) if pair[1].is_leader), None)


def _has_unreplicated_records(partition: Partition) -> bool | None:
    return partition.log.log_end_offset > partition.log.high_watermark or None


def _coordinator_in(simulation: Simulation, state: State) -> VirtualNode | None:
    """Return the coordinator while one of its groups is in this state."""
    kind = ClassicGroup if isinstance(state, GroupState) else ConsumerGroup
    for node, partition in replicas_of(simulation.world, OFFSETS):
        if not partition.is_leader or node.broker is None:
            continue
        for shard in node.broker.services.groups.shards.values():
            if shard.coordinator is not None and any(
                isinstance(group, kind) and group.members and group.state is state
                for group in shard.coordinator.shard.groups.values()
            ):
                return node
    return None


async def _until(simulation: Simulation, find: Callable[[], Any]) -> Any:
    """Call `find` until it returns something, and return that."""
    deadline_s = simulation.world.loop.now_s + LIMIT_S
    while (found := find()) is None:
        if simulation.world.loop.now_s > deadline_s:
            raise SimulationError("no group reaches the state of the scenario")
        await asyncio.sleep(0.001)
    return found


async def _restart(simulation: Simulation, node: VirtualNode) -> None:
    await asyncio.sleep(simulation.world.chance.random() * 3)
    node.start()
    await simulation.wait_until_recovered()


async def _check(simulation: Simulation) -> None:
    await simulation.wait_until_joined()
    await recover_and_check(simulation)
