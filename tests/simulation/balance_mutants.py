"""Mutants that remove one protection of a balance each; the balance scenarios detect every one."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ottla.metadata_raft import partition_change, reassignment_control
from ottla.metadata_raft.balance_plan import BalancePlan, _State
from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.leader_spread import LeaderSpread
from ottla.node.metadata import balancer
from ottla.node.metadata.balancer import Balancer
from ottla.node.replica.replication_quota import ReplicationQuotas
from tests.simulation import balance_scenarios
from tests.simulation.balance_scenarios import BUSY, HALTED, OPTIONS
from tests.simulation.mutants import Mutant, Patch, Plant, add_mutant, complete_at_once, played
from tests.simulation.scenarios import Scenario
from tests.simulation.simulation import Options

MAX_SEEDS: Final = 10
BALANCE_MUTANTS: list[Mutant] = []


def balance_mutant(scenario: Scenario, options: Options) -> Callable[[Plant], Plant]:
    """Add a mutant that a scenario must detect."""
    return add_mutant(BALANCE_MUTANTS, played(scenario, options), seeds=MAX_SEEDS)


MEMBERSHIP: Final = balance_scenarios.brokers_join_and_leave_while_nodes_fail
CONTROLLER: Final = balance_scenarios.the_controller_fails_while_replicas_move
CANCELLED: Final = balance_scenarios.a_balance_is_cancelled
NEXT_TO_BUSY: Final = balance_scenarios.a_broker_fails_next_to_a_busy_one


@balance_mutant(MEMBERSHIP, OPTIONS)
def moves_ignore_racks(patch: Patch) -> None:
    patch.setattr(_State, "_keeps_racks", lambda *_: True)


@balance_mutant(balance_scenarios.a_node_is_down_when_replicas_move, OPTIONS)
def partitions_with_a_replica_that_is_down_move(patch: Patch) -> None:
    """Their moves do not end, so no further step follows."""
    begin = _State.__init__

    def without_stuck(self: _State, *args: Any) -> None:
        begin(self, *args)
        self._pinned -= self._stuck
        self._stuck = set()

    patch.setattr(_State, "__init__", without_stuck)


@balance_mutant(MEMBERSHIP, OPTIONS)
def excluded_brokers_are_ignored(patch: Patch) -> None:
    patch.setattr(balancer, "excluded_brokers", lambda _: frozenset())


@balance_mutant(CANCELLED, HALTED)
def a_step_does_not_wait_for_the_previous_one(patch: Patch) -> None:
    patch.setattr(balancer, "ongoing_reassignments", lambda _: iter(()))


@balance_mutant(CONTROLLER, OPTIONS)
def leaders_stay_where_failovers_put_them(patch: Patch) -> None:
    patch.setattr(balancer, "led_by_others", lambda _: [])


@balance_mutant(CONTROLLER, OPTIONS)
def a_requested_balance_ends_with_its_first_step(patch: Patch) -> None:
    begin = Balancer._begin

    async def begin_and_end(self: Balancer, plan: BalancePlan, most: int) -> None:
        await begin(self, plan, most)
        await self._end()

    patch.setattr(Balancer, "_begin", begin_and_end)


@balance_mutant(CONTROLLER, OPTIONS)
def a_requested_balance_ends_with_its_controller(patch: Patch) -> None:
    is_due = Balancer._is_due
    epochs: dict[asyncio.AbstractEventLoop, int] = {}  # of the controller at which the balance was requested

    def is_due_at_first_controller(self: Balancer) -> bool:
        epoch = self._metadata.controller_epoch
        return is_due(self) and epochs.setdefault(asyncio.get_running_loop(), epoch) == epoch

    patch.setattr(Balancer, "_is_due", is_due_at_first_controller)


@balance_mutant(CONTROLLER, OPTIONS)
def a_replica_is_moved_before_it_has_caught_up(patch: Patch) -> None:
    patch.setattr(partition_change, "complete_reassignment", complete_at_once)


@balance_mutant(CANCELLED, HALTED)
def a_cancelled_move_loses_the_replicas_to_remove(patch: Patch) -> None:
    def kept(partition: PartitionImage) -> tuple[int, ...]:
        gone = {*partition.adding_replicas, *partition.removing_replicas}
        return tuple(replica for replica in partition.replicas if replica not in gone)

    patch.setattr(reassignment_control, "_original_replicas", kept)


@balance_mutant(CANCELLED, HALTED)
def replication_is_not_throttled(patch: Patch) -> None:
    patch.setattr(ReplicationQuotas, "_quotas_of", lambda *_: iter(()))


@balance_mutant(NEXT_TO_BUSY, BUSY)
def leaders_are_chosen_without_their_load(patch: Patch) -> None:
    begin = LeaderSpread.__init__
    patch.setattr(
        LeaderSpread, "__init__", lambda self, image, loads, leaving=None: begin(self, image, {}, leaving)
    )


@balance_mutant(NEXT_TO_BUSY, BUSY)
def the_first_in_sync_leads(patch: Patch) -> None:
    def first(spread: Any, candidates: Any) -> int:
        chosen: int = candidates[0]
        return chosen

    patch.setattr(LeaderSpread, "choose", first)
