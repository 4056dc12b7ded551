"""Seeds of storms: no acknowledged entry is lost, and no two voters apply different entries."""

from collections.abc import Callable

import pytest

from ottla.metadata_raft.raft_member import RaftMember
from tests.simulation.raft import fuzz, mutants


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_three_voters_keep_acknowledged_entries_in_a_storm(seed: int) -> None:
    assert fuzz.run(seed).acknowledged


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1004))
def test_five_voters_keep_acknowledged_entries_in_a_storm(seed: int) -> None:
    assert fuzz.run(seed, voters=5, seconds=8.0).acknowledged


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2005))
def test_acknowledged_entries_survive_changes_of_voters_in_a_storm(seed: int) -> None:
    assert fuzz.run(seed, members=True).acknowledged


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4002, 4004, 4005, 4014, 4017, 4033, 4035])
def test_acknowledged_entries_survive_volumes_that_are_rolled_back_in_a_storm(seed: int) -> None:
    outcome = fuzz.run(seed, rollbacks=True)

    assert outcome.acknowledged and outcome.restored


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "voters", "members"),
    [
        *((seed, 3, False) for seed in (4002, 4009, 4011, 4013, 4027, 8007, 110_056)),
        *((seed, 5, False) for seed in (4000, 4001)),
        *((seed, 3, True) for seed in (4000, 4001)),
        *(pytest.param(seed, 3, False, marks=pytest.mark.thorough) for seed in range(20_000, 20_030)),
    ],
)
def test_acknowledged_entries_survive_directories_that_are_restored_in_a_storm(
    seed: int, voters: int, members: bool
) -> None:
    assert fuzz.run(seed, voters=voters, members=members, backups=True).acknowledged


def test_the_same_seed_gives_the_same_run() -> None:
    assert fuzz.run(7, seconds=5) == fuzz.run(7, seconds=5)
    assert fuzz.run(4009, seconds=5, backups=True) == fuzz.run(4009, seconds=5, backups=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "first", "backups"),  # the first seed that detects it
    [
        (mutants.acks_before_it_syncs, 83, False),
        (mutants.commits_unverified_entries, 20, False),
        (mutants.truncates_matching_entries, 8, False),
        (mutants.accepts_a_copied_directory, 4002, True),
        (mutants.counts_votes_of_copies, 4011, True),
    ],
)
def test_a_voter_without_a_protection_is_detected(
    mutant: Callable[..., RaftMember], first: int, backups: bool
) -> None:
    def fails(seed: int) -> bool:
        try:
            fuzz.run(seed, make_member=mutant, backups=backups)
        except (AssertionError, IndexError):  # a commit that lies behind the end of the log
            return True
        return False

    assert any(fails(seed) for seed in (first, *range(60)))
