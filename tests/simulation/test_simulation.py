"""Whole brokers under random faults: a few seeds of each kind of cluster.

They check that each kind of cluster survives its faults. `scripts/simulate --seeds A-B` runs more seeds; a
fault found there becomes a scenario or a mutant with seeds of its own.
"""

import pytest

from tests.simulation.nemesis import TXN_KINDS
from tests.simulation.simulation import Options, Simulation, run_seed
from tests.thorough import some_of

pytestmark = pytest.mark.slow

POWER = ("power", "power_at_disk_step", "kill", "kill_all", "slow_disk", "isolate", "split", "reset")


@pytest.mark.parametrize("seed", some_of(range(14), of_each_run=6))
def test_three_nodes_lose_nothing(seed: int) -> None:
    """Every second seed has a consumer group of KIP-848, too."""
    options = Options(seconds=5.0, consumers=seed % 2 * 4)

    assert run_seed(seed, options).metadata_offset > 0


@pytest.mark.parametrize("seed", some_of(range(4000, 4004), of_each_run=2))
def test_transactions_are_visible_as_a_whole_or_not_at_all(seed: int) -> None:
    """One producer uses two-phase commit; every second seed compacts the logs of the coordinators."""
    options = Options(
        seconds=4.0, transactions=4, two_phase=1, copiers=2, cleans=seed % 2 == 1, kinds=TXN_KINDS
    )
    simulation = Simulation(seed, options)

    simulation.run()

    assert simulation.txn_history.committed_count()


@pytest.mark.parametrize("seed", some_of(range(6), of_each_run=2))
def test_a_lone_node_keeps_what_it_acknowledged(seed: int) -> None:
    """Every second seed has transactions, too."""
    options = Options(nodes=1, seconds=6.0, transactions=seed % 2 * 3, copiers=seed % 2)

    outcome = run_seed(seed, options)

    assert outcome.acknowledged and outcome.read


@pytest.mark.parametrize("seed", some_of(range(1000, 1004), of_each_run=2))
def test_three_voters_keep_what_they_answered(seed: int) -> None:
    assert run_seed(seed, Options(replicas=1, seconds=6.0)).metadata_offset > 0


@pytest.mark.parametrize("seed", some_of(range(2000, 2004), of_each_run=2))
def test_answered_metadata_survive_any_loss_of_power(seed: int) -> None:
    options = Options(replicas=1, seconds=6.0, may_lose=True, kinds=POWER)

    assert run_seed(seed, options).metadata_offset > 0


@pytest.mark.parametrize("seed", some_of(range(3000, 3003), of_each_run=1))
def test_brokers_without_a_vote_follow_the_voters(seed: int) -> None:
    assert run_seed(seed, Options(nodes=4, replicas=1, seconds=6.0)).metadata_offset > 0


@pytest.mark.parametrize(("nodes", "transactions"), [(1, 0), (3, 2)])
def test_a_seed_gives_the_same_run_again(nodes: int, transactions: int) -> None:
    options = Options(nodes=nodes, seconds=3.0, keep_trace=True, transactions=transactions, copiers=1)
    one, other = (run_seed(7, options) for _ in "ab")

    assert one.trace and one.trace == other.trace
    assert one.digest == other.digest
