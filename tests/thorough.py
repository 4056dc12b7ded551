"""What an ordinary run leaves to a thorough one (`scripts/test --thorough`, as `.ci/run` asks for).

Marked `thorough` is what takes long and shows once more what an ordinary run shows: with more seeds, at more
points of failure, by more mutants, on an older Spark, on Apache Kafka's broker. So are whole applications of
Spark (a submission to Kubernetes, `ottla pipeline run` until it is told to end), of which an ordinary run
tests the parts.
"""

from collections.abc import Sequence
from typing import Any

import pytest

OPTION = "--thorough"
THOROUGH = pytest.mark.thorough


def some_of(values: Sequence[Any], *, of_each_run: int) -> list[Any]:
    """As parameters of a test: the first are tried in each run, the others in a thorough one."""
    return [*values[:of_each_run], *(pytest.param(one, marks=THOROUGH) for one in values[of_each_run:])]


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave away what is for a thorough run, if this is none."""
    if config.getoption(OPTION):
        return
    left = [one for one in items if one.get_closest_marker(THOROUGH.name) is not None]
    config.hook.pytest_deselected(items=left)
    items[:] = [one for one in items if one.get_closest_marker(THOROUGH.name) is None]
