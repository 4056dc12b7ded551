"""Real processes are killed, paused and stopped under load: no acknowledged record is lost, no record is
duplicated, and transactions are atomic.

This storm is short; `scripts/chaos --minutes 10 --seed N` runs long ones.
"""

from pathlib import Path

import pytest

from tests.chaos.storm import storm

pytestmark = pytest.mark.slow


def test_a_storm_of_faults_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    outcome = storm(tmp_path, seed=1, seconds=25, at_least=5, rate=15)

    assert outcome.problems == []
    assert outcome.acknowledged > 1_000, outcome
    assert outcome.transactions["committed"] > 10 and outcome.transactions["aborted"] > 0, outcome
