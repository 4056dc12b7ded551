"""A share group under random faults, beside all other clients of a cluster, for some seeds.

`scripts/simulate --seeds A-B --workers 5` runs more seeds. The checks are those of `share_invariants`,
`share_history` and `share_letters`. In each run the group has some of the traits: dead letters, back-off,
delayed delivery, and an administrator that alters and deletes its offsets.
"""

import pytest

from tests.simulation.nemesis import KINDS, LETTER_KINDS
from tests.simulation.share_invariants import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVING,
    AVAILABLE,
    SPENT,
    Known,
    was_taken_back,
)
from tests.simulation.share_traits import TRAITS, traits_of
from tests.simulation.simulation import Options, Simulation
from tests.thorough import some_of

pytestmark = pytest.mark.slow
# The first four have all traits between them.
SEEDS = [37, 28, 22, 27, 20, 21, 23, 29, 31, 33, 34, 35, 38, 39, 139]
OF_EACH_RUN = 4


def play(seed: int, options: Options) -> Simulation:
    simulation = Simulation(seed, options)
    simulation.run()
    share = simulation.share
    assert share is not None and share.history.delivered >= share.history.answered > 0
    assert share.invariants.terms >= len(share.partitions)
    return simulation


@pytest.mark.parametrize("seed", some_of(SEEDS, of_each_run=OF_EACH_RUN))
def test_no_record_is_lost_and_none_is_held_twice(seed: int) -> None:
    play(seed, Options(seconds=3.0, workers=5, kinds=LETTER_KINDS, traits=TRAITS))


@pytest.mark.parametrize("seed", some_of([17, 15, 16], of_each_run=1))
def test_aborted_records_are_not_delivered(seed: int) -> None:
    play(seed, Options(seconds=3.0, workers=5, transactions=2, kinds=LETTER_KINDS, traits=TRAITS))


@pytest.mark.parametrize("seed", some_of(range(4), of_each_run=1))
def test_a_lone_node_keeps_what_it_answered(seed: int) -> None:
    play(seed, Options(nodes=1, seconds=3.0, workers=3, traits=TRAITS))


def test_records_read_in_a_thread_are_kept_while_another_partition_is_read() -> None:
    play(13, Options(seconds=3.0, workers=5, kinds=LETTER_KINDS, traits=TRAITS))


def test_a_rejected_write_and_the_end_of_its_session_may_come_in_one_turn() -> None:
    play(3448, Options(seconds=20.0, workers=5, transactions=2, kinds=KINDS, traits=TRAITS))


PENDING = Known(ACKNOWLEDGED, 2, "m", 500, 4)


@pytest.mark.parametrize(
    ("new", "is_taken_back"),
    [
        (Known(AVAILABLE, 2, "m", 500, 7), True),  # released again, as the session ended
        (Known(ARCHIVING, 2, "m", 500, 7), True),  # rejected instead
        (Known(AVAILABLE, 2, None, 0, 0), True),  # its lock has ended
        (Known(SPENT, 2, None, 0, 0), True),  # likewise, at the delivery limit
        (Known(ACQUIRED, 2, "m", 500, 0), False),  # held again: one move
        (Known(ACKNOWLEDGED, 2, None, 0, 0), False),  # written
        (Known(AVAILABLE, 2, "n", 500, 7), False),  # another member must not have held it in between
    ],
)
def test_a_withdrawn_end_and_another_move_in_one_turn_are_told_apart_from_a_single_move(
    new: Known, is_taken_back: bool
) -> None:
    assert was_taken_back(PENDING, new, now_ms=600) is is_taken_back


def test_a_written_end_is_not_taken_back_while_its_lock_lasts() -> None:
    assert not was_taken_back(PENDING, Known(AVAILABLE, 2, None, 0, 0), now_ms=400)


def test_the_seeds_of_each_run_have_all_traits() -> None:
    found = [traits_of(seed, TRAITS) for seed in SEEDS[:OF_EACH_RUN]]

    assert any(one.has_letters for one in found) and any(one.backoff_ms for one in found)
    assert any(one.delays for one in found) and any(one.resets for one in found)


def test_a_seed_gives_the_same_run_again() -> None:
    options = Options(seconds=2.0, workers=3, traits=TRAITS, keep_trace=True)
    one, other = (Simulation(7, options).run() for _ in "ab")

    assert one.trace and one.trace == other.trace
