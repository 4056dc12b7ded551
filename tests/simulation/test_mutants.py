"""Each mutant, which lacks one protection, must be detected within a bounded number of seeds.

It must be detected by a check: a mutant that makes a node fail with an exception of its own proves nothing,
and fails the test.
"""

import pytest

from tests.simulation.balance_mutants import BALANCE_MUTANTS
from tests.simulation.controller_mutants import CONTROLLER_MUTANTS
from tests.simulation.group_mutants import GROUP_MUTANTS
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.share_mutants import SHARE_MUTANTS
from tests.simulation.txn_mutants import TXN_MUTANTS
from tests.simulation.virtual_loop import Bug
from tests.thorough import some_of

pytestmark = pytest.mark.slow

OF_EACH_RUN = [
    *(
        one
        for mutants in (MUTANTS, GROUP_MUTANTS, TXN_MUTANTS, BALANCE_MUTANTS)
        for one in some_of(mutants, of_each_run=4)
    ),
    *SHARE_MUTANTS,  # all of them: most are detected in a second or two
    *CONTROLLER_MUTANTS,
]


@pytest.mark.parametrize("mutant", OF_EACH_RUN, ids=lambda mutant: mutant.name)
def test_the_simulation_detects_a_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int) -> bool:
        try:
            mutant.run(seed)
        except Bug:
            raise
        except AssertionError:
            return True
        return False

    mutant.plant(monkeypatch)

    assert any(fails(seed) for seed in mutant.seeds), f"{mutant.name} passes {len(mutant.seeds)} seeds"


def test_the_rules_of_exactly_once_have_mutants() -> None:
    assert {
        "the_last_stable_offset_is_one_too_high",
        "a_stale_producer_may_end_a_transaction",
        "a_repeated_marker_is_written_again",
        "the_end_of_a_transaction_does_not_move_the_epoch",
    } <= {mutant.name for mutant in TXN_MUTANTS}


def test_each_area_has_enough_mutants() -> None:
    assert len(MUTANTS) >= 15 and len(GROUP_MUTANTS) >= 15 and len(TXN_MUTANTS) >= 15
    assert len(SHARE_MUTANTS) >= 15 and len(BALANCE_MUTANTS) >= 10
