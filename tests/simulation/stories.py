"""Faults in an order that chance seldom finds: each was a fault of ours, or is one of a mutant."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from logstore.topic_partition import TopicPartition
from tests.simulation.invariants import replicas_of
from tests.simulation.simulation import Simulation

FIRST: Final = TopicPartition("a", 0)
Story = Callable[[Simulation], Coroutine[Any, Any, None]]


async def the_end(simulation: Simulation) -> None:
    """The cluster recovers, and nothing that was acknowledged is missing."""
    await simulation.wait_until_whole()
    await simulation.workload.finish(limit_s=30)
    await simulation.world.spawn(simulation.admin, simulation.judge())


async def a_leader_is_cut_off_for_a_moment(simulation: Simulation) -> None:
    """It asks again how far its followers are, whose sessions have nothing new to tell."""
    leader, partition = next(pair for pair in replicas_of(simulation.world, FIRST) if pair[1].is_leader)
    assert leader.broker is not None
    leader.broker.replica_manager.fence()
    leader.broker.replica_manager.unfence()
    await asyncio.sleep(1)

    assert partition.isr is not None
    assert [one.log_end_offset for one in partition.isr.followers.values()] == [0, 0]


async def a_broker_loses_its_disk(simulation: Simulation) -> None:
    """It is filled again."""
    simulation.workload.add_producer("p", simulation.partitions, pause_s=0.1, max_records=5)
    await asyncio.sleep(3)
    lost = simulation.world.nodes[3]
    lost.kill()
    lost.storage.lose_everything()
    await asyncio.sleep(3)
    lost.start()

    await the_end(simulation)
    for partition in simulation.partitions:
        assert len({one.log.log_end_offset for _, one in replicas_of(simulation.world, partition)}) == 1


async def all_are_killed_and_two_of_three_return(simulation: Simulation) -> None:
    """Their hosts ran on, so what they wrote is still there, and nobody has to wait for the third."""
    nodes = simulation.world.nodes
    simulation.workload.add_producer("p", simulation.partitions, pause_s=0.1, max_records=5)
    await asyncio.sleep(3)
    for node in nodes:
        node.kill()
    await asyncio.sleep(1)
    for node in nodes[:2]:
        node.start()
    await asyncio.sleep(20)

    for partition in simulation.partitions:
        leads = [one.is_leader for _, one in replicas_of(simulation.world, partition)]
        assert sum(leads) == 1, f"{partition} waits for the third"
    nodes[2].start()
    await the_end(simulation)


async def the_leader_loses_its_power_when_the_others_die(simulation: Simulation) -> None:
    """It comes back first and forms a quorum with one that never led; the last has what it has lost."""
    simulation.workload.add_producer("p", [FIRST], pause_s=0.02, max_records=5)
    await asyncio.sleep(3)
    leader = next(node for node, one in replicas_of(simulation.world, FIRST) if one.is_leader)
    others = [node for node in simulation.world.nodes if node is not leader]
    leader.lose_power()
    for node in others:
        node.kill()
    await asyncio.sleep(0.1)
    leader.start()
    await asyncio.sleep(0.5)
    others[0].start()
    await asyncio.sleep(20)

    others[1].start()
    await the_end(simulation)


async def the_last_in_sync_loses_its_power(simulation: Simulation) -> None:
    """Others may not lead once they have left the ISR, so it has synced what was acknowledged before."""
    simulation.workload.add_producer("p", [FIRST], pause_s=0.05, max_records=5)
    await asyncio.sleep(3)
    last, partition = next(pair for pair in replicas_of(simulation.world, FIRST) if pair[1].is_leader)
    gone, other = (node for node in simulation.world.nodes if node is not last)
    gone.kill()
    while len(partition.assignment.in_sync_replicas) > 2:
        await asyncio.sleep(0.01)
    await asyncio.sleep(3)
    other.kill()
    await asyncio.sleep(0.1)
    other.start()
    while len(partition.assignment.in_sync_replicas) > 1:
        await asyncio.sleep(0.001)
    other.kill()
    await asyncio.sleep(0.1)
    last.lose_power()

    for node in simulation.world.nodes:
        node.start()
    await the_end(simulation)
