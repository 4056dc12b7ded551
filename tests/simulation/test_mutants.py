"""Each protection that is taken out is missed by the simulation, within a bounded number of seeds."""

import pytest

from logstore.errors import KafkaError
from tests.simulation.group_mutants import GROUP_MUTANTS
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.txn_mutants import TXN_MUTANTS
from tests.simulation.virtual_loop import SimulationError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mutant", [*MUTANTS, *GROUP_MUTANTS, *TXN_MUTANTS], ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_out(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int) -> bool:
        try:
            mutant.run(seed)
        except (SimulationError, AssertionError, IndexError, KafkaError):
            return True
        return False

    mutant.plant(monkeypatch)

    assert any(fails(seed) for seed in mutant.seeds), f"{mutant.name} passes {len(mutant.seeds)} seeds"


def test_there_are_mutants_of_everything_that_was_promised() -> None:
    assert len(MUTANTS) >= 15 and len(GROUP_MUTANTS) >= 15 and len(TXN_MUTANTS) >= 15
