"""Tests of the sink's protocol under crashes, pauses, retries and zombies at every request, by seed."""

import pytest

from tests.simulation.sink_model import Model
from tests.simulation.sink_mutants import MUTANTS, Mutate

pytestmark = pytest.mark.slow

SEEDS, THOROUGH_SEEDS = 10, 30
MAX_SEEDS = 150  # one of which must detect a mutant
# Mutants that few seeds detect, with the first one that does: it is tried first, as a hundred others take
# seconds.
FOUND_BY = {"an_old_driver_aborts_open_transactions": 98, "drivers_that_share_slots": 110}


@pytest.mark.parametrize(
    ("two_phase", "expires"),
    [(True, False), (False, False), (False, True)],
    ids=["two phases", "one phase", "one phase, and time is over at any moment"],
)
def test_rows_are_written_once_and_in_order_whatever_fails(
    two_phase: bool, expires: bool, is_thorough: bool
) -> None:
    for seed in range(THOROUGH_SEEDS if is_thorough else SEEDS):
        model = Model(seed, two_phase=two_phase, expires=expires)

        model.run()

        model.check()


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_the_simulation_detects_a_missing_rule(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)

    def is_wrong(seed: int) -> bool:
        model = Model(seed, two_phase=seed % 2 == 0, expires=seed % 2 == 1)
        try:
            model.run()
            model.check()
        except AssertionError:
            return True
        return False

    first = FOUND_BY.get(mutate.__name__, 0)
    assert any(is_wrong(seed) for seed in (first, *range(MAX_SEEDS)))
