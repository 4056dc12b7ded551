"""Seeds of the storm: nothing that was acknowledged is lost, no two voters apply different entries."""

from collections.abc import Callable

import pytest

from metadata_raft.raft_member import RaftMember
from tests.simulation.raft import fuzz, mutants


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_three_voters_in_a_storm(seed: int) -> None:
    assert fuzz.run(seed).acked


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1004))
def test_five_voters_in_a_storm(seed: int) -> None:
    assert fuzz.run(seed, voters=5, seconds=8.0).acked


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2005))
def test_voters_that_come_and_go_in_a_storm(seed: int) -> None:
    assert fuzz.run(seed, members=True).acked


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4000, 4002, 4003, 4005, 4008, 4012])
def test_voters_whose_volumes_are_rolled_back_in_a_storm(seed: int) -> None:
    outcome = fuzz.run(seed, rollbacks=True)

    assert outcome.acked and outcome.put_back


def test_the_same_seed_goes_the_same_way() -> None:
    assert fuzz.run(7, seconds=5) == fuzz.run(7, seconds=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "first"),  # the seed that found it first
    [
        (mutants.acks_before_it_syncs, 83),
        (mutants.commits_what_it_was_not_shown, 20),
        (mutants.cuts_off_what_agrees, 8),
    ],
)
def test_a_voter_without_a_protection_is_found_out(mutant: Callable[..., RaftMember], first: int) -> None:
    def fails(seed: int) -> bool:
        try:
            fuzz.run(seed, make_member=mutant)
        except (AssertionError, IndexError):  # a commit that lies behind the end of the log
            return True
        return False

    assert any(fails(seed) for seed in (first, *range(60)))
