"""Whole brokers under faults, seed by seed; `scripts/simulate` runs as many as one likes."""

import pytest

from tests.simulation.simulation import Options, run_seed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(60))
def test_a_lone_node_keeps_what_it_acknowledged(seed: int) -> None:
    outcome = run_seed(seed, Options(nodes=1, seconds=12.0))

    assert outcome.acknowledged and outcome.read


def test_the_same_seed_is_the_same_run() -> None:
    one, other = (run_seed(7, Options(nodes=1, seconds=12.0, keep_trace=True)) for _ in range(2))

    assert one.trace == other.trace
    assert one.digest == other.digest
