"""Tests for a thorough run only (`scripts/test --thorough`, which `.ci/run` uses).

The mark `thorough` is for slow tests that repeat tests of an ordinary run with more seeds, more points of
failure, more mutants, an older Spark, or Apache Kafka's broker. It is also for whole applications of Spark (a
submission to Kubernetes, `ottla pipeline run` until it is stopped); an ordinary run tests their parts.
"""

from collections.abc import Sequence
from typing import Any

import pytest

OPTION = "--thorough"
THOROUGH = pytest.mark.thorough


def some_of(values: Sequence[Any], *, of_each_run: int) -> list[Any]:
    """Return parameters for a test: the first are tested in each run, the others in a thorough run."""
    return [*values[:of_each_run], *(pytest.param(one, marks=THOROUGH) for one in values[of_each_run:])]


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that are marked thorough, unless this is a thorough run."""
    if config.getoption(OPTION):
        return
    left = [one for one in items if one.get_closest_marker(THOROUGH.name) is not None]
    config.hook.pytest_deselected(items=left)
    items[:] = [one for one in items if one.get_closest_marker(THOROUGH.name) is None]
