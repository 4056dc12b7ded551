"""Mutants that remove one protection of a balance each; the balance scenarios detect every one."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ottla.metadata_raft import partition_change, reassignment_control
from ottla.metadata_raft.balance_plan import BalancePlan, _State
from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.leader_spread import LeaderSpread
from ottla.node.metadata import balancer
from ottla.node.metadata.balancer import Balancer
from ottla.node.replica.replication_quota import ReplicationQuotas
from tests.simulation import balance_stories
from tests.simulation.balance_stories import BUSY, HALTED, OPTIONS
from tests.simulation.mutants import Mutant, Patch, completed_at_once
from tests.simulation.simulation import Options, Simulation
from tests.simulation.stories import Story

MAX_SEEDS: Final = 10
BALANCE_MUTANTS: list[Mutant] = []


def balance_mutant(
    story: Story, options: Options, *first: int
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add a mutant to the list; the seeds `first` have detected it and are tried first."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        run = partial(_play, story, options)
        BALANCE_MUTANTS.append(Mutant(plant=plant, run=run, seeds=(*first, *range(MAX_SEEDS))))
        return plant

    return enter


def _play(story: Story, options: Options, seed: int) -> object:
    return Simulation(seed, options).play(story)


FALLS: Final = balance_stories.brokers_join_and_leave_while_nodes_fall
CONTROLLER: Final = balance_stories.the_controller_falls_when_replicas_move
CANCELLED: Final = balance_stories.a_balance_is_cancelled
BESIDE_BUSY: Final = balance_stories.a_broker_falls_beside_a_busy_one


@balance_mutant(FALLS, OPTIONS)
def a_move_does_not_look_at_racks(patch: Patch) -> None:
    patch.setattr(_State, "_keeps_racks", lambda *_: True)


@balance_mutant(balance_stories.a_node_is_down_when_replicas_move, OPTIONS)
def partitions_move_beside_a_replica_that_is_down(patch: Patch) -> None:
    """Their moves do not end, so no further step follows."""
    begin = _State.__init__

    def trusting(self: _State, *args: Any) -> None:
        begin(self, *args)
        self._pinned -= self._stuck
        self._stuck = set()

    patch.setattr(_State, "__init__", trusting)


@balance_mutant(FALLS, OPTIONS)
def a_broker_that_is_to_be_emptied_is_as_the_others(patch: Patch) -> None:
    patch.setattr(balancer, "excluded_brokers", lambda _: frozenset())


@balance_mutant(CANCELLED, HALTED)
def a_step_does_not_wait_for_the_last_one(patch: Patch) -> None:
    patch.setattr(balancer, "ongoing_reassignments", lambda _: iter(()))


@balance_mutant(CONTROLLER, OPTIONS)
def leaders_stay_where_falls_have_put_them(patch: Patch) -> None:
    patch.setattr(balancer, "led_by_others", lambda _: [])


@balance_mutant(CONTROLLER, OPTIONS)
def the_wish_ends_with_the_first_step(patch: Patch) -> None:
    begin = Balancer._begin

    async def begin_and_end(self: Balancer, plan: BalancePlan, most: int) -> None:
        await begin(self, plan, most)
        await self._end()

    patch.setattr(Balancer, "_begin", begin_and_end)


@balance_mutant(CONTROLLER, OPTIONS)
def the_wish_falls_with_its_controller(patch: Patch) -> None:
    is_due = Balancer._is_due
    epochs: dict[asyncio.AbstractEventLoop, int] = {}  # of the controller at which the balance was requested

    def is_due_to_who_heard_it(self: Balancer) -> bool:
        epoch = self._metadata.controller_epoch
        return is_due(self) and epochs.setdefault(asyncio.get_running_loop(), epoch) == epoch

    patch.setattr(Balancer, "_is_due", is_due_to_who_heard_it)


@balance_mutant(CONTROLLER, OPTIONS)
def a_replica_is_moved_before_it_has_caught_up(patch: Patch) -> None:
    patch.setattr(partition_change, "completed", completed_at_once)


@balance_mutant(CANCELLED, HALTED)
def a_move_that_is_taken_back_loses_what_was_to_go(patch: Patch) -> None:
    def kept(partition: PartitionImage) -> tuple[int, ...]:
        gone = {*partition.adding_replicas, *partition.removing_replicas}
        return tuple(replica for replica in partition.replicas if replica not in gone)

    patch.setattr(reassignment_control, "_original_replicas", kept)


@balance_mutant(CANCELLED, HALTED)
def copies_are_as_fast_as_they_can(patch: Patch) -> None:
    patch.setattr(ReplicationQuotas, "_quotas_of", lambda *_: iter(()))


@balance_mutant(BESIDE_BUSY, BUSY)
def leaders_are_chosen_without_their_load(patch: Patch) -> None:
    begin = LeaderSpread.__init__
    patch.setattr(
        LeaderSpread, "__init__", lambda self, image, loads, leaving=None: begin(self, image, {}, leaving)
    )


@balance_mutant(BESIDE_BUSY, BUSY)
def the_first_in_sync_leads(patch: Patch) -> None:
    def first(spread: Any, candidates: Any) -> int:
        chosen: int = candidates[0]
        return chosen

    patch.setattr(LeaderSpread, "choose", first)
