"""Schedules of the Raft paper: ours survives them, and a voter without the protection does not."""

from collections.abc import Callable

import pytest

from ottla.metadata_raft.raft_member import RaftMember
from tests.simulation.raft import mutants, schedules

CASES = [
    (schedules.figure_8, mutants.commits_old_terms_by_count),
    (schedules.a_voter_is_asked_again_after_a_crash, mutants.forgets_its_vote),
]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("schedule", [schedule for schedule, _ in CASES])
def test_applied_entries_are_never_replaced(schedule: Callable[..., None], seed: int) -> None:
    schedule(seed)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("schedule", "mutant"), CASES)
def test_a_voter_without_the_protection_is_detected(
    schedule: Callable[..., None], mutant: Callable[..., RaftMember], seed: int
) -> None:
    with pytest.raises(
        AssertionError, match=r"two entries|contradicts a committed|lead (in|the) (term|epoch)"
    ):
        schedule(seed, mutant)
