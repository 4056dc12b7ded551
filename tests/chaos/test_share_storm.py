"""A share group of real processes under faults: no record is lost, a finished record is not delivered again,
and a rejected record has one dead letter.

This storm is short; `scripts/chaos --shares --minutes 10 --seed N` runs long ones.
"""

from pathlib import Path

import pytest

from tests.chaos.share_storm import share_storm

pytestmark = pytest.mark.slow
FAULTS = ("kill leader", "kill coordinator", "crash workers")


def test_a_share_group_survives_a_storm_of_faults(tmp_path: Path) -> None:
    outcome = share_storm(tmp_path, seed=1, seconds=20, faults=FAULTS, at_least=3, rate=4)

    assert outcome.problems == []
    assert outcome.finished > 200, outcome
    assert outcome.deliveries[2] > 0, outcome
    assert outcome.letters > 0, outcome
