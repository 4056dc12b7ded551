"""The report of `scripts/bench`: medians and ratios of the turns of two servers."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))

from benchmarks.report import Report


def report(ottla: list[float], kafka: list[float]) -> Report:
    made = Report()
    for server, values in (("ottla", ottla), ("kafka", kafka)):
        for value in values:
            made.add("small requests", server, {"requests/s": value, "CPU us/request": 1 / value})
    return made


def test_a_ratio_is_of_neighbouring_turns() -> None:
    """The machine became three times as fast during the run; a ratio of medians would be 200 / 90."""
    slow_then_fast = report([100, 200, 310, 300, 150], [50, 100, 150, 90, 75])

    assert slow_then_fast.ratios("small requests", "requests/s") == pytest.approx((2.0, 2.0, 2.07), abs=0.01)


def test_the_middle_half_of_one_turn_is_that_turn() -> None:
    assert report([30], [20]).ratios("small requests", "requests/s") == (1.5, 1.5, 1.5)


def test_a_failed_turn_drops_only_its_own_pair() -> None:
    made = report([100], [50])
    made.add("small requests", "ottla", {})
    made.add("small requests", "kafka", {"requests/s": 1000})
    made.add("small requests", "ottla", {"requests/s": 300})
    made.add("small requests", "kafka", {"requests/s": 150})

    assert made.ratios("small requests", "requests/s") == (2.0, 2.0, 2.0)
    assert made.median("small requests", "kafka", "requests/s") == 150


def test_there_is_no_ratio_without_figures_of_kafka() -> None:
    alone = report([100, 200], [])

    assert alone.ratios("small requests", "requests/s") is None
    assert [row["reached"] for row in alone.rows([])] == [None, None]


def test_there_is_no_ratio_if_a_figure_of_kafka_is_zero() -> None:
    """A ratio of the other turns could contradict the medians."""
    made = Report()
    for ours, theirs in ((1.0, 0.0), (3.0, 2.0)):
        made.add("idle", "ottla", {"MB RSS more": ours})
        made.add("idle", "kafka", {"MB RSS more": theirs})

    assert made.ratios("idle", "MB RSS more") is None
    assert made.median("idle", "ottla", "MB RSS more") == 2.0
