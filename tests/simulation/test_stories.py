"""Faults in an order that chance seldom finds: each was a fault of ours, or is one of a mutant."""

import asyncio

import pytest

from logstore.topic_partition import TopicPartition
from tests.simulation.invariants import replicas_of
from tests.simulation.simulation import Options, Simulation

pytestmark = pytest.mark.slow
FIRST = TopicPartition("a", 0)


def test_a_leader_that_was_cut_off_for_a_moment_learns_again_how_far_its_followers_are() -> None:
    """Its followers' sessions have nothing new to tell, and were not asked."""

    async def story(simulation: Simulation) -> None:
        leader, partition = next(pair for pair in replicas_of(simulation.world, FIRST) if pair[1].is_leader)
        assert leader.broker is not None
        leader.broker.replica_manager.fence()
        leader.broker.replica_manager.unfence()
        await asyncio.sleep(1)

        assert partition.isr is not None
        assert [one.log_end_offset for one in partition.isr.followers.values()] == [0, 0]

    Simulation(1, Options()).play(story)


def test_a_broker_that_lost_its_disk_is_filled_again() -> None:
    async def story(simulation: Simulation) -> None:
        simulation.workload.add_producer("p", simulation.partitions, pause_s=0.1, max_records=5)
        await asyncio.sleep(3)
        lost = simulation.world.nodes[3]
        lost.kill()
        lost.storage.lose_everything()
        await asyncio.sleep(3)
        lost.start()

        await simulation.wait_until_whole()
        await simulation.workload.finish(limit_s=30)
        await simulation.world.spawn(simulation.admin, simulation.judge())
        for partition in simulation.partitions:
            assert len({one.log.log_end_offset for _, one in replicas_of(simulation.world, partition)}) == 1

    Simulation(3, Options(nodes=4)).play(story)
