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
from tests.simulation.simulation import Simulation
from tests.simulation.stories import Story, fetch_again, stop_fetching, the_end
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import VirtualNode

OFFSETS: Final = TopicPartition(OFFSETS_TOPIC, 0)
FALLS: Final = 2
LIMIT_S: Final = 120.0
State = GroupState | ConsumerGroupState


def a_coordinator_dies_in(state: State) -> Story:
    """Return a scenario in which the coordinator dies `FALLS` times while a group is in this state."""

    async def story(simulation: Simulation) -> None:
        _add_members(simulation)
        for _ in range(FALLS):
            coordinator = await _until(simulation, lambda: _coordinator_in(simulation, state))
            coordinator.kill()
            await _come_back(simulation, coordinator)
        await _all_is_well(simulation)

    story.__name__ = f"a_coordinator_dies_in_{state.name.lower()}"
    return story


async def a_coordinator_dies_with_what_it_appended(simulation: Simulation) -> None:
    """No other replica has its latest records, and no client has been answered."""
    _add_members(simulation)
    for _ in range(FALLS):
        await _until(simulation, lambda: _coordinator_in(simulation, ConsumerGroupState.RECONCILING))
        coordinator, log = await _until(simulation, lambda: _leader(simulation))
        others = [node for node in simulation.world.nodes if node is not coordinator and node.is_alive]
        for node in others:
            stop_fetching(node)
        await _until(simulation, partial(_has_more_than_others, log))
        await asyncio.sleep(simulation.world.chance.random() * 0.3)
        coordinator.kill()
        for node in others:
            fetch_again(node)
        await _come_back(simulation, coordinator)
    await _all_is_well(simulation)


STORIES: Final[list[Story]] = [
    a_coordinator_dies_in(GroupState.PREPARING_REBALANCE),
    a_coordinator_dies_in(GroupState.COMPLETING_REBALANCE),
    a_coordinator_dies_in(ConsumerGroupState.ASSIGNING),
    a_coordinator_dies_in(ConsumerGroupState.RECONCILING),
    a_coordinator_dies_with_what_it_appended,
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


def _has_more_than_others(partition: Partition) -> bool | None:
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


async def _until(simulation: Simulation, look: Callable[[], Any]) -> Any:
    """Call `look` until it returns something, and return that."""
    deadline_s = simulation.world.loop.now_s + LIMIT_S
    while (found := look()) is None:
        if simulation.world.loop.now_s > deadline_s:
            raise SimulationError("the scenario waits in vain for a state")
        await asyncio.sleep(0.001)
    return found


async def _come_back(simulation: Simulation, node: VirtualNode) -> None:
    await asyncio.sleep(simulation.world.chance.random() * 3)
    node.start()
    await simulation.wait_until_whole()


async def _all_is_well(simulation: Simulation) -> None:
    await simulation.wait_until_joined()
    await the_end(simulation)
