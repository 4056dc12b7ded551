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
